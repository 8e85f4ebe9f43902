"""A ConfigMap is kept equal to what should be by patches of the keys that differ."""

import msgspec
import pytest

from rescheduler.controller.effects import NotLeaderError
from rescheduler.controller.mirror import READ_AGAIN_S, ConfigMapKeys, Mirror
from rescheduler.controller.sender import ApiSender, DryRunSender
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ConflictError, TryLaterError
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Response
from rescheduler.model.records import ObjectKey
from rescheduler.model.times import parse_timestamp

PATH = "/api/v1/namespaces/rescheduler/configmaps"
KEY = ObjectKey("rescheduler", "gate-keys")


class Server:
    """One ConfigMap; ``data`` None: it does not exist. ``meanwhile``: called once, before the next request is handled."""

    def __init__(self, data):
        self.data, self.asked, self.fails, self.version = data, [], False, 1
        self.meanwhile, self.annotations = lambda: None, {}

    def send(self, request):
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        self.asked.append(f"{request.method} {request.path}")
        if self.fails:
            return Response(503, b"")
        if self.data is None and request.method != "POST":
            return Response(
                404, b'{"kind":"Status","code":404,"details":{"name":"gate-keys","kind":"configmaps"}}'
            )
        if request.method != "GET":
            body = msgspec.json.decode(request.body)
            if request.method == "PATCH" and body["metadata"]["resourceVersion"] != str(self.version):
                return Response(409, msgspec.json.encode({"kind": "Status", "reason": "Conflict"}))
            self.store({**(self.data or {}), **body["data"]})
            self.annotations = self.annotations | body["metadata"].get("annotations", {})
        metadata = {"resourceVersion": str(self.version), "annotations": self.annotations}
        stored = {"metadata": metadata, "data": self.data}
        return Response(200, msgspec.json.encode(stored))

    def store(self, data):
        self.data = {key: text for key, text in data.items() if text is not None}
        self.version += 1


@pytest.fixture
def mirror(mocker):
    def make(data, *, lenient=False, sender=None, leads=lambda: True, lasts_s=0.0, **waits):
        server = Server(data)
        api = KubeApi(server, NO_RETRY)
        real = ApiSender(api=api, gate=mocker.Mock(), still_leader=leads)
        switch = ConfigMapKeys(api, sender or real, KEY)
        return Mirror(switch=switch, lenient=lenient, lasts_s=lasts_s, **waits), server

    return make


def test_what_differs_is_written_in_one_patch(mirror):
    follower, server = mirror({"same": "a", "changed": "b", "leftover": "c"})
    follower.follow({"same": "a", "changed": "x", "new": "d"}, 0.0)
    assert server.data == {"same": "a", "changed": "x", "new": "d"}
    assert server.asked == [f"GET {PATH}/gate-keys", f"PATCH {PATH}/gate-keys"]


def test_nothing_is_sent_while_nothing_differs_and_it_is_read_again_after_a_while(mirror):
    follower, server = mirror({"a": "1"})
    follower.follow({"a": "1"}, 0.0)
    follower.follow({"a": "1"}, READ_AGAIN_S - 1)
    assert server.asked == [f"GET {PATH}/gate-keys"]
    server.data = {}
    follower.follow({"a": "1"}, READ_AGAIN_S)
    assert server.data == {"a": "1"}


def test_after_a_failure_it_is_read_again_before_it_is_written(mirror):
    follower, server = mirror({})
    follower.follow({}, 0.0)
    server.fails = True
    with pytest.raises(TryLaterError):
        follower.follow({"a": "1"}, 1.0)
    server.fails, server.asked = False, []
    follower.follow({"a": "1"}, 2.0)
    assert server.asked == [f"GET {PATH}/gate-keys", f"PATCH {PATH}/gate-keys"]


def test_a_missing_config_map_is_made_and_an_empty_one_is_not_missed(mirror):
    follower, server = mirror(None)
    follower.follow({}, 0.0)
    assert server.data is None
    follower.follow({"a": "1"}, 1.0)
    assert server.data == {"a": "1"}
    assert server.asked[-1] == f"POST {PATH}"


def test_a_config_map_that_somebody_deleted_is_made_with_all_its_keys(mirror):
    follower, server = mirror({"a": "1", "b": "2"})
    follower.follow({"a": "1", "b": "2"}, 0.0)
    server.data = None
    follower.follow({"a": "1", "c": "3"}, 1.0)
    assert server.data == {"a": "1", "c": "3"}


def test_lenient_leaves_a_value_that_is_right_for_another_key(mirror):
    follower, server = mirror({"a": "room-2"}, lenient=True)
    follower.follow({"a": "room-1", "b": "room-2"}, 0.0)
    assert server.data == {"a": "room-2", "b": "room-2"}


def test_a_dry_run_shows_the_patch_and_sends_none(mirror):
    shown = []
    follower, server = mirror({"old": "room"}, sender=DryRunSender(shown.append))
    follower.follow({"uid-1": "room"}, 0.0)
    assert [str(call) for call in shown] == [
        f'PATCH(merge) {PATH}/gate-keys {{"metadata":{{"resourceVersion":"1"}},"data":{{"uid-1":"room","old":null}}}}'
    ]
    assert server.data == {"old": "room"}


# An old leader that sleeps: the new leader writes its key while the old one is between two of its calls.


def new_leader(server, leads):
    """Takes over and writes its own key, which it then proves and relies on."""
    leads.clear()
    server.store({**(server.data or {}), "theirs": "room-9"})


@pytest.mark.parametrize("known_before", [True, False], ids=["read-before", "read-after"])
def test_a_leader_that_slept_before_it_read_or_wrote_takes_no_key_away(mirror, known_before):
    leads = {"me"}
    follower, server = mirror({"mine": "room-1"}, leads=lambda: bool(leads))
    if known_before:
        follower.read(0.0)
    new_leader(server, leads)
    with pytest.raises(NotLeaderError):
        follower.follow({}, 1.0)
    assert server.data == {"mine": "room-1", "theirs": "room-9"}


def test_a_leader_that_slept_between_its_check_and_its_write_takes_no_key_away(mirror):
    leads = {"me"}
    follower, server = mirror({"mine": "room-1"}, leads=lambda: bool(leads))
    follower.read(0.0)
    server.meanwhile = lambda: new_leader(server, leads)  # after the check, before the patch arrives
    with pytest.raises(ConflictError):
        follower.follow({}, 1.0)
    assert server.data == {"mine": "room-1", "theirs": "room-9"}


def test_a_key_that_somebody_else_wrote_is_read_before_anything_is_removed(mirror):
    follower, server = mirror({"a": "1"})
    follower.follow({"a": "1"}, 0.0)
    server.store({"a": "1", "b": "by hand"})
    with pytest.raises(ConflictError):
        follower.follow({"a": "2"}, 1.0)
    follower.follow({"a": "2"}, 2.0)
    assert server.data == {"a": "2"}


def test_several_writes_follow_each_other_without_reading_again(mirror):
    follower, server = mirror({})
    for number in range(3):
        follower.follow({"a": str(number)}, float(number))
    assert server.data == {"a": "2"}
    assert [line.split()[0] for line in server.asked] == ["GET", "PATCH", "PATCH", "PATCH"]


# Keys that end if nobody renews them.


def valid_until_s(server):
    text = server.annotations.get("rescheduler.dev/valid-until")
    return parse_timestamp(text) if text else 0.0


def test_keys_are_valid_for_a_while_and_are_renewed_in_time(mirror):
    follower, server = mirror({}, lasts_s=60.0)
    follower.follow({"a": "1"}, 1000.0)
    assert valid_until_s(server) == 1060.0
    follower.follow({"a": "1"}, 1019.0)
    assert len(server.asked) == 2, "still valid for long enough"
    follower.follow({"a": "1"}, 1021.0)
    assert valid_until_s(server) == 1081.0


def test_keys_of_a_leader_that_ended_are_renewed_before_they_are_relied_on(mirror):
    follower, server = mirror({"a": "1"}, lasts_s=60.0)
    server.annotations = {"rescheduler.dev/valid-until": "1970-01-01T00:00:10Z"}
    follower.follow({"a": "1"}, 1000.0)
    assert valid_until_s(server) == 1060.0


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-45T00:00:00Z"])
def test_a_time_limit_that_cannot_be_read_is_none(mirror, text):
    follower, server = mirror({"a": "1"}, lasts_s=60.0)
    server.annotations = {"rescheduler.dev/valid-until": text}
    follower.follow({"a": "1"}, 1000.0)
    assert valid_until_s(server) == 1060.0


def test_without_keys_nothing_is_renewed(mirror):
    follower, server = mirror({}, lasts_s=60.0)
    for now_s in (1000.0, 1100.0, 1200.0):
        follower.follow({}, now_s)
    assert {line.split()[0] for line in server.asked} == {"GET"}


def test_what_is_no_gate_has_no_time_limit(mirror):
    follower, server = mirror({})
    follower.follow({"a": "1"}, 1000.0)
    assert server.annotations == {}


def test_what_may_wait_is_written_together_and_then_at_the_latest(mirror):
    follower, server = mirror({"a": "1"}, additions_wait_s=2.0, removals_wait_s=2.0)
    follower.follow({"a": "1", "b": "2"}, 10.0)
    assert (server.data, follower.behind, follower.write_at_s) == ({"a": "1"}, False, 12.0)
    follower.follow({"b": "2", "c": "3"}, 11.0)
    assert follower.write_at_s == 12.0
    follower.follow({"b": "2", "c": "3"}, 12.0)
    assert (server.data, follower.write_at_s) == ({"b": "2", "c": "3"}, None)
    assert len(server.asked) == 2


def test_what_must_not_wait_takes_along_what_may(mirror):
    follower, server = mirror({"a": "1"}, removals_wait_s=2.0)
    follower.follow({}, 10.0)
    assert server.data == {"a": "1"}
    follower.follow({"b": "2"}, 10.1)
    assert (server.data, follower.write_at_s) == ({"b": "2"}, None)


def test_a_difference_that_has_gone_is_waited_for_no_longer(mirror):
    follower, _ = mirror({"a": "1"}, removals_wait_s=2.0)
    follower.follow({}, 10.0)
    follower.follow({"a": "1"}, 11.0)
    assert follower.write_at_s is None
    follower.follow({}, 12.0)
    assert follower.write_at_s == 14.0


def test_keys_that_end_are_renewed_with_what_waits(mirror):
    follower, server = mirror({}, lasts_s=60.0, removals_wait_s=30.0)
    follower.follow({"a": "1", "b": "2"}, 1_790_000_000.0)
    follower.follow({"a": "1"}, 1_790_000_015.0)
    assert server.data == {"a": "1", "b": "2"}
    follower.follow({"a": "1"}, 1_790_000_021.0)
    assert server.data == {"a": "1"}
    assert valid_until_s(server) == 1_790_000_081.0
