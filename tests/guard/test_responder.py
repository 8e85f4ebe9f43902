"""What the responder of EvictionRequests reports, as a table; what it hears, writes and withdraws."""

import json

import msgspec
import pytest

from harness import builders as b
from rescheduler.guard.asks import Asks
from rescheduler.guard.filer import Filer, FilerParts, GuardRules
from rescheduler.guard.filing import guarded_key
from rescheduler.guard.responder import HEARTBEAT_S, NEWS_S, Report, SeenTarget, due, report
from rescheduler.guard.responding import EvictionSource, Responding
from rescheduler.guard.settings import GuardSettings, WhenNoRoom
from rescheduler.model.decode import Decoder
from rescheduler.model.eviction_request import Progress, RequestedEviction, Requester, ResponderTurn
from rescheduler.model.kinds import Kind, requested_evictions
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.names import LABEL_GUARD, RESPONDER
from rescheduler.model.records import Namespace
from rescheduler.model.replacement_rules import ReplacementRules
from rescheduler.model.selectors import LabelSet
from tests import records

NOW = 1_800_000_000.0
SHOP = Namespace("shop", LabelSet({LABEL_GUARD: "enabled"}))


def pod(**more):
    built = (
        b.pod("web-1", namespace="shop").on("node-1").owner("ReplicaSet", "web", "u-web", "apps/v1").build()
    )
    return records.changed(built, **more)


def eviction(state="Active", begun_s=NOW - 10.0, **progress):
    return RequestedEviction(
        namespace="shop", name="e", uid="e-uid", pod_name="web-1", pod_uid=pod().uid,
        asked_by=(Requester("acme.io/drainer", "Eviction"),), turns=(ResponderTurn(RESPONDER, state),),
        reports=(Progress(started_at_s=begun_s, **progress),),
    )  # fmt: skip


def move(phase=MigrationPhase.RESERVING, **fields):
    named = {"name": guarded_key(pod().key, pod().uid).name, "uid": "m", "ttl_s": 150.0}
    named["requested_by"] = "EvictionRequest of acme.io/drainer"
    return records.move_of(pod(), phase, created_at_s=NOW - 9.0, **named, **fields)


FAILED = move(MigrationPhase.FAILED, reason="NoTarget", message="no node has room", finished_at_s=NOW)
DISTURBED = move(MigrationPhase.HANDING_OVER, node_name="node-2", eviction_requested_at_s=NOW - 400.0)
LANDED = move(MigrationPhase.SUCCEEDED, node_name="node-2", finished_at_s=NOW)
USED_UP = move(MigrationPhase.EVICTING, node_name="node-2", reason="DisruptionBudget")
LATE = NOW - 280.0
"""Then the limit is too near for another move."""
OFF = GuardSettings(enabled=False)
REFUSES = GuardSettings(when_no_room=WhenNoRoom.REFUSE)


@pytest.mark.parametrize(("of", "seen", "settings", "completed", "says"), [
    (eviction(), SeenTarget(namespace=SHOP, pod=pod()), None, False, "is to be moved"),
    (eviction(), SeenTarget(namespace=SHOP, pod=pod(), move=move()), None, False, "is being reserved"),
    (eviction(), SeenTarget(namespace=SHOP, pod=None, move=LANDED), None, True, "moved to node/node-2"),
    (eviction(begun_s=LATE), SeenTarget(namespace=SHOP, pod=pod(), move=FAILED), None, True, "NoTarget: no node has room"),
    (eviction(begun_s=LATE), SeenTarget(namespace=SHOP, pod=pod(), move=FAILED), REFUSES, False, "there is no room"),
    (eviction(), SeenTarget(namespace=SHOP, pod=pod(), move=FAILED), None, False, "a move failed"),
    (eviction(begun_s=NOW - 301.0), SeenTarget(namespace=SHOP, pod=pod()), None, True, "had no turn"),
    (eviction(begun_s=NOW - 900.0), SeenTarget(namespace=SHOP, pod=None, move=DISTURBED), None, False, "held on node-2"),
    (eviction(begun_s=NOW - 900.0), SeenTarget(namespace=SHOP, pod=pod(), move=USED_UP), None, False, "is held"),
    (eviction(), SeenTarget(namespace=SHOP, pod=pod(), stays="a protection"), None, True, "a protection"),
    (eviction(), SeenTarget(namespace=SHOP, pod=pod(), problem="over quota"), None, True, "over quota"),
    (eviction(), SeenTarget(namespace=None, pod=pod()), None, True, "not guarded"),
    (eviction(), SeenTarget(namespace=SHOP, pod=None), None, True, "gone"),
    (eviction(), SeenTarget(namespace=SHOP, pod=pod(deleting=True)), None, True, "ends"),
    (eviction(), SeenTarget(namespace=SHOP, pod=pod()), OFF, True, "guard.enabled"),
])  # fmt: skip
def test_what_is_said(of, seen, settings, completed, says):
    said = report(of, seen, settings or GuardSettings(), NOW)
    assert said.completed is completed
    assert says in said.message
    assert "ask again" not in said.message


@pytest.mark.parametrize("state", ["", "Inactive", "Interrupted", "Canceled", "Completed"])
def test_out_of_turn_it_says_nothing(state):
    assert report(eviction(state), SeenTarget(namespace=SHOP, pod=pod()), GuardSettings(), NOW) is None


def test_nothing_is_said_after_the_end_or_before_the_caches_can_know():
    seen = SeenTarget(namespace=SHOP, pod=None)
    assert report(eviction(completed_at_s=NOW), seen, GuardSettings(), NOW) is None
    assert report(eviction(begun_s=NOW - 1.0), seen, GuardSettings(), NOW) is None


def test_it_is_written_once_a_minute_for_news_after_twenty_seconds_and_for_the_end_at_once():
    said = Progress(started_at_s=NOW, heartbeat_at_s=NOW, message="a")
    assert due(Progress(started_at_s=NOW), Report(message="a"), NOW)
    assert not due(said, Report(message="a"), NOW + HEARTBEAT_S - 1)
    assert due(said, Report(message="a"), NOW + HEARTBEAT_S)
    assert not due(said, Report(message="b"), NOW + NEWS_S - 1)
    assert due(said, Report(message="b"), NOW + NEWS_S)
    assert due(said, Report(message="b", completed=True), NOW + 1)


class Cluster:
    """Caches and API server of one replica."""

    def __init__(self):
        self.objects = {kind: {} for kind in Kind}
        self.objects[Kind.NAMESPACE]["shop"] = SHOP
        self.objects[Kind.POD][pod().key] = pod()
        self.calls, self.evictions, self.leading, self.now_s = [], [eviction()], True, NOW
        parts = FilerParts(
            caches=self, api=self, rules=self.rules, leads=lambda: self.leading, now_s=lambda: self.now_s
        )
        self.filer = Filer(parts)
        source = EvictionSource(requested_evictions("v1beta1"), lambda: self.evictions)
        self.told = []
        self.responding = Responding(parts, self.filer, source, self.told.append)
        self.filer.listen_to(self.responding.step)

    def rules(self):
        return GuardRules(
            settings=GuardSettings(),
            replacements=ReplacementRules(),
            judges="default-scheduler".__eq__,
            own_namespace="rescheduler",
        )

    def passes(self, number=1):
        for _ in range(number):
            self.responding._again_at_s = float("-inf")
            self.filer.step()
            self.now_s += 1.0

    def look(self, kind, key):
        return self.objects[kind].get(key)

    def all_of(self, kind):
        return list(self.objects[kind].values())

    def complete(self):
        return True

    def create(self, path, body):
        self.calls.append(("create", body))

    def merge_patch(self, path, patch):
        self.calls.append(("patch", patch))

    def strategic_patch(self, path, patch):
        self.calls.append(("report", path, patch))


@pytest.fixture
def cluster():
    return Cluster()


def made(cluster):
    return [call[1] for call in cluster.calls if call[0] == "create"]


def test_its_turn_makes_one_move_in_the_name_of_the_requester_and_one_report(cluster):
    cluster.passes(4)
    (body,) = made(cluster)
    assert body["spec"]["requestedBy"] == "EvictionRequest of acme.io/drainer"
    ((_, path, patch),) = [call for call in cluster.calls if call[0] == "report"]
    assert path == "/apis/lifecycle.k8s.io/v1beta1/namespaces/shop/evictions/e/status"
    assert patch["metadata"] == {"uid": "e-uid"}
    (entry,) = patch["status"]["responders"]
    assert entry["name"] == RESPONDER
    assert {"heartbeatTime", "message", "expectedCompletionTime"} <= set(entry)
    assert "completionTime" not in entry


def test_all_are_heard_at_once_and_who_was_silent_longest_is_reported_on_first(cluster):
    cluster.evictions = []
    for number in range(60):
        one = pod(name=f"web-{number}", uid=f"u-{number}")
        cluster.objects[Kind.POD][one.key] = one
        cluster.evictions.append(
            msgspec.structs.replace(
                eviction(heartbeat_at_s=NOW - 100.0 - number),
                pod_name=one.name,
                pod_uid=one.uid,
                uid=f"e-{number}",
            )
        )
    cluster.passes()
    assert cluster.filer.asks.waiting(cluster.now_s) == 60
    uids = [call[2]["metadata"]["uid"] for call in cluster.calls if call[0] == "report"]
    assert uids == [f"e-{number}" for number in range(59, 34, -1)]


def test_a_pod_that_is_given_up_for_lack_of_room_has_events_of_pod_and_node(cluster):
    cluster.passes()
    assert cluster.told == []
    cluster.objects[Kind.POD_MIGRATION][move().key] = FAILED
    cluster.evictions = [eviction(begun_s=NOW - 260.0, heartbeat_at_s=NOW)]
    cluster.now_s = NOW + 30.0
    cluster.passes()
    assert [(one.reason, one.regarding.kind, one.warning) for one in cluster.told] == [
        ("EvictedWithoutRoom", "Pod", True),
        ("EvictedWithoutRoom", "Node", True),
    ]
    assert cluster.told[0].message.startswith("EvictionRequest of acme.io/drainer evicts pod shop/web-1")


def test_who_does_not_lead_says_and_makes_nothing(cluster):
    cluster.leading = False
    cluster.passes(4)
    assert cluster.calls == []


def test_a_canceled_request_ends_the_move_at_once(cluster):
    cluster.passes(2)
    cluster.calls.clear()
    cluster.objects[Kind.POD_MIGRATION][move().key] = move()
    cluster.evictions = [eviction("Canceled")]
    cluster.passes()
    ((verb, patch),) = cluster.calls
    assert verb == "patch"
    assert patch == {"metadata": {"uid": "m"}, "spec": {"ttl": "11s"}}


def test_a_canceled_request_leaves_a_move_alone_that_is_evicting_or_that_somebody_else_asks_for(cluster):
    cluster.evictions = [eviction("Canceled")]
    cluster.objects[Kind.POD_MIGRATION][move().key] = DISTURBED
    cluster.passes()
    cluster.objects[Kind.POD_MIGRATION][move().key] = move()
    cluster.filer.asks.hear(pod(), "kubectl", cluster.now_s)
    cluster.passes()
    assert not [call for call in cluster.calls if call[1].get("spec", {}).get("ttl") == "11s"]


def test_a_canceled_request_ends_no_move_that_a_later_request_asks_for(cluster):
    """The canceled Eviction may stay for a while, next to the one that took its place."""
    cluster.objects[Kind.POD_MIGRATION][move().key] = move()
    cluster.evictions = [eviction(heartbeat_at_s=NOW), eviction("Canceled")]
    for order in (cluster.evictions, cluster.evictions[::-1]):
        cluster.evictions = order
        cluster.passes()
    assert cluster.calls == []


def test_a_request_is_withdrawn_for_its_callers_only():
    asks = Asks()
    asks.hear(pod(), "EvictionRequest of acme.io/drainer", NOW, withdraws=True)
    assert asks.withdraw(pod().uid, NOW)
    assert asks.find(pod().uid, NOW) is None
    asks.hear(pod(), "kubectl", NOW)
    asks.hear(pod(), "EvictionRequest of acme.io/drainer", NOW, withdraws=True)
    assert not asks.withdraw(pod().uid, NOW)


def test_of_an_eviction_only_our_entry_is_read():
    raw = {
        "metadata": {"name": "e", "namespace": "shop", "uid": "e-uid"},
        "spec": {"target": {"pod": {"name": "web-1", "uid": "u"}}},
        "status": {
            "requesters": [
                {"name": "acme.io/a", "intent": "Withdrawn"},
                {"name": "acme.io/b", "intent": "Eviction"},
            ],
            "targetResponders": [
                {"name": "acme.io/own", "priority": 10000, "state": "Completed"},
                {"name": RESPONDER, "priority": 5000, "state": "Active"},
            ],
            "responders": [
                {"name": "acme.io/own", "message": "theirs"},
                {"name": RESPONDER, "startTime": "2027-01-15T08:00:00Z", "message": "ours"},
            ],
        },
    }
    read = Decoder().record(Kind.REQUESTED_EVICTION, json.dumps(raw).encode())
    assert (read.state, read.requesters, read.pod.name, read.pod_uid) == (
        "Active", ("acme.io/b",), "web-1", "u",
    )  # fmt: skip
    assert read.progress == Progress(started_at_s=NOW, message="ours")
    bare = Decoder().record(Kind.REQUESTED_EVICTION, b'{"metadata": {"name": "e"}, "spec": {"target": {}}}')
    assert (bare.state, bare.pod_name) == ("", "")
