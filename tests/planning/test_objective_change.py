"""What a policy says a move would change in the badness is exactly what it changes, for every node."""

import random

import msgspec
import pytest

from harness.rest.clusters import random_cluster
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.node_prices import NodePriceArgs
from rescheduler.policies.registry import REGISTRY
from rescheduler.policies.wire import LabelSelectorArgs
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import CPU_AND_MEMORY, Profile, ScoringStrategy, ShapePoint
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import NIGHTLY, seeds

MOST = Profile(fit_strategy=ScoringStrategy.MOST_ALLOCATED)
RATIO = Profile(
    fit_strategy=ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO,
    fit_shape=(ShapePoint(0, 0), ShapePoint(70, 10), ShapePoint(100, 3)),
    fit_resources=CPU_AND_MEMORY,
    hard_pod_affinity_weight=30,
)
ONE_APP = LabelSelectorArgs(match_labels={"app": "app0"})
SSD = NodePriceArgs(node_selector={"disk": "ssd"}, price=2.5)
POLICIES = [
    ("NodeTaints", {"include_prefer_no_schedule": True}, None),
    ("NodeTaints", {"included_taints": ("slow", "node.kubernetes.io/unschedulable")}, None),
    ("NodeTaints", {"label_selector": ONE_APP}, None),
    ("NodeTaints", {"priority_threshold": 1}, None),
    ("NodeHealth", {"after_s": 0.0, "conditions": ("KernelDeadlock",)}, None),
    ("NodeAffinity", {"types": ("required", "preferred")}, None),
    ("NodeAffinity", {"types": ("score",)}, None),
    ("NodeAffinity", {"types": ("required", "score"), "label_selector": ONE_APP}, MOST),
    ("NodeAffinity", {"types": ("score",)}, RATIO),
    ("InterPodAntiAffinity", {}, None),
    ("PodAffinity", {"types": ("required", "preferred")}, None),
    ("TopologySpread", {"constraints": ("DoNotSchedule", "ScheduleAnyway")}, None),
    ("TopologySpread", {"constraints": ("ScheduleAnyway",), "label_selector": ONE_APP}, None),
    ("LowNodeUtilization", {}, None),
    ("HighNodeUtilization", {}, None),
    ("HighNodeUtilization", {"price_label": "price", "prices": (SSD,), "default_price": 0.3}, None),
    ("Defragmentation", {"template": {"cpu": "1500m"}}, None),
    ("Defragmentation", {"template": {"cpu": 1, "memory": "1Gi"}, "node_selector": {"disk": "ssd"}}, None),
    ("WorkloadSpread", {}, None),
    ("WorkloadSpread", {"weight": 0.5, "label_selector": ONE_APP}, None),
]


@pytest.mark.parametrize(("name", "args", "profile"), POLICIES)
def test_change_is_the_difference_of_badness(name, args, profile):
    kind = REGISTRY[name]
    policy = kind.build(kind.args(**args))
    different = 0
    for seed in seeds(0, 40, 12):
        cluster = random_cluster(seed)
        chance = random.Random(seed)  # noqa: S311 -- the same choices each time
        state = SchedulingState(cluster, profile)
        view = PolicyView.of(cluster, state)
        pods = [p for p in cluster.pods.values() if p.node]
        for pod in chance.sample(pods, min(5, len(pods))):
            for replacement in (_from_template(cluster, pod), _like(chance.choice(pods), pod)):
                different += _check(policy, pod, replacement, view)
    assert different > (5 if NIGHTLY else 1), "moves that change nothing prove nothing"


def test_change_is_exact_in_the_middle_of_a_plan():
    """Moves that stand in the what-if state bring classes and counts that were not there before."""
    policies = [REGISTRY[name].build(REGISTRY[name].args(**args)) for name, args, _ in POLICIES]
    for seed in seeds(0, 40, 12):
        cluster = random_cluster(seed)
        chance = random.Random(seed)  # noqa: S311 -- the same choices each time
        state = SchedulingState(cluster)
        view = PolicyView.of(cluster, state)
        for _ in range(4):
            pods = [p for node in state.node_names for p in state.pods_on(node)]
            if not pods:
                break
            pod = chance.choice(pods)
            replacement = _like(chance.choice(pods), pod)
            for policy in policies:
                _check(policy, pod, replacement, view)
            state.remove(pod)
            state.place(replacement, chance.choice(state.node_names))


def _check(policy, pod, replacement, view):
    state = view.state
    before = policy.badness(view)
    change = policy.change(pod, replacement, view)
    assert (change[:, state.node_index[pod.node]] == 0).all()
    for i, node in enumerate(state.node_names):
        if node == pod.node:
            continue
        mark = state.checkpoint()
        state.remove(pod)
        state.place(replacement, node)
        after = policy.badness(view)
        state.rollback(mark)
        assert (after - before).tolist() == change[:, i].tolist(), (pod.name, pod.node, node)
    assert (policy.badness(view) == before).all()
    return bool(change.any())


def _from_template(cluster, pod):
    return Replacements(cluster).of(pod).pod


def _like(other, pod):
    """What comes back if the template has become that of another application."""
    return msgspec.structs.replace(other, name=pod.name, uid=f"{pod.uid}/next", node="")
