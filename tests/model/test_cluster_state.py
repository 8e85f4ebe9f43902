"""The incremental state equals the one built from scratch, whatever order events come in."""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from harness.builders import claim, deployment, node, object_of, pdb, pod, replicaset, snapshot
from rescheduler.model.cluster import ClusterState, RecordChange, key_of
from rescheduler.model.kinds import Kind
from rescheduler.model.measured import NodeUsage
from rescheduler.model.records import ObjectKey

NAMES = st.sampled_from(["a", "b", "c"])
KINDS = (Kind.POD, Kind.NODE, Kind.DEPLOYMENT, Kind.REPLICA_SET)
MAKERS = {Kind.POD: pod, Kind.NODE: node, Kind.DEPLOYMENT: deployment, Kind.REPLICA_SET: replicaset}


class Cluster(RuleBasedStateMachine):
    """A server that knows the truth, an event log, and a ClusterState that is told in strange ways."""

    @initialize()
    def start(self):
        self.version = 0
        self.truth = {kind: {} for kind in KINDS}
        self.log = []
        self.state = ClusterState()

    def make(self, kind, name, uid, change):
        self.version += 1
        built = MAKERS[kind](name).uid(uid).version(str(self.version)).label({"change": str(change)})
        return built.build()

    @rule(kind=st.sampled_from(KINDS), name=NAMES, change=st.integers(0, 3))
    def add_or_update(self, kind, name, change):
        held = self.truth[kind].get(name)
        record = self.make(kind, name, held.uid if held else f"uid-{self.version}", change)
        self.truth[kind][name] = record
        self.log.append((kind, "apply", record))
        self.state.apply(kind, record)

    @rule(kind=st.sampled_from(KINDS), name=NAMES)
    def remove(self, kind, name):
        record = self.truth[kind].pop(name, None)
        if record is None:
            return
        self.version += 1
        last = msgspec.structs.replace(record, resource_version=str(self.version))
        self.log.append((kind, "remove", last))
        self.state.remove(kind, last)

    @rule(data=st.data())
    def an_old_event_comes_again(self, data):
        if not self.log:
            return
        kind, what, record = data.draw(st.sampled_from(self.log))
        before = self.state.snapshot(0.0)
        change = getattr(self.state, what)(kind, record)
        assert change is None
        assert self.state.snapshot(0.0) == before

    @invariant()
    def same_as_from_scratch(self):
        fresh = ClusterState()
        for kind, records in self.truth.items():
            fresh.add(kind, records.values())
        assert self.state.snapshot(0.0) == fresh.snapshot(0.0)
        assert self.state.counts() == fresh.counts()


Cluster.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
test_any_sequence_of_events = Cluster.TestCase


def test_a_pod_of_the_same_name_is_another_pod():
    state = ClusterState()
    first, second = pod("web-0").uid("u1").version("9").build(), pod("web-0").uid("u2").version("3").build()
    state.apply(Kind.POD, first)
    assert state.apply(Kind.POD, second) == RecordChange(first, second)
    assert state.delete(Kind.POD, ObjectKey("default", "web-0"), "u1") is None
    assert state.get(Kind.POD, ObjectKey("default", "web-0")) is second


def test_objects_without_uid_may_come_and_go():
    state = ClusterState()
    record = pod("a").uid("").build()
    assert record.uid == "Pod/default/a"
    for _ in range(2):
        assert state.apply(Kind.POD, record) == RecordChange(None, record)
        assert state.remove(Kind.POD, record) == RecordChange(record, None)


def test_a_snapshot_is_not_changed_by_later_events():
    state = ClusterState()
    state.apply(Kind.POD, pod("a").build())
    before = state.snapshot(1.0)
    state.apply(Kind.POD, pod("b").build())
    state.set_usage([NodeUsage("n1", 5, 6)])
    assert len(before.pods) == 1
    assert not before.usage
    after = state.snapshot(2.0)
    assert len(after.pods) == 2
    assert after.nodes is before.nodes
    assert after.usage["n1"].cpu_milli == 5


def test_workloads_of_all_kinds_stand_together_by_uid():
    found = snapshot(
        deployment("web"), replicaset("web"), object_of(Kind.JOB, "web", spec={"parallelism": 3})
    )
    assert {w.kind for w in found.workloads.values()} == {"Deployment", "ReplicaSet", "Job"}
    assert found.workloads["job-web"].replicas == 3


def test_dangling_references_are_kept_as_they_are():
    found = snapshot(
        pod("a").on("nowhere").claim("missing").owner("ReplicaSet", "gone"),
        claim("c").bound_to("v"),
        pdb("p"),
    )
    record = found.pods[ObjectKey("default", "a")]
    assert record.node == "nowhere"
    assert record.controller.uid == "replicaset-default-gone"


def test_keys():
    assert key_of(pod("a").build()) == ObjectKey("default", "a")
    assert key_of(node("n").build()) == "n"
    assert key_of(deployment("d").build()) == "deployment-default-d"
