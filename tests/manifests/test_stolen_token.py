"""What the token of the controller is worth to a thief: the fields that a move needs, and nothing else; on both clusters."""

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import STRATEGIC
from harness.controlplane.world import PATIENCE_S, RESERVATIONS, World
from rescheduler.model import names

OWN = f"/api/v1/namespaces/{names.DEFAULT_NAMESPACE}"
MOVES = "rescheduler.dev/v1alpha1"
OURS = (names.ANNOTATION_HANDOVER_TAINT, names.TAINT_KEPT_EMPTY)
FOREIGN_GATE = "example.com/quota"
RESERVATION = {names.ANNOTATION_RESERVATION: "room"}
GATE_OFF = [{"name": names.GATE, "$patch": "delete"}]
HAND_OVER = {"key": names.ANNOTATION_HANDOVER_TAINT, "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture
def world(both):
    with World(both[0], "thief") as world:
        yield world


@pytest.fixture
def thief(both):
    return both[1]


@pytest.fixture
def pod(world):
    """Path of a pending pod with our gate and another program's."""
    world.pod(
        "victim",
        labels={"app": "web"},
        annotations={"example.com/note": "x"},
        gates=(names.GATE, FOREIGN_GATE),
    )
    return world.path("pods", "victim")


def test_a_hand_over_may_be_carried_out(thief, world, pod):
    thief.patch(f"{pod}/status", {"status": {"nominatedNodeName": "n1"}}).expect(200)
    tolerations = [*world.get_pod("victim")["spec"]["tolerations"], HAND_OVER]
    spec = {"schedulingGates": GATE_OFF, "tolerations": tolerations}
    thief.patch(pod, {"metadata": {"annotations": RESERVATION}, "spec": spec}, STRATEGIC).expect(200)
    thief.patch(pod, {"metadata": {"annotations": dict.fromkeys(RESERVATION)}}).expect(200)
    assert [gate["name"] for gate in world.get_pod("victim")["spec"]["schedulingGates"]] == [FOREIGN_GATE]


@pytest.mark.parametrize("change", [
    {"metadata": {"labels": {"app": "theirs"}}},
    {"metadata": {"labels": None}},
    {"metadata": {"annotations": {"example.com/note": "y"}}},
    {"metadata": {"annotations": {"example.com/note": None}}},
    {"metadata": {"annotations": {names.ANNOTATION_EVICT: "true"}}},
    {"metadata": {"finalizers": ["example.com/never"]}},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"}]}},
    {"spec": {"containers": [{"name": "main", "image": "theirs"}]}},
    {"spec": {"activeDeadlineSeconds": 1}},
    {"spec": {"schedulingGates": [{"name": FOREIGN_GATE, "$patch": "delete"}]}},
    {"spec": {"nodeSelector": {"example.com/rack": "theirs"}}},
], ids=lambda change: str(change)[:60])  # fmt: skip
def test_no_other_field_of_a_pod_may_be_changed(thief, pod, change):
    assert "the controller may" in thief.patch(pod, change, STRATEGIC).expect(403).body["message"]


def test_no_other_toleration_may_be_added(thief, world, pod):
    tolerations = [*world.get_pod("victim")["spec"]["tolerations"], {"operator": "Exists"}]
    answer = thief.patch(pod, {"spec": {"tolerations": tolerations}}, STRATEGIC).expect(403)
    assert "no toleration but" in answer.body["message"]


@pytest.mark.parametrize(
    "status",
    [{"phase": "Failed"}, {"podIP": "10.0.0.1"}, {"conditions": [{"type": "Ready", "status": "True"}]}],
)
def test_no_status_of_a_pod_may_be_forged(thief, pod, status):
    answer = thief.patch(f"{pod}/status", {"status": status}).expect(403)
    assert "nothing in the status of a pod but nominatedNodeName" in answer.body["message"]


@pytest.fixture
def node(world):
    return f"/api/v1/nodes/{world.node('n')}"


def taints_with(thief, world, node, *added):
    """The answer to a patch that leaves all taints of others; the node controller changes some in between."""

    def look():
        found = world.api.get(node).expect().body
        others = [t for t in found["spec"].get("taints", ()) if t["key"] not in OURS]
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        answer = thief.patch(node, {"metadata": version, "spec": {"taints": [*others, *added]}})
        return answer if answer.status != 409 else None

    return world.wait(look, PATIENCE_S)


def test_the_taints_and_the_hints_of_a_node_may_be_written(thief, world, node):
    taints = [{"key": key, "value": "room", "effect": "NoSchedule"} for key in OURS]
    taints_with(thief, world, node, *taints).expect(200)
    taints_with(thief, world, node).expect(200)
    thief.patch(node, {"metadata": {"annotations": {names.ANNOTATION_AVOID: "[]"}}}).expect(200)


@pytest.mark.parametrize("change", [
    {"spec": {"unschedulable": True}},
    {"spec": {"podCIDR": "10.9.0.0/24"}},
    {"spec": {"taints": None}},
    {"spec": {"taints": [{"key": "example.com/x", "effect": "NoExecute"}]}},
    {"metadata": {"labels": {"example.com/rack": "theirs"}}},
    {"metadata": {"annotations": {"example.com/note": "x"}}},
    {"metadata": {"finalizers": ["example.com/never"]}},
], ids=lambda change: str(change)[:60])  # fmt: skip
def test_no_other_field_of_a_node_may_be_changed(thief, node, change):
    assert "the controller may" in thief.patch(node, change).expect(403).body["message"]


def test_only_our_own_cordon_may_be_taken_off(thief, world, node):
    kept = {"metadata": {"annotations": {names.ANNOTATION_KEPT_EMPTY: "Cordoned until 2026-01-31T23:59:59Z"}}}
    gone = {"metadata": {"annotations": {names.ANNOTATION_KEPT_EMPTY: None}}}
    thief.patch(node, {**kept, "spec": {"unschedulable": True}}).expect(200)
    thief.patch(node, {**gone, "spec": {"unschedulable": None}}).expect(200)
    world.api.patch(node, {"spec": {"unschedulable": True}}).expect(200)
    for change in ({}, gone):
        answer = thief.patch(node, {**change, "spec": {"unschedulable": None}}).expect(403)
        assert "uncordon only one that has it" in answer.body["message"]


@pytest.mark.parametrize("key", OURS)
def test_a_taint_never_throws_pods_out(thief, world, node, key):
    ours = {"key": key, "effect": "NoExecute"}
    answer = taints_with(thief, world, node, ours).expect(403)
    assert "with the effect NoSchedule" in answer.body["message"]


def pause(**fields):
    spec = {"containers": [{"name": "c", "image": "pause"}], "automountServiceAccountToken": False, **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "thief-"}, "spec": spec}


def labelled(body):
    return {**body, "metadata": {**body["metadata"], "labels": {names.LABEL_PLACEHOLDER: "room"}}}


def start_first(body):
    return {**body, "metadata": {**body["metadata"], "labels": {names.LABEL_START_FIRST: "move"}}}


def restricted(body):
    """As the Pod Security level of the namespace wants it."""
    limits = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    containers = [{**c, "securityContext": limits} for c in body["spec"]["containers"]]
    safe = {"runAsNonRoot": True, "runAsUser": 65_535, "seccompProfile": {"type": "RuntimeDefault"}}
    return {**body, "spec": {**body["spec"], "containers": containers, "securityContext": safe}}


@pytest.mark.parametrize("body", [
    pause(),
    labelled(pause(automountServiceAccountToken=True)),
    labelled(pause(containers=[{"name": "c", "image": "sh", "command": ["sh"]}])),
    labelled(pause(containers=[{"name": "c", "image": "sh", "envFrom": [{"secretRef": {"name": "rescheduler-webhook"}}]}])),
    labelled(pause(volumes=[{"name": "v", "secret": {"secretName": "rescheduler-webhook"}}])),
], ids=["without the label", "with a token", "with a command", "with an environment", "with a secret"])  # fmt: skip
def test_in_its_own_namespace_it_creates_nothing_but_placeholders(thief, body):
    answer = thief.create(f"{OWN}/pods", restricted(body)).expect(403)
    assert "'controller-" in answer.body["message"]


def test_it_deletes_no_pod_but_its_own(both, world):
    admin, thief = both
    world.pod("victim")
    thief.delete(world.path("pods", "victim")).expect(403)
    body = {**pause(), "metadata": {"name": "other"}}
    body["spec"] |= {"schedulingGates": [{"name": FOREIGN_GATE}]}
    path = f"{OWN}/pods/other"
    admin.create(f"{OWN}/pods", restricted(body)).expect(201)
    try:
        thief.delete(path).expect(403)
    finally:
        admin.delete(path).expect(200)


def named(kind, version, name, **fields):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (f"{OWN}/configmaps", named("ConfigMap", "v1", "reservation-limits-2"), "no ConfigMap but"),
        (
            f"/apis/coordination.k8s.io/v1/namespaces/{names.DEFAULT_NAMESPACE}/leases",
            named("Lease", "coordination.k8s.io/v1", "theirs"),
            "no Lease but its own",
        ),
        (
            RESERVATIONS,
            named(
                "Reservation",
                MOVES,
                "whole-cluster",
                spec={
                    "owners": [{"controller": {"name": "x", "namespace": "default"}}],
                    "template": {"spec": {"containers": [{"name": "c"}]}},
                },
            ),
            "makes Reservations for moves",
        ),
        (
            f"/apis/{MOVES}/namespaces/default/podmigrations",
            named("PodMigration", MOVES, "m", spec={"podRef": {"name": "web-0"}}),
            "marked as planned",
        ),
    ],
    ids=["ConfigMap", "Lease", "Reservation", "PodMigration"],
)
def test_it_creates_no_object_that_is_not_its_own(thief, path, body, words):
    assert words in thief.create(path, body).expect(403).body["message"]


def test_of_a_podmigration_it_sets_the_uid_of_the_pod_and_nothing_else(both, world):
    admin, thief = both
    path = world.path("podmigrations", group=MOVES)
    admin.create(path, named("PodMigration", MOVES, "m", spec={"podRef": {"name": "web-0"}, "paused": True}))
    for spec in ({"paused": False}, {"target": {"nodeName": "n"}}):
        assert "nothing in the spec" in thief.patch(f"{path}/m", {"spec": spec}).expect(403).body["message"]
    thief.patch(f"{path}/m", {"spec": {"podRef": {"uid": "u"}}}).expect(200)
    thief.patch(f"{path}/m", {"spec": {"podRef": {"uid": "v"}}}).expect(403, 422)


@pytest.mark.realcluster
def test_what_rights_do_not_give_is_not_given(real):
    """Rights of the base: without the optional components."""
    thief = real[1]
    for path in (
        "/api/v1/secrets",
        "/api/v1/namespaces/default/configmaps",
        "/apis/apps/v1/deployments/x/scale",
    ):
        thief.get(path).expect(403, 404)
    thief.delete("/api/v1/namespaces/default/pods/x").expect(403)


@pytest.mark.realcluster
def test_elsewhere_it_creates_pods_in_dry_runs_only(real):
    admin, thief = real
    with World(admin, "elsewhere") as world:
        pods = world.path("pods")
        for body in (pause(), labelled(pause()), start_first(pause())):
            thief.create(pods, body, dryRun="All").expect(201)
            answer = thief.create(pods, body).expect(403)
            assert "controller-" in answer.body["message"]
        assert world.pods() == []
        granted = manifests.load(manifests.FOLDER / "components" / "start-first")
        try:
            manifests.apply(admin, granted)
            world.wait(lambda: thief.create(pods, start_first(pause())).ok, PATIENCE_S)
            thief.create(pods, pause()).expect(403)
        finally:
            for obj in granted:
                admin.delete(manifests.path_of(obj))
