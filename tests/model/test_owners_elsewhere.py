"""Pods and controllers that name a controller of another namespace are nobody's siblings, in whatever order they are seen."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.model.cluster import ClusterState, key_of
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey, OwnerRef, Pod, PodSpec, Workload
from rescheduler.replacements.replacement import Replacements
from tests.records import pod_record

NAMESPACES = ("shop", "evil")
UIDS = ("rs", "d")


def pod(namespace="shop", name="a", owner="rs", version="1"):
    ref = OwnerRef("apps/v1", "ReplicaSet", "web", owner) if owner else None
    uid = f"{namespace}-{name}"
    return pod_record(
        namespace=namespace, name=name, uid=uid, spec=PodSpec(), controller=ref, resource_version=version
    )


def workload(uid="rs", namespace="shop", owner=""):
    ref = OwnerRef("apps/v1", "Deployment", "web", owner) if owner else None
    kind = "ReplicaSet" if uid == "rs" else "Deployment"
    return Workload(kind=kind, namespace=namespace, name="web", uid=uid, replicas=1, controller=ref)


def kind_of(record):
    if isinstance(record, Pod):
        return Kind.POD
    return Kind.REPLICA_SET if record.uid == "rs" else Kind.DEPLOYMENT


def shown(records):
    state = ClusterState()
    for record in records:
        state.apply(kind_of(record), record)
    return state.snapshot(0.0)


def owners(snapshot):
    found = {**snapshot.pods, **snapshot.workloads}
    return {key: record.controller.uid if record.controller else "" for key, record in found.items()}


@pytest.mark.parametrize("turned", [False, True])
def test_a_controller_of_another_namespace_is_none(turned):
    records = [workload(), pod(), pod("evil"), workload("d", "shop"), pod("evil", "b", "d")]
    found = owners(shown(reversed(records) if turned else records))
    assert found[ObjectKey("shop", "a")] == "rs"
    assert found[ObjectKey("evil", "a")] == found[ObjectKey("evil", "b")] == ""


def test_neither_does_a_controller_stand_below_one_of_another_namespace():
    assert owners(shown([workload("d"), workload("rs", "evil", "d")]))["rs"] == ""
    assert owners(shown([workload("d"), workload("rs", "shop", "d")]))["rs"] == "d"


def test_an_owner_that_nothing_is_known_of_is_left_as_it_is():
    assert owners(shown([pod("evil")]))[ObjectKey("evil", "a")] == "rs"


def test_followers_of_the_pods_are_told_when_the_controller_comes_later():
    state = ClusterState()
    state.apply(Kind.POD, pod("evil"))
    before = state.snapshot(0.0)
    state.apply(Kind.REPLICA_SET, workload())
    after = state.snapshot(0.0)
    assert list(after.pods_changed_since(before)) == [ObjectKey("evil", "a")]
    assert list(state.snapshot(0.0).pods_changed_since(after)) == []


RECORDS = st.one_of(
    st.builds(
        pod,
        st.sampled_from(NAMESPACES),
        st.sampled_from("ab"),
        st.sampled_from(("", *UIDS, "unknown")),
        st.sampled_from("123456"),
    ),
    st.builds(workload, st.just("rs"), st.sampled_from(NAMESPACES), st.sampled_from(("", "d"))),
    st.builds(workload, st.just("d"), st.sampled_from(NAMESPACES)),
)
STEPS = st.lists(st.tuples(st.sampled_from(("apply", "lose", "list", "look")), RECORDS), max_size=30)


@given(STEPS)
def test_what_is_shown_depends_on_the_objects_and_not_on_the_order(steps):
    state, there, homes = ClusterState(), {}, {}
    for act, record in steps:
        kind, key = kind_of(record), key_of(record)
        if homes.setdefault(key, record.namespace) != record.namespace:
            continue  # no uid comes back in another namespace
        if act == "look":
            state.snapshot(0.0)
        elif act == "lose":
            state.lose(kind, record)
            there.pop(key, None)
        elif act == "list":
            there = {k: r for k, r in there.items() if kind_of(r) is not kind} | {key: record}
            for other in state.all_of(kind):
                state.lose(kind, other)
            state.apply(kind, record)
        elif state.apply(kind, record) is not None:
            there[key] = record
    found, again = state.snapshot(0.0), shown(there.values())
    assert dict(found.pods) == dict(again.pods)
    assert dict(found.workloads) == dict(again.workloads)


def created(pod, minute):
    return pod.set("metadata.creationTimestamp", f"2026-01-01T00:{minute:02d}:00Z")


@pytest.mark.parametrize("forged", [
    lambda owner: owner.pod("x"),
    lambda owner: owner.cpu("64").pod("x").deleting(),
    lambda owner: owner.cpu("10m").pod("x").deleting(),
    lambda owner: owner.pod("x").gate("example.com/never"),
], ids=["one more", "a big one that ends", "a small one that ends", "a gated one"])  # fmt: skip
def test_what_comes_back_for_a_pod_is_not_what_others_have_made_in_its_name(forged):
    owner = b.replicaset("web").replicas(2).cpu("1").template_label(app="web")
    mine = [created(owner.pod(f"web-{number}").on("n1"), 1) for number in range(2)]
    theirs = created(forged(owner), 5).set("metadata.namespace", "evil")

    def comes_back(*more):
        cluster = b.snapshot(b.node("n1"), owner, *mine, *more)
        return Replacements(cluster).of(cluster.pods[ObjectKey("default", "web-0")])

    alone, found = comes_back(), comes_back(theirs)
    assert found.pod is not None
    assert msgspec.structs.replace(found, pod=None) == msgspec.structs.replace(alone, pod=None)
    assert found.pod.spec == alone.pod.spec
