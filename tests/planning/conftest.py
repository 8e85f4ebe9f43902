"""What the tests of planning share: plans made of builders, with landing places."""

from __future__ import annotations

import pytest

from rescheduler.planning.limits import Limits, PlanningInputs, Protections
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState
from rescheduler.testing import builders as b


@pytest.fixture
def decide():
    """decide(snapshot, "NodeTaints", {arguments by field name}) -> Plan, as if limits at once did not exist."""

    def decide(snapshot, *policies, inputs=None):
        chosen = []
        for entry in policies:
            name, args = entry if isinstance(entry, tuple) else (entry, {})
            kind = REGISTRY[name]
            chosen.append(kind.build(kind.args(**args)))
        inputs = inputs or PlanningInputs(
            limits=Limits(), protections=Protections(), aggressiveness=0.5, unlimited=True
        )
        return plan(snapshot, chosen, inputs, SchedulingState(snapshot))

    return decide


@pytest.fixture
def landings():
    """landings(plan) -> {pod name: target node}."""
    return lambda plan: {move.pod.name: move.target for move in plan.moves}


@pytest.fixture
def app():
    """app("web", on=["n1", "n1"], make=lambda pod: pod.cpu("1")) -> ReplicaSet and its pods web-0, web-1."""

    def app(name, on, make=lambda spec: spec, namespace="default", replicas=None):
        owner = make(b.replicaset(name, namespace)).replicas(replicas or max(len(on), 1))
        pods = []
        for i, place in enumerate(on):
            built = owner.pod(f"{name}-{i}")
            pods.append(built.on(place) if place else built)
        return [owner, *pods]

    return app
