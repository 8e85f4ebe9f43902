"""Duplicates: what it says of a move is exact. How many copies leave a node: tests/conversion/table_of_duplicates.py."""

from harness import builders as b
from harness.rest.clusters import random_cluster
from rescheduler.policies.duplicates import Duplicates, DuplicatesArgs
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, Tier
from rescheduler.scheduling.state import SchedulingState


def policy(**arguments):
    return Duplicates(DuplicatesArgs(**arguments))


def test_what_it_says_of_a_move_is_exact():
    duplicates = policy()
    seen = 0
    for seed in range(20):
        cluster = random_cluster(seed)
        state = SchedulingState(cluster)
        view = PolicyView.of(cluster, state)
        pods = [pod for pod in cluster.pods.values() if pod.node]
        for pod, replacement in zip(pods[:4], reversed(pods), strict=False):
            before, change = duplicates.badness(view), duplicates.change(pod, replacement, view)
            for i, node in enumerate(state.node_names):
                mark = state.checkpoint()
                state.remove(pod)
                state.place(replacement, node)
                if node != pod.node:
                    assert (duplicates.badness(view) - before).tolist() == change[:, i].tolist()
                    seen += bool(change[Tier.SOFT, i])
                state.rollback(mark)
    assert seen > 20


def test_one_pair_is_one_pod(app):
    duplicates = policy()
    cluster = b.snapshot(b.node("n0"), app("web", ["n0", "n0"]))
    assert duplicates.badness(PolicyView.of(cluster, SchedulingState(cluster)))[Tier.SOFT] == ONE
