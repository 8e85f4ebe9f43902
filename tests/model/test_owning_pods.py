"""A pod that other objects are deleted with says so in a Snapshot, in whatever order the objects are seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.model.cluster import ClusterState, key_of
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey, OwnerRef, Pod, PodSpec, Service, Workload
from tests.records import pod_record

STAYS = {"apiVersion": "example.com/v1", "kind": "Group", "name": "g", "uid": "g"}
LEADER = ObjectKey("default", "llm-0")


def owned_by(builder, *pods):
    refs = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"pod-default-{name}"} for name in pods]
    return builder.set("metadata.ownerReferences", refs)


def owns(*objects):
    return b.snapshot(b.node("n1"), b.pod("llm-0").on("n1"), *objects).pods[LEADER].owns


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("made", "words"), [
    (b.statefulset("workers"), "StatefulSet default/workers"),
    (b.job("load"), "Job default/load"),
    (b.service("driver", app="x"), "Service default/driver"),
    (b.pod("exec-1").on("n1"), "Pod default/exec-1"),
    (b.pod("exec-1"), "Pod default/exec-1"),
])  # fmt: skip
def test_what_goes_with_a_pod_is_named(made, words, turned):
    objects = [b.pod("llm-0").on("n1"), owned_by(made, "llm-0")]
    found = b.snapshot(b.node("n1"), *(reversed(objects) if turned else objects))
    assert found.pods[LEADER].owns == words


def test_a_controller_is_named_before_a_pod():
    assert owns(owned_by(b.pod("a"), "llm-0"), owned_by(b.replicaset("z"), "llm-0")) == "ReplicaSet default/z"


@pytest.mark.parametrize("made", [
    owned_by(b.statefulset("workers"), "another"),
    owned_by(b.statefulset("workers", "elsewhere"), "llm-0"),
    owned_by(b.statefulset("workers"), "llm-0").append("metadata.ownerReferences", STAYS),
    owned_by(b.claim("data"), "llm-0"),
], ids=["another pod", "another namespace", "an owner that stays", "a claim"])  # fmt: skip
def test_what_does_not_go_with_it_is_not_named(made):
    assert owns(made) == ""


def test_a_pod_of_the_same_name_with_another_uid_owns_nothing():
    again = b.pod("llm-0").on("n1").uid("new")
    assert b.snapshot(b.node("n1"), again, owned_by(b.statefulset("w"), "llm-0")).pods[LEADER].owns == ""


def test_followers_of_the_pods_are_told_when_a_dependent_comes_and_goes():
    state, workers = ClusterState(), owned_by(b.statefulset("w"), "llm-0").build()
    state.apply(Kind.POD, b.pod("llm-0").build())
    before = state.snapshot(0.0)
    state.apply(Kind.STATEFUL_SET, workers)
    after = state.snapshot(0.0)
    assert list(after.pods_changed_since(before)) == [LEADER]
    state.remove(Kind.STATEFUL_SET, workers)
    assert state.snapshot(0.0).pods[LEADER].owns == ""


def _pod(namespace, name, owner, version):
    refs = (OwnerRef("v1", "Pod", owner, f"{namespace}-{owner}"),) if owner else ()
    return pod_record(
        namespace=namespace,
        name=name,
        uid=f"{namespace}-{name}",
        spec=PodSpec(),
        owner_pods=refs,
        resource_version=version,
    )


def _other(kind, namespace, owner):
    refs = (OwnerRef("v1", "Pod", owner, f"{namespace}-{owner}"),) if owner else ()
    if kind is Kind.SERVICE:
        return Service(namespace, "s", None, refs)
    return Workload(kind=kind.value, namespace=namespace, name="w", uid=namespace, owner_pods=refs)


def _kind(record):
    return {Pod: Kind.POD, Service: Kind.SERVICE, Workload: Kind.STATEFUL_SET}[type(record)]


NAMES = st.sampled_from("ab")
OWNERS = st.sampled_from(("", "a", "b"))
SPACES = st.sampled_from(("shop", "evil"))
RECORDS = st.one_of(
    st.builds(_pod, SPACES, NAMES, OWNERS, st.sampled_from("123456")),
    st.builds(_other, st.sampled_from((Kind.SERVICE, Kind.STATEFUL_SET)), SPACES, OWNERS),
)
STEPS = st.lists(st.tuples(st.sampled_from(("apply", "lose", "list", "look")), RECORDS), max_size=30)


@given(STEPS)
def test_what_is_shown_depends_on_the_objects_and_not_on_the_order(steps):
    state, there = ClusterState(), {}
    for act, record in steps:
        kind, key = _kind(record), key_of(record)
        if act == "look":
            state.snapshot(0.0)
        elif act == "lose":
            state.lose(kind, record)
            there.pop((kind, key), None)
        elif act == "list":
            there = {k: r for k, r in there.items() if k[0] is not kind} | {(kind, key): record}
            for other in state.all_of(kind):
                state.lose(kind, other)
            state.apply(kind, record)
        elif state.apply(kind, record) is not None:
            there[kind, key] = record
    again = ClusterState()
    for record in there.values():
        again.apply(_kind(record), record)
    assert dict(state.snapshot(0.0).pods) == dict(again.snapshot(0.0).pods)
