"""The kept index answers like one that is built anew from each snapshot."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.kept_index import KeptIndex
from rescheduler.coordination.switches import controllers_of
from rescheduler.model.cluster import ClusterState
from rescheduler.model.controller_key import controller_key
from rescheduler.model.kinds import Kind
from rescheduler.model.names import ANNOTATION_HANDOVER_TAINT, GATE, LABEL_PLACEHOLDER
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.records import (
    DisruptionBudget,
    Node,
    OwnerRef,
    Pod,
    PodPhase,
    PodSpec,
    Taint,
    Workload,
)
from rescheduler.model.reservation import ControllerRef, ReservationOwner
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from tests.records import pod_record

NAMES = st.sampled_from("abcd")
OWNERS = [
    ReservationOwner(controller=ControllerRef(uid=uid, namespace="n")) for uid in ("a", "b", "top", "gone")
]
OWNERS.append(ReservationOwner(controller=ControllerRef(kind="Deployment", name="top")))
OWNERS.append(ReservationOwner(label_selector=LabelSelector((Requirement("app", Operator.IN, ("a",)),))))


@st.composite
def pods(draw):
    uid = draw(st.sampled_from(["a", "b", ""]))
    return pod_record(
        namespace="n",
        name=draw(NAMES),
        uid=draw(st.sampled_from(["1", "2"])),
        node=draw(st.sampled_from(["", "x"])),
        spec=PodSpec(gates=draw(st.sampled_from([(), (GATE,), ("other",)]))),
        controller=OwnerRef("apps/v1", "ReplicaSet", uid, uid) if uid else None,
        phase=draw(st.sampled_from([PodPhase.PENDING, PodPhase.RUNNING, PodPhase.FAILED])),
        deleting=draw(st.booleans()),
        labels=draw(st.sampled_from([LabelSet({}), LabelSet({LABEL_PLACEHOLDER: "room"})])),
    )


@st.composite
def workloads(draw):
    uid = draw(st.sampled_from(["a", "b", "top"]))
    above = OwnerRef("apps/v1", "Deployment", "top", "top")
    return Workload(
        kind="Deployment" if uid == "top" else "ReplicaSet",
        namespace="n",
        name=uid,
        uid=uid,
        replicas=draw(st.integers(0, 2)),
        controller=above if uid != "top" and draw(st.booleans()) else None,
        template_labels=LabelSet({"app": draw(NAMES)}),
    )


@st.composite
def nodes(draw):
    hint = AvoidEntry("ReplicaSet", "a", "a", "n", "why", 1.0)
    taints = draw(st.sampled_from([(), (Taint(ANNOTATION_HANDOVER_TAINT),), (Taint("other"),)]))
    return Node(name=draw(NAMES), taints=taints, avoid=draw(st.sampled_from([(), (hint,)])))


@st.composite
def budgets(draw):
    selector = LabelSelector((Requirement("app", Operator.IN, (draw(NAMES),)),))
    return DisruptionBudget(namespace=draw(st.sampled_from("nm")), name=draw(NAMES), selector=selector)


def as_workload(record):
    return Kind.DEPLOYMENT if record.kind == "Deployment" else Kind.REPLICA_SET


KIND_OF = {
    Pod: lambda _: Kind.POD,
    Workload: as_workload,
    Node: lambda _: Kind.NODE,
    DisruptionBudget: lambda _: Kind.POD_DISRUPTION_BUDGET,
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["apply", "apply", "apply", "delete", "replace"]),
        st.one_of(pods(), workloads(), nodes(), budgets()),
        st.booleans(),
    ),
    max_size=25,
)


def view(index):
    """Everything that can be asked, in an order that does not depend on when it came."""
    kept = index.kept
    return (
        sorted(pod.key for pod in index.gated),
        sorted((pod.key, pod.uid, pod.node) for pod in index.waiting),
        sorted((pod.key, pod.uid) for pod in kept.pods.ending_placeholders.values()),
        {uid: sorted((p.key, p.uid, p.phase) for p in index.pods_of(uid)) for uid in ("a", "b", "c")},
        [sorted(controllers_of(owner, index)) for owner in OWNERS],
        sorted(node.name for node in kept.nodes.shut),
        [node.name for node in kept.nodes.hinted],
        {pod.name: sorted(b.key for b in index.budgets_of(pod)) for pod in index.snapshot.pods.values()},
    )


@given(STEPS)
def test_kept_and_new_index_answer_the_same_after_any_changes(steps):
    state, kept = ClusterState(), KeptIndex()
    for version, (what, drawn, look) in enumerate(steps):
        versioned = what == "apply" and hasattr(drawn, "resource_version")
        record = msgspec.structs.replace(drawn, resource_version=str(version)) if versioned else drawn
        kind = KIND_OF[type(record)](record)
        if what == "apply":
            state.apply(kind, record)
        elif what == "replace":
            for other in state.all_of(kind):
                state.lose(kind, other)
            state.apply(kind, record)
        else:
            state.delete(
                kind, record.uid if isinstance(record, Workload) else getattr(record, "key", record.name)
            )
        if look:
            snapshot = state.snapshot(float(version))
            assert view(RoundIndex.of(snapshot, kept)) == view(RoundIndex.of(snapshot))
    snapshot = state.snapshot(0.0)
    assert view(RoundIndex.of(snapshot, kept)) == view(RoundIndex.of(snapshot))


@given(st.lists(st.tuples(pods(), st.booleans()), max_size=20))
def test_each_change_of_the_pods_of_a_controller_is_told(changes):
    state, kept, told = ClusterState(), KeptIndex(), {}
    for version, (pod, gone) in enumerate(changes):
        if gone:
            state.delete(Kind.POD, pod.key)
        else:
            state.apply(Kind.POD, msgspec.structs.replace(pod, resource_version=str(version)))
        index = RoundIndex.of(state.snapshot(float(version)), kept)
        for uid in ("a", "b"):
            now = set(index.pods_of(uid)), kept.pods.last_change_of(uid)
            if uid in told and told[uid][0] != now[0]:
                assert told[uid][1] != now[1]
            told[uid] = now


def test_a_deployment_by_uid_stands_for_its_replica_sets():
    state = ClusterState()
    top = OwnerRef("apps/v1", "Deployment", "top", "top")
    state.apply(Kind.DEPLOYMENT, Workload(kind="Deployment", namespace="n", name="top", uid="top"))
    for uid in ("old", "new"):
        made = Workload(kind="ReplicaSet", namespace="n", name=uid, uid=uid, controller=top)
        state.apply(Kind.REPLICA_SET, made)
    index = RoundIndex.of(state.snapshot(0.0))
    owner = ReservationOwner(controller=ControllerRef(uid="top", namespace="n"))
    assert sorted(controllers_of(owner, index)) == [controller_key("n", uid) for uid in ("new", "old")]
