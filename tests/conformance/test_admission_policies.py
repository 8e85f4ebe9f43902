"""The gate and the hint: the project's two admission policies, as they stand in ``manifests/``."""

import uuid

import pytest

from harness.controlplane.world import gates_of, keys_on
from rescheduler.model.controller_key import controller_key
from rescheduler.model.names import GATE, LABEL_GATE_PROBE

MAPS = "/api/v1/namespaces/rescheduler/configmaps"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def owner(uid, *, controller=True):
    """A reference to the ConfigMap of ``switched``: it exists, so the garbage collector leaves its pods alone."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": controller}


@pytest.fixture
def switched(world):
    """Switches policies on for a uid of its own, waits until they are in force, and off again."""
    uid = world.api.create(world.path("configmaps"), {"metadata": {"name": "owner"}}).expect(201).uid
    keys = dict.fromkeys(("gate-keys", "avoid-nodes"), controller_key(world.namespace, uid))

    def switch(config_map, value):
        world.api.patch(f"{MAPS}/{config_map}", keys_on({keys[config_map]: value})).expect(200)

        def in_force():
            probe = (world.api.create(
                world.path("pods"),
                {"metadata": {"name": "probe", "ownerReferences": [owner(uid)]}, "spec": world.spec()},
                dryRun="All",
            ).expect(201) .body)  # fmt: skip
            return gates_of(probe) if config_map == "gate-keys" else probe["spec"].get("affinity")

        world.wait(in_force)
        return uid

    yield switch
    for config_map, key in keys.items():
        world.api.patch(f"{MAPS}/{config_map}", {"data": {key: None}}).expect(200)


def test_a_replacement_is_gated_and_told_its_reservation(world, switched):
    uid = switched("gate-keys", "room-1")
    pod = world.pod("p", owner=owner(uid))
    assert gates_of(pod) == [GATE]
    assert pod["metadata"]["annotations"]["rescheduler.dev/reservation"] == "room-1"


def test_gates_and_annotations_already_there_stay(world, switched):
    uid = switched("gate-keys", "room-1")
    pod = world.pod("p", owner=owner(uid), gates=["example.com/other"], annotations={"a": "b"})
    assert sorted(gates_of(pod)) == ["example.com/other", GATE]
    assert pod["metadata"]["annotations"] == {"a": "b", "rescheduler.dev/reservation": "room-1"}


def test_other_pods_are_left_alone(world, switched):
    uid = switched("gate-keys", "room-1")
    assert gates_of(world.pod("alone")) == []
    assert gates_of(world.pod("others", owner=owner(str(uuid.uuid4())))) == []
    assert gates_of(world.pod("owned", owner=owner(uid, controller=False))) == []


def test_a_bound_pod_is_never_gated(world, switched):
    uid = switched("gate-keys", "room-1")
    assert gates_of(world.pod("p", owner=owner(uid), nodeName=world.node("a"))) == []


def test_the_gate_goes_off_again(world, switched):
    uid = switched("gate-keys", "room-1")
    key = controller_key(world.namespace, uid)
    world.api.patch(f"{MAPS}/gate-keys", {"data": {key: None}}).expect(200)
    world.wait(
        lambda: (
            not gates_of(
                world.api.create(
                    world.path("pods"),
                    {"metadata": {"name": "probe", "ownerReferences": [owner(uid)]}, "spec": world.spec()},
                    dryRun="All",
                ).body
            )
        )
    )


@pytest.mark.parametrize("until", ["2026-01-01T00:00:00Z", None, "", "later"])
def test_nobody_is_gated_once_the_leader_renews_the_keys_no_more(world, switched, until):
    """By the API server's own time, which it notes in a new pod's managedFields before admission."""
    uid = switched("gate-keys", "room-1")
    annotations = {"rescheduler.dev/valid-until": until}
    world.api.patch(f"{MAPS}/gate-keys", {"metadata": {"annotations": annotations}}).expect(200)
    body = {"metadata": {"name": "p", "ownerReferences": [owner(uid)]}, "spec": world.spec()}
    path = world.path("pods")
    world.wait(lambda: not gates_of(world.api.create(path, body, dryRun="All").expect(201).body))
    assert gates_of(world.api.create(path, body).expect(201).body) == []


def test_the_gate_is_provable_in_the_controllers_own_namespace(world, switched):
    uid = switched("gate-keys", "room-1")
    spec = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "image": "pause", "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}],
    }  # fmt: skip
    pods = "/api/v1/namespaces/rescheduler/pods"
    for home, gates in ((world.namespace, [GATE]), ("another", [])):
        metadata = {"name": "probe", "labels": {LABEL_GATE_PROBE: home}, "ownerReferences": [owner(uid)]}
        probe = world.api.create(pods, {"metadata": metadata, "spec": spec}, dryRun="All").expect(201).body
        assert gates_of(probe) == gates


def test_only_pods_of_the_namespace_that_a_key_names_are_gated(world, switched):
    """Anybody may write any uid into an ownerReference, and what a probe says counts in the controller's namespace only."""
    uid = switched("gate-keys", "room-1")
    labels = {LABEL_GATE_PROBE: world.namespace}
    metadata = {"name": "probe", "labels": labels, "ownerReferences": [owner(uid)]}
    body = {"metadata": metadata, "spec": world.spec()}
    pods = "/api/v1/namespaces/default/pods"
    assert gates_of(world.api.create(pods, body, dryRun="All").expect(201).body) == []
    assert gates_of(world.api.create(world.path("pods"), body, dryRun="All").expect(201).body) == [GATE]


@pytest.mark.parametrize(("kind", "name", "labels", "held"), [
    ("StatefulSet", "db", {}, True),
    ("ReplicaSet", "web-1a2b", {"pod-template-hash": "1a2b"}, True),
    ("ReplicaSet", "web-1a2b", {"pod-template-hash": "other"}, False),
    ("ReplicaSet", "web", {}, False),
    ("Job", "night-29", {}, True),
    ("Job", "night", {}, False),
])  # fmt: skip
def test_pods_of_controllers_that_did_not_exist_are_found_by_kind_and_name(world, kind, name, labels, held):
    wanted = ("StatefulSet.db", "Deployment.web", "CronJob.night")
    named = {f"named.{world.namespace}.{one}": "room" for one in wanted}
    world.api.patch(f"{MAPS}/gate-keys", keys_on(named)).expect(200)
    ref = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": str(uuid.uuid4()), "controller": True}
    body = {"metadata": {"name": "p", "labels": labels, "ownerReferences": [ref]}, "spec": world.spec()}
    probe = {
        **body,
        "metadata": {**body["metadata"], "ownerReferences": [{**ref, "kind": "StatefulSet", "name": "db"}]},
    }
    create = lambda pod, path: world.api.create(path, pod, dryRun="All").expect(201).body  # noqa: E731
    try:
        world.wait(lambda: gates_of(create(probe, world.path("pods"))))
        assert gates_of(create(body, world.path("pods"))) == ([GATE] if held else [])
        assert gates_of(create(body, "/api/v1/namespaces/default/pods")) == []
    finally:
        world.api.patch(f"{MAPS}/gate-keys", {"data": dict.fromkeys(named)}).expect(200)


def test_a_replica_set_gets_its_replacements_gated(world, switched):
    node = world.node("a")
    replica_set = world.workload("ReplicaSet", "web", 1)
    (pod,) = world.wait_ready("web", 1)
    uid = replica_set["metadata"]["uid"]
    key = controller_key(world.namespace, uid)
    world.api.patch(f"{MAPS}/gate-keys", keys_on({key: "room-2"})).expect(200)
    try:
        world.wait(
            lambda: gates_of(
                world.api.create(
                    world.path("pods"),
                    {"metadata": {"name": "probe", "ownerReferences": [owner(uid)]}, "spec": world.spec()},
                    dryRun="All",
                ).body
            )
        )
        world.evict(pod).expect(201)
        held = world.wait(lambda: [p for p in world.pods("web") if gates_of(p) == [GATE]])
    finally:
        world.api.patch(f"{MAPS}/gate-keys", {"data": {key: None}}).expect(200)
    world.ungate(held[0]).expect(200)
    assert world.wait_bound(held[0]["metadata"]["name"]) == node


HINT = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "n2"]}]}
TERM = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}


@pytest.mark.parametrize("affinity", [
    None,
    {},
    {"podAntiAffinity": {}},
    {"nodeAffinity": {}},
    {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}}},
    {"nodeAffinity": {PREFERRED: [{"weight": 3, "preference": TERM}]}},
], ids=["none", "empty", "only-pods", "empty-nodes", "required", "preferred"])  # fmt: skip
def test_hints_become_three_more_preferences(world, switched, affinity):
    uid = switched("avoid-nodes", "n1,n2")
    spec = {} if affinity is None else {"affinity": affinity}
    stored = world.pod("p", owner=owner(uid), gates=["example.com/wait"], **spec)["spec"]["affinity"]
    before = (affinity or {}).get("nodeAffinity", {})
    assert stored["nodeAffinity"][PREFERRED] == [
        *before.get(PREFERRED, []),
        *[{"weight": 100, "preference": HINT}] * 3,
    ]
    assert stored["nodeAffinity"].get(REQUIRED) == before.get(REQUIRED)
    assert ("podAntiAffinity" in stored) == ("podAntiAffinity" in (affinity or {}))


def test_only_pods_of_the_namespace_that_a_key_names_get_the_hint(world, switched):
    uid = switched("avoid-nodes", "n1,n2")
    body = {"metadata": {"name": "probe", "ownerReferences": [owner(uid)]}, "spec": world.spec()}
    created = world.api.create("/api/v1/namespaces/default/pods", body, dryRun="All").expect(201).body
    assert "affinity" not in created["spec"]


def test_gate_and_hint_work_together(world, switched):
    uid = switched("avoid-nodes", "n1,n2")
    switched("gate-keys", "room-1")
    pod = world.pod("p", owner=owner(uid))
    assert gates_of(pod) == [GATE]
    assert pod["spec"]["affinity"]["nodeAffinity"][PREFERRED] == [{"weight": 100, "preference": HINT}] * 3


def likes(node):
    """The weight-100 wish of a pod's owner for one node."""
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {"weight": 100, "preference": here}


@pytest.mark.parametrize("wishes", [0, 2])
def test_a_hint_outweighs_two_wishes_of_the_owner_and_never_blocks(world, switched, wishes):
    first, second = world.node("a"), world.node("b")
    uid = switched("avoid-nodes", first)
    affinity = {"nodeAffinity": {PREFERRED: [likes(first)] * wishes}}
    world.pod("p", cpu="3", owner=owner(uid), affinity=affinity)
    assert world.wait_bound("p") == second
    world.pod("q", cpu="3", owner=owner(uid))
    assert world.wait_bound("q") == first
