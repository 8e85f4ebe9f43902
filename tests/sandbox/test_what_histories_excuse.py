"""What the checker of the random histories excuses, and that it excuses nothing beside it."""

import random
from types import SimpleNamespace

import pytest

from harness.histories.clocks import Clocks
from harness.histories.late_answers import LatePool, covered_s
from harness.histories.observed_cluster import Seen, Writer
from harness.histories.program import QUIET, Program, ProgramOptions
from harness.histories.rooms import Rooms
from harness.histories.stepping_aside import SteppingAside
from harness.histories.theme import Stage
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.sandbox import Sandbox
from rescheduler.model.names import ANNOTATION_HANDOVER_TAINT, ANNOTATION_MAKES_ROOM, GATE

TAINT = {"key": ANNOTATION_HANDOVER_TAINT, "effect": "NoSchedule"}
TAINTED = {"kind": "Node", "metadata": {"name": "n1", "uid": "n1"}, "spec": {"taints": [TAINT]}}


def pod(name, *, node="", nominated="", gated=False, namespace="default", deleting=False, priority=0):
    spec = {"containers": [], "priority": priority, **({"nodeName": node} if node else {})}
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    metadata = {"name": name, "namespace": namespace, "uid": name}
    if namespace == "rescheduler":
        owner = {"kind": "Reservation", "name": "r", "uid": "r", "controller": True}
        metadata["ownerReferences"] = [owner]
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"nominatedNodeName": nominated} if nominated else {}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def room(phase="Available", owners=("claimant",)):
    status = {"phase": phase, "nodeName": "n1", "currentOwners": [{"uid": owner} for owner in owners]}
    return {
        "kind": "Reservation",
        "metadata": {"name": "r", "uid": "r"},
        "spec": {"allocateOnce": True},
        "status": status,
    }


def staged(cluster, *, seed=0, script=None, checker=None):
    return Stage(seed=seed, cluster=cluster, plan=None, script=script, program=None, checker=checker)


class HandOver:
    """A claimant is released to n1 and bound to n2. ``knows``: the caches show every pod; ``lists_s``: a new list of the scheduler."""

    def __init__(self, *, knows=True, outage_s=0.0, lists_s=0.0):
        self.seen, self.now_s, self.knows = Seen(), 1.0, knows
        self.rooms = Rooms(
            self.seen,
            set(),
            lambda _: self.knows,
            lambda *_, **__: False,
            lists_anew_s=lambda moment_s: lists_s if moment_s < outage_s else 0.0,
        )
        self.write(room(), Writer.PROGRAM)
        self.write(pod("holder", node="n1", namespace="rescheduler"))
        self.write(pod("claimant", gated=True, nominated="n1"))

    def write(self, obj, who=Writer.CLUSTER, change="MODIFIED"):
        self.seen.apply(ObjectChange(change, obj), who, self.now_s)
        return self.rooms.check(who, obj, self.now_s)

    def empties(self, at_s):
        self.now_s = at_s
        self.write(pod("holder", node="n1", namespace="rescheduler", deleting=True), Writer.PROGRAM)
        self.write(pod("holder", node="n1", namespace="rescheduler"), change="DELETED")

    def releases(self, at_s):
        self.now_s = at_s
        self.write(pod("claimant", nominated="n1"), Writer.PROGRAM)

    def lands_elsewhere(self, at_s):
        self.now_s = at_s
        return self.write(pod("claimant", node="n2", nominated="n1"))


def test_a_room_that_is_lost_for_nothing_is_found():
    scene = HandOver()
    scene.empties(2.0)
    scene.releases(3.0)
    assert scene.lands_elsewhere(4.0)


@pytest.mark.parametrize(
    ("known_then", "still_there", "excused"),
    [(False, True, True), (True, True, False), (False, False, False)],
    ids=["in the moment of the release", "the caches showed it", "it went elsewhere"],
)
def test_a_pod_that_was_nominated_in_the_moment_of_the_release_is_excused(known_then, still_there, excused):
    scene = HandOver()
    scene.empties(2.0)
    scene.now_s, scene.knows = 3.0, known_then
    scene.write(pod("other", nominated="n1"))
    scene.releases(3.0)
    scene.knows = True
    scene.write(pod("other", node="n1" if still_there else "n3"))
    assert (scene.lands_elsewhere(4.0) == []) is excused


@pytest.mark.parametrize(
    ("emptied_s", "released_s", "lost_s", "excused"),
    [(2.0, 12.0, 20.0, True), (6.0, 12.0, 20.0, False), (2.0, 22.0, 22.5, False), (2.0, 12.0, 25.0, False)],
    ids=["in its middle", "begun later", "released later", "lost later"],
)
def test_an_outage_in_the_middle_of_a_hand_over_is_excused(emptied_s, released_s, lost_s, excused):
    scene = HandOver(outage_s=5.0, lists_s=20.0)
    scene.empties(emptied_s)
    scene.releases(released_s)
    assert (scene.lands_elsewhere(lost_s) == []) is excused


@pytest.mark.parametrize(
    ("refused_s", "excused"), [(20.0, True), (25.0, False)], ids=["in the list", "later"]
)
def test_a_claimant_that_was_refused_in_the_new_list_may_land_elsewhere_later(refused_s, excused):
    scene = HandOver(outage_s=5.0, lists_s=20.0)
    scene.empties(2.0)
    scene.releases(12.0)
    scene.write(TAINTED, Writer.PROGRAM)
    scene.now_s = refused_s
    refused = pod("claimant")
    refused["spec"]["tolerations"] = [{"key": ANNOTATION_HANDOVER_TAINT}]
    assert scene.write(refused) == [], "the taint holds the room"
    assert (scene.lands_elsewhere(30.0) == []) is excused


@pytest.mark.parametrize(
    ("claimed_gated", "tainted", "excused"),
    [(False, True, True), (False, False, False), (True, True, False)],
    ids=["without a gate", "no taint", "with a gate"],
)
def test_a_claimant_that_never_was_gated_may_be_bound_elsewhere(claimed_gated, tainted, excused):
    scene = HandOver()
    if claimed_gated:
        scene.write(room(), Writer.PROGRAM)
    scene.releases(1.5)
    scene.write(room(), Writer.PROGRAM)
    if tainted:
        scene.write(TAINTED, Writer.PROGRAM)
    scene.empties(2.0)
    assert (scene.lands_elsewhere(4.0) == []) is excused


@pytest.mark.parametrize("tainted", [True, False])
def test_it_may_be_bound_elsewhere_also_if_the_taint_goes_before_the_placeholder(tainted):
    scene = HandOver()
    scene.releases(1.5)
    scene.write(room(), Writer.PROGRAM)
    if tainted:
        scene.write(TAINTED, Writer.PROGRAM)
    assert scene.lands_elsewhere(2.0) == [], "the placeholder holds the room"
    scene.write({**TAINTED, "spec": {}}, Writer.PROGRAM)
    gone = pod("holder", node="n1", namespace="rescheduler")
    assert (scene.write(gone, change="DELETED") == []) is tainted


@pytest.mark.parametrize(("tainted", "excused"), [(True, True), (False, False)])
def test_a_nomination_that_is_withdrawn_behind_the_hand_over_taint_keeps_its_node(tainted, excused):
    cluster, script, seen = Sandbox(), SimpleNamespace(hits=set(), at=lambda *_: None), Seen()
    seed = next(filter(SteppingAside.happens, range(100)))
    checks = SteppingAside(staged(cluster, seed=seed, script=script, checker=SimpleNamespace(seen=seen)))
    checks.write_script()
    node = TAINTED if tainted else {**TAINTED, "spec": {}}
    waits = pod("holder", namespace="rescheduler", gated=True)
    for obj in (node, room("Waiting", owners=()), waits):
        seen.apply(ObjectChange("ADDED", obj), Writer.PROGRAM, 1.0)
    move = {
        "kind": "PodMigration",
        "metadata": {"name": "m", "namespace": "default", "annotations": {ANNOTATION_MAKES_ROOM: "r/1"}},
        "status": {"evictionRequestedAt": "2026-01-01T00:00:00Z"},
    }
    checks._hear(ObjectChange("MODIFIED", move))
    assert (checks.faults == []) is excused


class Work:
    """One late call. ``found``: whether it was decided before what changed at a moment."""

    lane = ""

    def __init__(self, program, changed_s):
        self.program, self.changed_s, self.found = program, changed_s, None

    def call(self):
        self.found = self.program.decided_before(self.changed_s)
        return False

    def land(self, now_s):
        pass


@pytest.mark.parametrize(
    ("paused", "changed_s", "excused"),
    [(True, 5.0, True), (True, -1.0, False), (False, 5.0, False)],
    ids=["fresh, for the machine was paused", "before the decision", "not fresh"],
)
def test_only_what_changed_after_a_fresh_decision_is_excused(paused, changed_s, excused):
    cluster = Sandbox()
    program = Program(cluster, random.Random(0), ProgramOptions(document=QUIET))  # noqa: S311 - reproducible
    program.pool = pool = LatePool(random.Random(0), clock=cluster.clock, share=1.0)  # noqa: S311 - reproducible
    began_s = cluster.clock()
    late = Work(program, began_s + changed_s)
    pool.begin(late, began_s)
    cluster.advance(10.0)
    if paused:
        program.stood_still(8.0)
    pool.step(cluster.clock())
    assert late.found is excused
    assert not program.decided_before(began_s + changed_s), "a call that is made at once is decided now"


@pytest.mark.parametrize(("spans", "covered"), [
    ([], 0.0),
    ([(0.0, 12.0)], 2.0),
    ([(12.0, 20.0), (15.0, 24.0)], 12.0),
    ([(65.0, 90.0)], 5.0),
    ([(80.0, 90.0)], 0.0),
], ids=["none", "begun before", "two at once", "longer than the limit", "afterwards"])  # fmt: skip
def test_only_the_time_of_slow_answers_while_a_pod_is_gated_counts(spans, covered):
    assert covered_s(spans, 10.0, 70.0) == covered


@pytest.mark.parametrize(("by_s", "evicted_s", "born_s", "excused"), [
    (-65.0, 1.0, 5.0, True),
    (65.0, 1.0, 5.0, True),
    (7.0, 1.0, 5.0, False),
    (-65.0, 4.0, 5.0, False),
    (-65.0, 1.0, 2.0, False),
], ids=["set back in between", "set forward by more than the gate is valid", "set forward", "set before the eviction", "set after the replacement came"])  # fmt: skip
def test_only_a_clock_that_is_set_far_before_the_replacement_comes_is_excused(
    by_s, evicted_s, born_s, excused
):
    cluster, seen = Sandbox(), Seen()
    clocks, began_s = Clocks(staged(cluster)), cluster.clock()
    cluster.advance(3.0)
    clocks.server.step(by_s)
    move = {
        "kind": "PodMigration",
        "metadata": {"name": "m", "namespace": "default", "uid": "m"},
        "spec": {"podRef": {"name": "web-0", "uid": "old"}},
    }
    new = pod("web-0")
    new["metadata"]["labels"] = {"app": "web"}
    for obj in (move, new):
        seen.apply(ObjectChange("ADDED", obj), Writer.CLUSTER, began_s + born_s)
    assert clocks.excused(seen, {"old": began_s + evicted_s}) == ({"m"} if excused else set())
