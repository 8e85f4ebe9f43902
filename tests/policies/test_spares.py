"""Where spares are not looked at, policies may leave them out, and nothing else."""

import dataclasses

import pytest

from harness import builders as b
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState


@pytest.fixture
def view():
    """A node far too full of pods that should be spread, and two that are empty."""
    nodes = [b.node(f"n{i}").zone("abc"[i]).cpu("4") for i in range(3)]
    owner = b.replicaset("web").cpu("600m").replicas(6).spread("topology.kubernetes.io/zone", app="web")
    snapshot = b.snapshot(*nodes, owner, *(owner.pod(f"web-{k}").on("n0") for k in range(6)))
    return PolicyView.of(snapshot, SchedulingState(snapshot))


@pytest.mark.parametrize("name", ["LowNodeUtilization", "TopologySpread"])
def test_without_spares_the_wanted_pods_are_the_same(view, name):
    policy = REGISTRY[name].build(REGISTRY[name].args())
    everything = policy.candidates(view)
    assert any(candidate.spare for candidate in everything)
    wanted = [candidate for candidate in everything if not candidate.spare]
    assert wanted
    assert list(policy.candidates(dataclasses.replace(view, spares=False))) == wanted
