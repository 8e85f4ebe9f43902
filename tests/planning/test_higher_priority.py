"""Which pending pod would preempt what lands on a node: the rules of kube-scheduler, one by one, and against the sandbox's scheduler."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import builders as b
from kube_sandbox.scheduler.preemption import preempt
from rescheduler.model.pod_group import PodGroupRecord
from rescheduler.model.records import ObjectKey
from rescheduler.planning.priorities import higher_priority_waits
from rescheduler.scheduling.state import SchedulingState


def asked(*objects, landed="owner", node="n1", served=(), groups=None):
    """The answer for the pod of that name once it stands on the node."""
    snapshot = dataclasses.replace(b.snapshot(*objects), **(groups or {}))
    state = SchedulingState(snapshot)
    owner = snapshot.pods[ObjectKey("default", landed)]
    state.remove(owner)
    placed = state.place(owner, node)
    before = state.requested("cpu").tolist()
    found = higher_priority_waits(state, [placed], node, snapshot.budgets, own="rescheduler", served=served)
    assert state.requested("cpu").tolist() == before
    return found, state, placed, snapshot


def who(*objects, **more):
    found = asked(*objects, **more)[0]
    return found and found.pod.name


NODES = (b.node("n1").cpu("4"), b.node("n2").cpu("1"))
OWNER = b.pod("owner").cpu("3").priority(10)


def waiting(priority=1000, cpu="2"):
    return b.pod("waits").cpu(cpu).priority(priority)


def test_a_pod_of_higher_priority_that_fits_nowhere_takes_it():
    found = asked(*NODES, OWNER, waiting())[0]
    assert (found.pod.name, found.victim.name, found.settled) == ("waits", "owner", False)
    assert "pod default/waits of priority 1000" in found.message


@pytest.mark.parametrize(
    "pod",
    [
        waiting(priority=10),
        waiting(priority=5),
        waiting().gate("example.com/later"),
        waiting().scheduler("another"),
        waiting().set("spec.preemptionPolicy", "Never"),
        waiting().set("status.nominatedNodeName", "n2"),
        waiting().node_selector({"zone": "z"}),
        waiting(cpu="1"),
        waiting(cpu="5"),
        waiting().deleting(),
    ],
    ids=[
        "same priority",
        "lower priority",
        "gated",
        "another scheduler",
        "preempts nobody",
        "nominated elsewhere",
        "may not run there",
        "fits beside it",
        "too large even alone",
        "ending",
    ],
)
def test_a_pod_that_would_not_preempt_it_does_not(pod):
    assert who(*NODES, OWNER, pod) is None


def test_a_pod_with_device_claims_counts_as_if_every_node_had_its_devices():
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    assert who(*NODES, OWNER, waiting().set("spec.resourceClaims", claims)) == "waits"
    small = waiting(cpu="1").set("spec.resourceClaims", claims)
    assert who(*NODES, OWNER, small) is None


def test_a_pod_that_fits_elsewhere_goes_there_and_only_one_fits_there():
    nodes = (b.node("n1").cpu("4"), b.node("n2").cpu("3"))
    assert who(*nodes, OWNER, waiting()) is None
    assert who(*nodes, OWNER, waiting(), b.pod("zzz").cpu("2").priority(1000)) == "zzz"


def test_others_of_lower_priority_are_preempted_first():
    other = b.pod("other").cpu("1").priority(0).on("n1")
    assert who(*NODES, OWNER, other, waiting(cpu="1")) is None
    assert who(*NODES, OWNER, other, waiting(cpu="2")) == "waits"


def test_a_budget_decides_who_goes_but_protects_nobody():
    peer = b.pod("peer").cpu("1").priority(10).label(app="peer").on("n1")
    owner, pod = b.pod("owner").cpu("3").priority(10).label(app="owner"), waiting(cpu="1")
    allows_none = (
        b.pdb("peer")
        .set("spec.selector", {"matchLabels": {"app": "peer"}})
        .set("status", {"disruptionsAllowed": 0, "expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1})
    )
    nodes = (NODES[0], b.node("n2").cpu("500m"))
    assert who(*nodes, owner, peer, pod, allows_none) == "waits"
    assert (
        who(*NODES, owner, waiting(), b.pdb("o").set("spec.selector", {"matchLabels": {"app": "owner"}}))
        == "waits"
    )


def test_a_pod_that_tolerates_the_taint_of_the_hand_over_needs_not_preempt():
    patient = waiting().set("spec.preemptionPolicy", "Never").tolerate(operator="Exists")
    assert who(*NODES, OWNER, patient) == "waits"


def test_the_taint_of_the_hand_over_goes_and_keeps_nobody_out_for_long():
    tainted = b.node("n1").cpu("4").taint("rescheduler.dev/hand-over")
    assert who(tainted, NODES[1], OWNER, waiting()) == "waits"


def test_pods_with_capacity_of_their_own_and_placeholders_do_not_count():
    assert who(*NODES, OWNER, waiting(), served={asked(*NODES, OWNER, waiting())[0].pod.uid}) is None
    holder = b.pod("holder", "rescheduler").cpu("2").priority(1_000_000_000)
    assert who(*NODES, OWNER, holder) is None


pods = st.tuples(
    st.integers(1, 3), st.integers(0, 3), st.sampled_from(["n1", "n2"]), st.booleans(), st.booleans()
)


@settings(max_examples=60, deadline=None)
@given(
    standing=st.lists(pods, max_size=5),
    cpus=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    owner=st.tuples(st.integers(1, 4), st.integers(0, 2)),
    waits=st.tuples(st.integers(1, 5), st.integers(0, 3)),
)
def test_whoever_the_sandbox_s_scheduler_would_delete_for_a_pod_is_found(standing, cpus, owner, waits):
    objects = [b.node(f"n{i}").cpu(str(cpu)) for i, cpu in enumerate(cpus, 1)]
    for i, (cpu, priority, node, guarded, _) in enumerate(standing):
        pod = b.pod(f"p{i}").cpu(str(cpu)).priority(priority).on(node)
        objects.append(pod.label(guarded="yes") if guarded else pod)
    objects += [
        b.pdb("guard").set("spec.selector", {"matchLabels": {"guarded": "yes"}}),
        b.pod("owner").cpu(str(owner[0])).priority(owner[1]),
        b.pod("waits").cpu(str(waits[0])).priority(waits[1]),
    ]
    found, state, placed, snapshot = asked(*objects)
    pod = snapshot.pods[ObjectKey("default", "waits")]
    if state.feasible(pod).any():
        assert found is None
        return
    chosen = preempt(state, pod, state.explain(pod), snapshot.budgets).choice
    if chosen is not None and any(victim is placed for victim in chosen.victims):
        assert found is not None
    if found is not None:
        assert chosen is not None


def test_a_node_that_a_pending_pod_is_about_to_take_is_no_target(decide):
    owner = b.replicaset("web").cpu("2")
    old = b.node("n1").cpu("4").taint("old")
    waits = b.pod("waits").cpu("3").priority(1000).node_selector({"disk": "fast"})
    fast, slow = b.node("n2").cpu("3").label({"disk": "fast"}), b.node("n3").cpu("2")
    low = b.pod("low").cpu("1").priority(-5).on("n2")
    pods = (owner, owner.pod("web-0").on("n1"), waits, low)
    (skipped,) = decide(b.snapshot(old, fast, *pods), "NodeTaints").skipped
    assert skipped.reason == "NoTarget"
    assert "default/waits of priority 1000" in skipped.message
    made = decide(b.snapshot(old, fast, slow, *pods), "NodeTaints")
    assert [move.target for move in made.moves] == ["n3"]


GANG = {"scheduling.x-k8s.io/pod-group": "train"}


def gang(*names, cpu="3", least=2, theirs="coscheduling_groups", others=()):
    """Who takes the owner's capacity, where these pods of a group wait."""
    pods = [b.pod(name).cpu(cpu).priority(1000).label(GANG) for name in names]
    if theirs == "scheduling_groups":
        group = {"podGroupName": "train"}
        pods = [b.pod(name).cpu(cpu).priority(1000).set("spec.schedulingGroup", group) for name in names]
    found = {ObjectKey("default", "train"): PodGroupRecord("default", "train", min_member=least)}
    return who(*NODES, OWNER, *others, *pods, groups={theirs: found})


@pytest.mark.parametrize("theirs", ["coscheduling_groups", "scheduling_groups"])
@pytest.mark.parametrize(("names", "least", "taker"), [
    (["t-0", "t-1"], 2, None),
    (["t-0", "t-1"], 1, "t-0"),
    (["t-0"], 2, None),
    (["t-0", "t-1"], 0, "t-0"),
], ids=["no room for both", "one is enough", "one is not there yet", "basic"])  # fmt: skip
def test_a_group_that_can_never_be_placed_together_takes_nothing(names, least, taker, theirs):
    assert gang(*names, least=least, theirs=theirs) == taker


def test_a_group_that_preempts_as_a_whole_takes_it():
    assert gang("t-0", "t-1", cpu="2") == "t-0"
    same = b.pod("same").cpu("2").priority(1000).on("n1")
    assert gang("t-0", "t-1", cpu="2", others=[same]) is None, "who has its priority stays"
    lower = b.pod("lower").cpu("1").priority(10).on("n1")
    assert gang("t-0", "t-1", cpu="2", others=[lower]) == "t-0", "who has a lower one does not"


def test_members_that_run_already_are_not_missing():
    runs = b.pod("t-9").cpu("1").priority(1000).label(GANG).on("n2")
    assert gang("t-0", "t-1", cpu="3", others=[runs]) == "t-0"
