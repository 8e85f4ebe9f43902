"""A ConfigMap is kept equal to what should be by patches of the keys that differ."""

import msgspec
import pytest

from rescheduler.controller.mirror import READ_AGAIN_S, ConfigMapKeys, Mirror
from rescheduler.controller.sender import ApiSender, DryRunSender
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import TryLaterError
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Response
from rescheduler.model.records import ObjectKey

PATH = "/api/v1/namespaces/rescheduler/configmaps"
KEY = ObjectKey("rescheduler", "gate-keys")


class Server:
    """One ConfigMap; ``data`` None: it does not exist."""

    def __init__(self, data):
        self.data, self.asked, self.fails = data, [], False

    def send(self, request):
        self.asked.append(f"{request.method} {request.path}")
        if self.fails:
            return Response(503, b"")
        if self.data is None and request.method != "POST":
            return Response(404, b"")
        if request.method != "GET":
            changes = msgspec.json.decode(request.body)["data"]
            self.data = {k: v for k, v in {**(self.data or {}), **changes}.items() if v is not None}
        return Response(200, msgspec.json.encode({"data": self.data}))


@pytest.fixture
def mirror(mocker):
    def make(data, *, lenient=False, sender=None):
        server = Server(data)
        api = KubeApi(server, NO_RETRY)
        real = ApiSender(api=api, gate=mocker.Mock(), still_leader=lambda: True)
        return Mirror(switch=ConfigMapKeys(api, sender or real, KEY), lenient=lenient), server

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
        f'PATCH(merge) {PATH}/gate-keys {{"data":{{"uid-1":"room","old":null}}}}'
    ]
    assert server.data == {"old": "room"}
