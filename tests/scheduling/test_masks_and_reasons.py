"""The answer for all nodes at once and the answer in words for one node follow the same rule."""

import numpy as np
import pytest

from harness.differential.clusters import random_cluster
from harness.differential.comparison import profile_of, snapshot_of
from rescheduler.model.records import ObjectKey
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.registry import FILTERS
from rescheduler.scheduling.state import SchedulingState


@pytest.mark.parametrize("seed", range(12))
def test_mask_and_refusals_agree(seed):
    question = random_cluster(seed)
    snapshot = snapshot_of(question.objects)
    cluster = Cluster(snapshot, profile_of(question), tuple(snapshot.nodes.values()))
    index = cluster.nodes.index
    bound = [p for p in snapshot.pods.values() if p.node in index and not p.terminal]
    cluster.fill(bound, [index[pod.node] for pod in bound])
    for name in question.asks:
        ask = cluster.ask(snapshot.pods[ObjectKey(*name.split("/"))])
        for plugin in FILTERS:
            if plugin.everywhere(ask, cluster) is not None:
                break
            mask = plugin.mask(ask, cluster)
            passes = np.ones(cluster.nodes.size, dtype=bool) if mask is None else mask
            words = [not plugin.refusals(ask, cluster, node) for node in range(cluster.nodes.size)]
            assert passes.tolist() == words, f"{plugin.name} on {name}"


@pytest.mark.parametrize("seed", range(12))
def test_filter_and_explain_agree(seed):
    question = random_cluster(seed)
    snapshot = snapshot_of(question.objects)
    state = SchedulingState(snapshot, profile_of(question))
    for name in question.asks:
        pod = snapshot.pods[ObjectKey(*name.split("/"))]
        verdicts = state.explain(pod)
        mark = state.checkpoint()
        if pod.node in state.node_index and not pod.terminal:
            state.remove(pod)
        result = state.filter(pod)
        total = state.score(pod, result.feasible).total
        nodes = np.flatnonzero(result.feasible)
        assert state.feasible(pod).tolist() == result.feasible.tolist()
        assert [
            state.feasible_at(pod, node) for node in range(len(state.node_names))
        ] == result.feasible.tolist()
        assert state.totals(pod, nodes).tolist() == total[nodes].tolist()
        state.rollback(mark)
        assert result.feasible.tolist() == [verdict.feasible for verdict in verdicts]
        assert total.tolist() == [verdict.score for verdict in verdicts]
        for verdict, code in zip(verdicts, result.refused_by, strict=True):
            assert verdict.feasible == (code == -1)
            if code >= 0:
                assert verdict.refusals[0].plugin == result.plugins[code]
