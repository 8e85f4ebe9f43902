"""Moves do not lean on pods that are not bound yet: pending ones, nominated ones, claimants of rooms."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.planning.limits import PlanningInputs, Protections
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.state import SchedulingState
from tests import records

OLD = b.node("n1").taint("old")
A, B = b.node("a").zone("a"), b.node("b").zone("b")
TEMPLATE = "spec.template.spec"


def web(spec):
    owner = b.replicaset("web").cpu("1")
    for field, value in spec.items():
        owner = owner.set(f"{TEMPLATE}.{field}", value)
    return owner


def near(**labels):
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key=ZONE):
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": {"app": "web"}}}]}


def waiting(name, node="", **labels):
    made = b.pod(name).set("metadata.labels", labels)
    return made.nominated(node) if node else made


def skipped(plan):
    return {s.pod.name: str(s.reason) for s in plan.skipped}


@pytest.mark.parametrize("node", ["a", ""])
def test_required_affinity_to_a_pod_that_is_not_bound_does_not_hold(decide, landings, node):
    owner = web(near(tier="db"))
    cluster = [OLD, A, B, owner, owner.pod("web-0").on("n1")]
    lonely = decide(b.snapshot(*cluster, waiting("db", node, tier="db")), "NodeTaints")
    assert (landings(lonely), skipped(lonely)) == ({}, {"web-0": "NoTarget"})
    bound = waiting("other", tier="db").on("b")
    together = decide(b.snapshot(*cluster, waiting("db", node, tier="db"), bound), "NodeTaints")
    assert landings(together) == {"web-0": "b"}


def test_affinity_to_oneself_does_not_lean_on_a_nominated_sibling_while_the_old_pod_ends(decide, landings):
    """The sibling is nominated to zone b. Without it the terminating pod keeps the replacement in zone a."""
    owner = web(near(app="web"))
    old = b.node("n1").taint("old").zone("a")
    cluster = [old, B, owner, owner.pod("web-0").on("n1"), waiting("other", "b", app="web")]
    plan = decide(b.snapshot(*cluster), "NodeTaints")
    assert (landings(plan), skipped(plan)) == ({}, {"web-0": "NoTarget"})


def test_spread_does_not_lean_on_a_pod_that_may_be_bound_elsewhere(decide, landings):
    """a has one already, and only the pending pod, which is expected on b, makes a second one even."""
    owner = web(spread()).replicas(2)
    pods = [owner.pod("web-0").on("n1"), owner.pod("web-1").on("a")]
    cluster = [OLD, A, b.node("b").zone("b").cpu("1"), owner, *pods]
    assert landings(decide(b.snapshot(*cluster), "NodeTaints")) == {"web-0": "b"}
    plan = decide(b.snapshot(*cluster, owner.pod("web-2").owner("ReplicaSet", "more")), "NodeTaints")
    assert (landings(plan), skipped(plan)) == ({}, {"web-0": "NoTarget"})


def test_nominated_pods_are_counted_on_their_own_node_alone(decide, landings):
    """Bound, the two would be even, and so would none: but kube-scheduler counts those of the node in question."""
    owner = web(spread())
    cluster = [OLD, A, B, owner, owner.pod("web-0").on("n1")]
    assert len(decide(b.snapshot(*cluster), "NodeTaints").moves) == 1
    both = [waiting("x", "a", app="web"), waiting("y", "b", app="web")]
    plan = decide(b.snapshot(*cluster, *both), "NodeTaints")
    assert (landings(plan), skipped(plan)) == ({}, {"web-0": "NoTarget"})
    foreign = [pod.set("spec.schedulerName", "another") for pod in both]
    assert len(decide(b.snapshot(*cluster, *foreign), "NodeTaints").moves) == 1
    ours = Profile(process=frozenset({"another"}))
    assert not decide(b.snapshot(*cluster, *foreign), "NodeTaints", profile=ours).moves


def test_pods_that_do_not_matter_to_a_replacement_change_nothing(decide, landings):
    owner = web(spread(HOSTNAME))
    others = [waiting("x", "a", app="other"), waiting("y", app="other")]
    cluster = b.snapshot(OLD, A, B, owner, owner.pod("web-0").on("n1"), *others)
    assert len(decide(cluster, "NodeTaints").moves) == 1


def test_the_state_is_left_as_it_was():
    owner = web(near(tier="db"))
    cluster = b.snapshot(OLD, A, B, owner, owner.pod("web-0").on("n1"), waiting("db", "a", tier="db"))
    state, fresh = SchedulingState(cluster), SchedulingState(cluster)
    pod = next(one for one in cluster.pods.values() if one.name == "db")
    mark = state.checkpoint()
    placed = state.place(pod, "b")
    state.remove(placed)
    state.remove(pod)
    assert not state.nominated_to("a")
    state.wait(pod)
    assert state.nominated_to("a") == (pod,)
    state.rollback(mark)
    assert state.nominated_to("a") == fresh.nominated_to("a")
    assert state.unplaced == fresh.unplaced


def test_a_volume_that_only_a_nominated_pod_uses_is_not_attached_yet(decide, landings):
    """Node a may attach one volume and has one. The nominated pod would bring the one that the replacement uses."""
    limits = {"drivers": [{"name": "csi.example", "nodeID": "a", "allocatable": {"count": 1}}]}
    volumes = [thing for name in ("mine", "theirs") for thing in (
        b.volume(f"pv-{name}").set("spec.csi", {"driver": "csi.example", "volumeHandle": name}),
        b.claim(name).bound_to(f"pv-{name}").set("spec.accessModes", ["ReadWriteMany"]),
    )]  # fmt: skip
    owner = b.replicaset("web").claim("mine")
    cluster = [OLD, A, b.object_of(Kind.CSI_NODE, "a", spec=limits), *volumes, owner]
    cluster += [owner.pod("web-0").on("n1"), b.pod("busy").claim("theirs").on("a")]
    inputs = PlanningInputs(protections=Protections(persistent_volumes=False))
    nominated = b.pod("other").claim("mine").nominated("a")
    plan = decide(b.snapshot(*cluster, nominated), "NodeTaints", inputs=inputs)
    assert (landings(plan), skipped(plan)) == ({}, {"web-0": "NoTarget"})
    bound = b.pod("other").claim("mine").on("a")
    assert landings(decide(b.snapshot(*cluster, bound), "NodeTaints", inputs=inputs)) == {"web-0": "a"}


def test_the_room_of_an_expected_pod_is_not_what_a_pod_leaves_beside_it(decide, landings):
    """A move under way leaves half of node a, where a pending pod will stand. Until it has landed nothing is left for a third pod."""
    going, web_ = b.replicaset("going").cpu("500m"), web({}).cpu("200m")
    cluster = b.snapshot(
        OLD, b.node("a").cpu("1"), b.node("c"), going, going.pod("going-0").on("a"),
        web_, web_.pod("web-0").on("n1"), waiting("db", "a").cpu("500m"),
    )  # fmt: skip
    old = next(pod for pod in cluster.pods.values() if pod.name == "going-0")
    move = records.move_of(old, MigrationPhase.RESERVING, target_node="c", node_name="c")
    full = dataclasses.replace(cluster, migrations={move.key: move})
    cordoned = {**full.nodes, "c": msgspec.structs.replace(full.nodes["c"], unschedulable=True)}
    plan = decide(dataclasses.replace(full, nodes=cordoned), "NodeTaints")
    assert (landings(plan), skipped(plan)) == ({}, {"web-0": "NoTarget"})
