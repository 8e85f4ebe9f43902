"""Where pods of lower priority hold the room, the reason names them; nothing else of a plan changes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.planning.priorities import behind_lower_priority
from rescheduler.scheduling.state import SchedulingState

OLD = b.node("n1").taint("old")


def over(app, *on, cpu="2", priority=-10):
    return app("over", on, lambda s: s.cpu(cpu).priority(priority))


def message(made):
    assert not made.moves
    return next(skipped.message for skipped in made.skipped if skipped.pod.name == "web-0")


def web(app):
    return app("web", ["n1"], lambda s: s.cpu("3"))


def test_overprovisioning_pods_are_named_where_resources_are_short(decide, app):
    text = message(
        decide(b.snapshot(OLD, b.node("n2").cpu("4"), web(app), over(app, "n2", "n2")), "NodeTaints")
    )
    assert "node/n2 would have room without 2 pods of lower priority" in text
    assert "default/over-0 (priority -10), default/over-1 (priority -10)" in text


def test_of_several_only_those_that_must_go(decide, app):
    cluster = b.snapshot(OLD, b.node("n2").cpu("4"), web(app), over(app, "n2", "n2", "n2", cpu="1"))
    assert "without 2 pods" in message(decide(cluster, "NodeTaints"))


@pytest.mark.parametrize("priority", [0, 10])
def test_pods_of_equal_or_higher_priority_are_not_named(decide, app, priority):
    cluster = b.snapshot(OLD, b.node("n2").cpu("4"), web(app), over(app, "n2", "n2", priority=priority))
    assert "lower priority" not in message(decide(cluster, "NodeTaints"))


@pytest.mark.parametrize("change", [lambda n: n.cordoned(), lambda n: n.taint("x"), lambda n: n.cpu("2")])
def test_nor_those_of_a_node_that_would_not_take_it_anyway(decide, app, change):
    cluster = b.snapshot(OLD, change(b.node("n2").cpu("4")), web(app), over(app, "n2", cpu="2"))
    assert "lower priority" not in message(decide(cluster, "NodeTaints"))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-10, 0, 5]), st.integers(1, 3)), max_size=12),
    st.sampled_from([-20, 0, 100]),
)
@settings(max_examples=60, deadline=None)
def test_what_is_said_is_true_and_the_state_is_left_as_it_was(others, priority):
    nodes = [b.node(f"n{i}").cpu("4") for i in range(4)]
    pods = [b.pod(f"p{i}").on(f"n{n}").priority(p).cpu(str(cpu)) for i, (n, p, cpu) in enumerate(others)]
    cluster = b.snapshot(*nodes, *pods, b.pod("coming").cpu("3").priority(priority))
    state = SchedulingState(cluster)
    coming = next(pod for pod in cluster.pods.values() if pod.name == "coming")
    before = state.checkpoint(), state.feasible(coming).tolist()
    text = behind_lower_priority(state, cluster, coming, "n0")
    assert (state.checkpoint(), state.feasible(coming).tolist()) == before
    able = set()
    for node in ("n1", "n2", "n3"):
        kept = [cpu for n, p, cpu in others if f"n{n}" == node and p >= priority]
        if sum(kept) <= 1 and any(f"n{n}" == node and p < priority for n, p, _ in others):
            able.add(node)
    full = {n for n in able if sum(c for i, _, c in others if f"n{i}" == n) > 1}
    assert bool(text) == bool(full)
    assert not text or text.split()[1].removeprefix("node/") in full
