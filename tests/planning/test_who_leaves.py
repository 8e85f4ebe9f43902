"""Of two pods of which either may leave, the one goes whose move disturbs least; everything else about them is equal."""

import datetime as dt

import pytest

from harness import builders as b
from rescheduler.model.names import ANNOTATION_MODE, DESCHEDULER_PREFER_NO_EVICTION, POD_DELETION_COST
from rescheduler.planning.limits import Limits, PlanningInputs, Protections

NOW = dt.datetime(2027, 1, 15, 8, 0, tzinfo=dt.UTC)
INPUTS = PlanningInputs(
    limits=Limits(minimum_gain=0.0, workload_cooldown_s=0.0),
    protections=Protections(local_storage=False),
    aggressiveness=1.0,
    unlimited=True,
    max_moves=1,
)


def ago(**since):
    return (NOW - dt.timedelta(**since)).isoformat().replace("+00:00", "Z")


def ready(pod, **since):
    """Ready for so long."""
    others = [c for c in pod.manifest()["status"]["conditions"] if c["type"] != "Ready"]
    return pod.set(
        "status.conditions",
        [*others, {"type": "Ready", "status": "True", "lastTransitionTime": ago(**since)}],
    )


def nothing(one):
    return one


WAYS = {
    # What is different: of the pod that stays, and of the pod that goes.
    "many replicas": (nothing, nothing, {"replicas": 9}),
    "not Ready": (nothing, lambda p: p.not_ready(), {}),
    "Ready only lately": (nothing, lambda p: ready(p.created(ago(minutes=5, seconds=9)), minutes=5), {}),
    "restarted lately": (nothing, lambda p: ready(p.created(ago(days=9)), minutes=5), {}),
    "starts slowly": (lambda p: ready(p.created(ago(days=1, minutes=9)), days=1), nothing, {}),
    "restarted once is no slow start": (
        lambda p: ready(p.created(ago(days=1, minutes=5)), days=1),
        lambda p: ready(p.created(ago(days=9)), days=1),
        {},
    ),
    "starts first": (nothing, nothing, {"mode": "StartFirst"}),
    "local data": (lambda p: p.volume({"name": "data", "hostPath": {"path": "/data"}}), nothing, {}),
    "priority": (lambda p: p.priority(1000), nothing, {}),
    "deletion cost": (lambda p: p.annotate({POD_DELETION_COST: "10"}), nothing, {}),
    "prefers no eviction": (lambda p: p.annotate({DESCHEDULER_PREFER_NO_EVICTION: "x"}), nothing, {}),
}
WISHES = {
    "LowNodeUtilization": {"thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 40.0}},
    "InterPodAntiAffinity": {},
    "TopologySpread": {},
    "PendingPods": {},
    "Defragmentation": {"template": {"cpu": "3"}},
    "HighNodeUtilization": {"thresholds": {"cpu": 30.0}, "target_thresholds": {"cpu": 80.0}},
}
SPREAD = {
    "topologyKey": "kubernetes.io/hostname",
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"team": "x"}},
}
APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"team": "x"}}}


def shaped(pod, policy):
    pod = pod.cpu("1").label(team="x")
    if policy == "InterPodAntiAffinity":
        pod = pod.set("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", [APART])
    if policy == "TopologySpread":
        pod = pod.set("spec.topologySpreadConstraints", [SPREAD])
    return pod


def one(policy, name, change, *, replicas=1, mode=""):
    above = b.deployment(name).replicas(replicas)
    if mode:
        above = above.annotate({ANNOTATION_MODE: mode})
    owner = (
        b.replicaset(f"{name}-1").template_label({"app": name, "pod-template-hash": "1"}).replicas(replicas)
    )
    owner = owner.owned_by(above)
    others = [owner.pod(f"{name}-{i}").cpu("10m").on("n3") for i in range(1, replicas)]
    node = "n2" if (policy, name) == ("HighNodeUtilization", "b") else "n1"
    return [above, owner, *others, change(shaped(owner.pod(f"{name}-0").on(node), policy))]


def cluster(policy, way):
    """n1 has both pods, n2 has room, n3 takes no more. Nodes are emptied as a whole: there n1 and n2 have one each."""
    stays, goes, more = WAYS[way]
    others = []
    if policy == "PendingPods":
        others = [
            b.replicaset("late").replicas(1),
            b.pod("late").cpu("3").owner("ReplicaSet", "late").unschedulable(),
        ]
    if policy in ("PendingPods", "Defragmentation"):
        others.append(b.pod("f").cpu("1500m").on("n2"))
    return b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3"), b.pod("full").cpu("3900m").on("n3"),
        *one(policy, "a", stays), *one(policy, "b", goes, **more), *others,
    )  # fmt: skip


@pytest.mark.crossed
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy", WISHES)
def test_the_pod_whose_move_disturbs_least_leaves(decide, policy, way):
    plan = decide(cluster(policy, way), (policy, WISHES[policy]), inputs=INPUTS)
    assert [move.pod.name for move in plan.moves] == ["b-0"]
