"""Pods that were placed: counted as if all pods were looked at each time."""

from harness.builders import pod
from rescheduler.model.cluster import ClusterState
from rescheduler.model.kinds import Kind
from rescheduler.room_sets.node_use import PlacedPods

NOW_S = 1_790_000_000.0
OWNERS = ()


def bound(name, on="n"):
    made = pod(name).set("metadata.creationTimestamp", "2026-09-21T13:00:00Z")
    return made.on(on) if on else made


def found(state, placed, from_s=0.0, windows=("w",), owned=lambda pod: pod.name != "other"):
    placed.follow(state.snapshot(NOW_S), windows)
    return placed.of("w", OWNERS, from_s, owned)


def state_of(*pods):
    state = ClusterState()
    for each in pods:
        state.apply(Kind.POD, each.build())
    return state


def test_pods_are_counted_once_they_are_bound_and_count_on():
    state, placed = state_of(bound("a"), bound("other"), bound("b", on="")), PlacedPods()
    (a,) = found(state, placed)
    state.apply(Kind.POD, bound("b").build())
    assert len(found(state, placed)) == 2
    state.lose(Kind.POD, bound("a").build())
    assert a in found(state, placed)


def test_another_beginning_or_window_is_counted_anew():
    state, placed = state_of(bound("a")), PlacedPods()
    assert found(state, placed)
    assert not found(state, placed, from_s=NOW_S + 1)
    state.lose(Kind.POD, bound("a").build())
    placed.follow(state.snapshot(NOW_S), ())
    assert not found(state, placed)
