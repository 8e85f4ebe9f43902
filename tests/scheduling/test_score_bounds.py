"""How far a node's scores lie below the best is never more than the plugins say beforehand, and they say when that is little."""

from collections import Counter

import msgspec
import numpy as np
import pytest

from harness.differential.clusters import random_cluster
from harness.differential.comparison import profile_of, snapshot_of
from rescheduler.scheduling.plugin import PossibleNodes
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import some

CLUSTERS = 120
SAID = (
    "TaintToleration",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "PodTopologySpread",
    "InterPodAffinity",
)
"""Of these it is often known that they do not differ by all their points."""


def differences(state, pod):
    """Plugin -> (the most by which a node beats the pod's own, whether the plugin gives any points), the pod taken off."""
    here, mark = state.node_index[pod.node], state.checkpoint()
    state.remove(pod)
    probe = msgspec.structs.replace(pod, node="", nominated_node="")
    nodes = np.flatnonzero(state.feasible(probe))
    found = None
    if here in nodes:
        own = int(np.flatnonzero(nodes == here)[0])
        points = {name: points for name, _, points in state.points(probe, nodes)}
        found = {name: (int(p.max() - p[own]), bool(p.any())) for name, p in points.items()}
    state.rollback(mark)
    return found


@pytest.mark.parametrize("begin", some(range(0, CLUSTERS, 10), 4))
def test_no_score_is_further_behind_than_its_plugin_says(begin):
    seen = Counter()
    for seed in range(begin, begin + 10):
        question = random_cluster(seed)
        state = SchedulingState(snapshot_of(question.objects), profile_of(question))
        possible = PossibleNodes(np.arange(state.nodes.size))
        pods = [pod for node in state.node_names for pod in state.pods_on(node)]
        for pod in pods:
            true = differences(state, pod)
            if true is None or pod.deleting:
                continue
            probe = msgspec.structs.replace(pod, node="", nominated_node="")
            here = np.array([state.node_index[pod.node]])
            bounds = {name: bound for name, _, bound in state.behind(probe, here, possible)}
            for name, (most, any_points) in true.items():
                if name not in bounds:
                    assert not any_points, (seed, pod.name, name)
                    continue
                assert most <= bounds[name].most[0], (seed, pod.name, name)
                assert any_points or not bounds[name].certain[0], (seed, pod.name, name)
                seen[name] += bool(bounds[name].most[0] < 100)
    assert all(seen[name] for name in SAID)
