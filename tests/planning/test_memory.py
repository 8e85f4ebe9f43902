"""A plan is the same with what was remembered from earlier decisions as without it."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState
from rescheduler.testing import builders as b
from tests.seeds import examples

CONSTRAINTS = (
    lambda owner, name: owner.apart("kubernetes.io/hostname", app=name),
    lambda owner, _: owner.apart("topology.kubernetes.io/zone", app="app0"),
    lambda owner, name: owner.spread("topology.kubernetes.io/zone", app=name),
    lambda owner, _: owner.requires_node("disk", "ssd"),
    lambda owner, _: owner.prefers_node("disk", "ssd"),
)
POLICIES = {"NodeAffinity": {"types": ("required", "preferred")}}


def owner_of(number):
    name = f"app{number}"
    return b.replicaset(name).cpu(["100m", "400m", "900m"][number % 3]).replicas(4)


@st.composite
def histories(draw):
    """A cluster, and what happens to it before each of a few decisions."""
    nodes = [
        b.node(f"n{i}").zone("abc"[i % 3]).cpu("4").label(disk=draw(st.sampled_from(["ssd", "hdd"])))
        for i in range(draw(st.integers(2, 5)))
    ]
    apps = []
    for number in range(draw(st.integers(1, 3))):
        owner = owner_of(number)
        for constraint in draw(st.lists(st.sampled_from(CONSTRAINTS), max_size=2, unique=True)):
            owner = constraint(owner, f"app{number}")
        apps.append(owner)
    pods = [
        owner.pod(f"{i}-{k}").on(f"n{draw(st.integers(0, len(nodes) - 1))}")
        for i, owner in enumerate(apps)
        for k in range(draw(st.integers(0, 5)))
    ]
    start = b.snapshot(*nodes, *apps, *pods)
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 50), st.integers(0, 50)),
            min_size=1, max_size=6,
        )
    )  # fmt: skip
    return start, steps


def _pod(snapshot, pick):
    keys = sorted(snapshot.pods)
    return snapshot.pods[keys[pick % len(keys)]] if keys else None


def _with(snapshot, *come, gone=()):
    pods = {key: pod for key, pod in snapshot.pods.items() if key not in {p.key for p in gone}}
    return dataclasses.replace(snapshot, pods={**pods, **{p.key: p for p in come}})


def _node_name(snapshot, pick):
    return sorted(snapshot.nodes)[pick % len(snapshot.nodes)]


def moved(snapshot, one, two):
    pod = _pod(snapshot, one)
    return _with(snapshot, msgspec.structs.replace(pod, node=_node_name(snapshot, two))) if pod else snapshot


def removed(snapshot, one, _):
    pod = _pod(snapshot, one)
    return _with(snapshot, gone=[pod]) if pod else snapshot


def unbound(snapshot, one, _):
    pod = _pod(snapshot, one)
    return _with(snapshot, msgspec.structs.replace(pod, node="")) if pod else snapshot


def ending(snapshot, one, _):
    pod = _pod(snapshot, one)
    return _with(snapshot, msgspec.structs.replace(pod, deleting=True)) if pod else snapshot


def added(snapshot, one, two):
    pod = _pod(snapshot, one)
    if pod is None:
        return snapshot
    twin = msgspec.structs.replace(pod, name=f"twin-{one}-{two}", uid=f"twin-{one}-{two}")
    return _with(snapshot, msgspec.structs.replace(twin, node=_node_name(snapshot, two)))


def _node_changed(snapshot, pick, **changes):
    name = _node_name(snapshot, pick)
    node = msgspec.structs.replace(snapshot.nodes[name], **changes)
    return dataclasses.replace(snapshot, nodes={**snapshot.nodes, name: node})


def cordoned(snapshot, one, two):
    return _node_changed(snapshot, one, unschedulable=bool(two % 2))


def relabelled(snapshot, one, two):
    node = snapshot.nodes[_node_name(snapshot, one)]
    labels = type(node.labels)({**node.labels, "disk": ["ssd", "hdd"][two % 2]})
    return _node_changed(snapshot, one, labels=labels)


def renewed(snapshot, one, _):
    return _node_changed(snapshot, one, resource_version="later")


STEPS = {f.__name__: f for f in (moved, removed, unbound, ending, added, cordoned, relabelled, renewed)}


def build():
    return [kind.build(kind.args(**POLICIES.get(name, {}))) for name, kind in REGISTRY.items()]


@pytest.mark.parametrize("unlimited", [False, True])
@settings(max_examples=examples(15, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories())
def test_every_decision_is_the_one_that_a_fresh_start_would_make(unlimited, history):
    snapshot, steps = history
    inputs = PlanningInputs(unlimited=unlimited)
    state, policies = SchedulingState(snapshot), build()
    plan(snapshot, policies, inputs, state)
    for kind, one, two in steps:
        snapshot = STEPS[kind](snapshot, one, two)
        remembered = plan(snapshot, policies, inputs, state)
        assert remembered == plan(snapshot, build(), inputs, SchedulingState(snapshot))
