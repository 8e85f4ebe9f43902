"""The log of changed pods never misses a change, and says so where it cannot know."""

import dataclasses

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.cluster import ClusterState
from rescheduler.model.kinds import Kind
from rescheduler.model.records import Node, ObjectKey, PodSpec
from rescheduler.model.snapshot import KEPT, ChangeLog
from tests.records import pod_record


def pod(name, version):
    return pod_record(namespace="a", name=name, uid=name, resource_version=str(version), spec=PodSpec())


def differing(old, new):
    return {key for key in {*old.pods, *new.pods} if old.pods.get(key) is not new.pods.get(key)}


STEPS = st.lists(
    st.tuples(st.sampled_from(["apply", "delete", "add", "look"]), st.sampled_from("abcdef")), max_size=30
)


@given(STEPS)
def test_every_difference_between_any_two_snapshots_is_named(steps):
    state = ClusterState()
    seen = [state.snapshot(0.0)]
    for version, (what, name) in enumerate(steps):
        record = pod(name, version)
        if what == "apply":
            state.apply(Kind.POD, msgspec.structs.replace(record, uid=f"{name}-{version}"))
        elif what == "delete":
            state.delete(Kind.POD, record.key)
        elif what == "add":
            state.add(Kind.POD, [record])
        seen.append(state.snapshot(float(version)))
    for at, old in enumerate(seen):
        for new in seen[at:]:
            named = new.pods_changed_since(old)
            assert named is None or differing(old, new) <= set(named)


def test_single_changes_are_named_exactly():
    state = ClusterState()
    for name in "abc":
        state.apply(Kind.POD, pod(name, 1))
    old = state.snapshot(0.0)
    state.apply(Kind.POD, pod("b", 2))
    state.apply(Kind.NODE, Node(name="n"))
    assert list(state.snapshot(1.0).pods_changed_since(old)) == [ObjectKey("a", "b")]


def test_a_list_of_all_pods_and_a_snapshot_made_by_hand_must_be_compared():
    state = ClusterState()
    state.apply(Kind.POD, pod("a", 1))
    old = state.snapshot(0.0)
    by_hand = dataclasses.replace(old, pods={**old.pods, ObjectKey("a", "b"): pod("b", 1)})
    assert by_hand.pods_changed_since(old) is None
    assert old.pods_changed_since(by_hand) is None
    state.add(Kind.POD, [pod("a", 2)])
    assert state.snapshot(1.0).pods_changed_since(old) is None


def test_another_state_must_be_compared():
    one, other = ClusterState(), ClusterState()
    for state in (one, other):
        state.apply(Kind.POD, pod("a", 1))
    assert other.snapshot(0.0).pods_changed_since(one.snapshot(0.0)) is None


def test_a_position_that_was_dropped_is_unknown():
    log = ChangeLog()
    for number in range(2 * KEPT + 1):
        log.append(ObjectKey("a", str(number)))
    assert log.between(0, 1) is None
    newest = log.position({}).position
    assert list(log.between(newest - 1, newest)) == [ObjectKey("a", str(2 * KEPT))]
