"""``uninstall`` in a sandbox in virtual time: with the controller up, down and gone, interrupted and repeated."""

import itertools

import pytest
from scenes import Scene

from harness import documents
from harness.controlplane import manifests
from kube_sandbox.controllers.unstructured import NODE, REPLICA_SET, GroupKind, annotations_of, spec
from rescheduler.cli.errors import CommandError
from rescheduler.cli.uninstall import release_gates, uninstall
from rescheduler.cli.uninstall_cluster import InstalledCluster
from rescheduler.cli.uninstall_steps import Removal, RemovalStep, Steps
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError
from rescheduler.kube.installation import everything, path_of
from rescheduler.kube.retry import NO_RETRY
from rescheduler.model import names
from tests.seeds import some

DEPLOYMENT = GroupKind("apps", "Deployment")
NAMESPACE = GroupKind("", "Namespace")
POD = GroupKind("", "Pod")


class Installation(Scene):
    """A scene whose controller ends with its Deployment, as one in a pod does."""

    def __init__(self):
        super().__init__({"n1": 4, "n2": 4})
        self.said = []
        self.workload("Deployment", "web", ["n1", "n1"])
        (deployment,) = (obj for obj in manifests.load() if obj["kind"] == "Deployment")
        self.api.create({**deployment, "spec": {**deployment["spec"], "replicas": 0}})
        self.start()
        self.api.subscribe(self._hear)

    def _hear(self, change):
        if change.type == "DELETED" and change.object["kind"] == "Deployment":
            self.program.frozen = True

    def uninstall(self, *, dry_run=False, wait_s=120.0, sleep=None):
        steps = Steps(say=self.said.append, clock=lambda: self.now_s, sleep=sleep or self.advance)
        cluster = InstalledCluster(KubeApi(self.calls.transport, NO_RETRY), "rescheduler")
        return uninstall(cluster, steps, dry_run=dry_run, wait_s=wait_s)

    def busy(self):
        """Rooms, also of a window and a head-room, a pod at the gate, a move that cannot end, a hint and a taint."""
        self.standing()
        self.held_room("held", node="n2", allocateOnce=False)
        self.refuse(429, "TooManyRequests", lambda call: call.rehearses)
        self.move(self.ready("web")[0], "n2", ttl="1h")
        self.advance(5.0)
        node = self.api.get(NODE, "", "n1")
        taints = [{"key": names.ANNOTATION_HANDOVER_TAINT, "value": "x", "effect": "NoSchedule"}]
        taints.append({"key": "of-others", "effect": "NoSchedule"})
        self.api.patch(
            node, {"metadata": {"annotations": {names.ANNOTATION_AVOID: "[]"}}, "spec": {"taints": taints}}
        )

    def standing(self):
        made = {"template": {"spec": documents.pod_spec("100m")}, "owners": [{"object": {"name": "x"}}]}
        window = {"cron": "0 0 * * *", "duration": "24h", "startReserveAgo": "1h", "podNumToReserve": 1}
        for kind, body in (("HeadRoom", {"rooms": 1}), ("ReservationWindow", window)):
            name = kind.lower()
            self.api.create(documents.own(kind, name, {**body, **made}))
            which, done = GroupKind("rescheduler.dev", kind), {"HeadRoom": "standing"}.get(kind, "gathered")
            assert self.until(lambda which=which, name=name, done=done: self.count(which, name, done) == 1)

    def count(self, kind, name, field):
        return (self.api.get(kind, "", name).get("status") or {}).get(field)

    def stop(self):
        self.program.frozen = True

    def of_ours(self):
        """All that is left of the installation."""
        return [
            f"{obj['kind']} {obj['metadata']['name']}"
            for obj in self.api.everything()
            if obj["metadata"].get("labels", {}).get("app.kubernetes.io/name") == "rescheduler"
            or obj.get("apiVersion") == names.API_VERSION
        ]

    def check_clean(self):
        assert self.leftovers() == []
        assert self.of_ours() == []
        node = self.api.get(NODE, "", "n1")
        assert [taint["key"] for taint in spec(node).get("taints") or ()] == ["of-others"]
        assert names.ANNOTATION_AVOID not in node["metadata"].get("annotations", {})
        self.scale(5)
        assert self.until(lambda: len(self.ready("web")) == 5), "new pods of the reserved workload start"


@pytest.fixture
def scene():
    return Installation()


def test_with_the_controller_up(scene):
    scene.busy()
    assert scene.uninstall() == ()
    scene.check_clean()


def test_the_guard_goes_first_so_that_no_eviction_that_waits_makes_a_move(scene):
    (guard,) = manifests.load(manifests.FOLDER / "components" / "guard")[:1]
    assert guard["kind"] == "ValidatingWebhookConfiguration"
    scene.api.create(guard)
    scene.standing()
    assert scene.uninstall() == ()
    gone = scene.said.index("  ValidatingWebhookConfiguration rescheduler.dev: is deleted")
    assert gone < next(n for n, line in enumerate(scene.said) if line.startswith("Moves:"))


def test_the_responder_goes_before_the_moves_so_that_no_eviction_request_makes_one(scene):
    for obj in manifests.load(manifests.FOLDER / "components" / "responder"):
        scene.api.create(obj)
    scene.standing()
    assert scene.uninstall() == ()
    moves = next(n for n, line in enumerate(scene.said) if line.startswith("Moves:"))
    for what in (
        "MutatingAdmissionPolicyBinding responder.rescheduler.dev",
        "MutatingAdmissionPolicy responder.rescheduler.dev",
        "ClusterRoleBinding rescheduler-responder",
    ):
        assert scene.said.index(f"  {what}: is deleted") < moves


def test_a_pod_of_others_with_the_label_of_placeholders_stays(scene):
    labels = {names.LABEL_PLACEHOLDER: "copied"}
    container = {"name": "c", "image": "i"}
    meta = {"name": "theirs", "namespace": "default", "labels": labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
    scene.api.create(pod)
    assert scene.uninstall() == ()
    assert "deletionTimestamp" not in scene.api.get(GroupKind("", "Pod"), "default", "theirs")["metadata"]


def test_with_the_controller_down_for_long(scene):
    scene.busy()
    scene.stop()
    scene.scale(4)
    scene.advance(120.0)
    assert any(line.startswith("held") for line in scene.leftovers()), "without it they wait for ever"
    assert scene.uninstall(wait_s=10.0) == ()
    scene.check_clean()


def test_with_the_controller_gone(scene):
    scene.busy()
    scene.stop()
    scene.api.delete(scene.api.get(DEPLOYMENT, "rescheduler", "rescheduler"))
    began_s = scene.now_s
    assert scene.uninstall() == ()
    assert scene.now_s - began_s < 100.0, "nothing that is waited for ends by itself"
    scene.check_clean()


def test_gated_pods_of_a_stopped_controller_are_let_go_and_all_else_stays(scene):
    scene.busy()
    scene.stop()
    scene.scale(4)
    scene.advance(120.0)
    steps = Steps(say=scene.said.append, clock=lambda: scene.now_s, sleep=scene.advance)
    cluster = InstalledCluster(KubeApi(scene.calls.transport, NO_RETRY), "rescheduler")
    waiting = [removal.what for removal in cluster.gated_pods()]
    assert waiting
    assert release_gates(cluster, steps, dry_run=True) == ()
    assert [removal.what for removal in cluster.gated_pods()] == waiting
    before = scene.of_ours()
    assert release_gates(cluster, steps, dry_run=False) == ()
    assert cluster.gated_pods() == []
    assert scene.of_ours() == before


def gated(name, **metadata):
    container = {"name": "c", "image": "i"}
    meta = {"name": name, "namespace": "default", **metadata}
    body = {"schedulingGates": [{"name": names.GATE}], "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


def test_a_pod_that_took_the_name_of_a_gated_one_is_left_alone(scene):
    """Between the look and the patch: it is another pod, and what stands in it is not of this program."""
    scene.stop()
    first = scene.api.create(gated("p"))
    cluster = InstalledCluster(KubeApi(scene.calls.transport, NO_RETRY), "rescheduler")
    (removal,) = [one for one in cluster.gated_pods() if one.what == "Pod default/p"]
    scene.api.delete(scene.api.get(POD, "default", "p"), grace_s=0)
    scene.api.create(gated("p", annotations={names.ANNOTATION_RESERVATION: "theirs"}))
    second = scene.api.get(POD, "default", "p")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    removal.act()
    assert scene.api.get(POD, "default", "p") == second


def test_a_pod_that_is_gated_while_it_goes_on_is_let_go_too(scene):
    """API servers go by a policy that is deleted for a moment."""
    scene.stop()

    def say(line):
        if line == "Nodes":
            scene.api.create(gated("late"))

    steps = Steps(say=say, clock=lambda: scene.now_s, sleep=scene.advance)
    cluster = InstalledCluster(KubeApi(scene.calls.transport, NO_RETRY), "rescheduler")
    assert uninstall(cluster, steps, dry_run=False, wait_s=0.0) == ()
    assert not spec(scene.api.get(POD, "default", "late")).get("schedulingGates")


def test_gated_pods_of_a_running_controller_are_its_own(scene):
    scene.busy()
    steps = Steps(say=scene.said.append, clock=lambda: scene.now_s, sleep=scene.advance)
    with pytest.raises(CommandError, match="renews the Lease"):
        release_gates(
            InstalledCluster(KubeApi(scene.calls.transport, NO_RETRY), "rescheduler"), steps, dry_run=False
        )


def test_only_nodes_that_the_controller_has_cordoned_are_uncordoned(scene):
    scene.stop()
    for name, hold in (("n1", "Cordoned"), ("n2", "GivenBack")):
        note = {names.ANNOTATION_KEPT_EMPTY: f"{hold} until 2099-01-31T23:59:59Z"}
        change = {"metadata": {"annotations": note}, "spec": {"unschedulable": True}}
        scene.api.patch(scene.api.get(NODE, "", name), change)
    assert scene.uninstall(wait_s=10.0) == ()
    nodes = [scene.api.get(NODE, "", name) for name in ("n1", "n2")]
    assert [bool(spec(node).get("unschedulable")) for node in nodes] == [False, True]
    assert not any(names.ANNOTATION_KEPT_EMPTY in annotations_of(node) for node in nodes)


def test_the_taint_of_a_node_that_was_kept_empty_goes_and_a_cordon_beside_it_stays(scene):
    scene.stop()
    other = {"key": "example.com/rack", "effect": "PreferNoSchedule"}
    note = {names.ANNOTATION_KEPT_EMPTY: "Tainted until 2099-01-31T23:59:59Z"}
    taints = [other, {"key": names.TAINT_KEPT_EMPTY, "effect": "NoSchedule"}]
    change = {"metadata": {"annotations": note}, "spec": {"unschedulable": True, "taints": taints}}
    scene.api.patch(scene.api.get(NODE, "", "n1"), change)
    assert scene.uninstall(wait_s=10.0) == ()
    node = scene.api.get(NODE, "", "n1")
    assert names.TAINT_KEPT_EMPTY not in {taint["key"] for taint in spec(node)["taints"]}
    assert other in spec(node)["taints"]
    assert spec(node)["unschedulable"] is True
    assert names.ANNOTATION_KEPT_EMPTY not in annotations_of(node)


def test_a_move_that_has_evicted_gets_its_room_first(scene):
    name = scene.move(scene.ready("web")[0], "n2")
    assert scene.until(lambda: scene.state(name).get("evictionRequestedAt"))
    phases = []
    scene.api.subscribe(
        lambda change: (
            phases.append((change.object.get("status") or {}).get("phase"))
            if change.object["kind"] == "PodMigration"
            else None
        )
    )
    assert scene.uninstall() == ()
    assert "Succeeded" in phases
    assert len(scene.ready("web")) == 2


def test_a_dry_run_names_everything_and_changes_nothing(scene):
    scene.busy()
    scene.advance(60.0)
    scene.stop()
    before = scene.api.everything()
    assert scene.uninstall(dry_run=True) == ()
    assert scene.api.everything() == before
    text = "\n".join(scene.said)
    for what in (
        "Reservation held",
        "Node n1",
        "Namespace rescheduler",
        "gate.rescheduler.dev",
        "PodMigration",
    ):
        assert f"would: {what}" in text or what in text
    gates = [line for line in scene.said if "gate.rescheduler.dev: " in line]
    assert len(gates) == len(set(gates)), "steps that repeat an earlier one have nothing to show"


@pytest.mark.parametrize("looks", some([1, 3, 6, 10, 15, 25], 2))
def test_it_goes_on_where_it_was_interrupted(scene, looks):
    scene.busy()
    slept = itertools.count()

    def sleep(seconds):
        if next(slept) >= looks:
            raise KeyboardInterrupt
        scene.advance(seconds)

    with pytest.raises(KeyboardInterrupt):
        scene.uninstall(sleep=sleep)
    assert scene.uninstall() == ()
    scene.check_clean()
    assert scene.uninstall() == (), "once more, and there is nothing to do"


def test_a_controller_that_no_deployment_started_is_named(scene):
    scene.api.delete(scene.api.get(DEPLOYMENT, "rescheduler", "rescheduler"))
    scene.program.frozen = False
    with pytest.raises(CommandError, match="controller renews the Lease; stop that process"):
        scene.uninstall()
    scene.stop()
    assert scene.uninstall() == ()


def test_finalizers_of_others_do_not_hold_it_up(scene):
    room = scene.held_room("held", node="n2")
    found = scene.api.get(GroupKind("rescheduler.dev", "Reservation"), "", room)
    scene.api.patch(found, {"metadata": {"finalizers": ["example.com/keep"]}})
    assert scene.uninstall() == ()
    assert scene.of_ours() == []


def test_a_namespace_that_others_made_stays(scene):
    namespace = scene.api.get(NAMESPACE, "", "rescheduler")
    scene.api.patch(namespace, {"metadata": {"labels": {"app.kubernetes.io/name": "platform"}}})
    assert scene.uninstall() == ()
    assert scene.api.get(NAMESPACE, "", "rescheduler") is not None
    assert scene.of_ours() == []


def test_what_does_not_go_is_named():
    now = itertools.count()
    steps = Steps(say=lambda _: None, clock=lambda: float(next(now)), sleep=lambda _: None)
    stays = [Removal(what="Pod p", how="ends")]
    assert steps.take(RemovalStep(title="t", find=lambda: stays, limit_s=3.0)) == ("Pod p",)


def test_a_refusal_ends_it(scene):
    cluster = InstalledCluster(KubeApi(scene.calls, NO_RETRY), "rescheduler")
    scene.refuse(403, "Forbidden", lambda call: call.method == "DELETE")
    steps = Steps(say=scene.said.append, clock=lambda: scene.now_s, sleep=scene.advance)
    with pytest.raises(ApiError):
        uninstall(cluster, steps, dry_run=False, wait_s=0.0)


def test_no_pod_keeps_a_gate_of_ours_or_a_note_of_its_room(scene):
    noted = {names.ANNOTATION_RESERVATION: "r", names.ANNOTATION_REPLACES: "a/b", "of-others": "stays"}
    pod = gated("p", annotations=noted, labels={names.LABEL_START_FIRST: "u", "app": "p"})
    (owner,) = scene.api.list(REPLICA_SET)
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["metadata"]["name"]}
    pod["metadata"]["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"]}]
    pod["spec"]["schedulingGates"] = [{"name": names.GATE_ROOM}, {"name": "of-others"}]
    scene.api.create(pod)
    scene.stop()
    assert scene.uninstall(wait_s=0.0) == ()
    found = scene.api.get(POD, "default", "p")
    assert found["metadata"]["annotations"] == {"of-others": "stays"}
    assert found["metadata"]["labels"] == {"app": "p"}
    assert found["spec"]["schedulingGates"] == [{"name": "of-others"}]


def test_a_pod_that_nobody_may_change_keeps_nothing_else(scene):
    """A policy of the cluster refuses it: all other pods are let go, the rest is removed, and it is named with the policy's words."""
    scene.busy()
    scene.stop()
    scene.api.delete(scene.api.get(DEPLOYMENT, "rescheduler", "rescheduler"))
    for name in ("a", "frozen", "z"):
        scene.api.create(gated(name))
    scene.refuse(403, "Forbidden", lambda call: call.method == "PATCH" and call.path.endswith("/pods/frozen"))
    steps = Steps(say=scene.said.append, clock=lambda: scene.now_s, sleep=scene.advance)
    left = uninstall(
        InstalledCluster(KubeApi(scene.calls, NO_RETRY), "rescheduler"), steps, dry_run=False, wait_s=0.0
    )
    assert left == ("Pod default/frozen: 403 Forbidden: ",)
    assert not any(spec(scene.api.get(POD, "default", name)).get("schedulingGates") for name in ("a", "z"))
    assert scene.of_ours() == []


def test_every_object_of_the_manifests_is_one_of_its_steps():
    known = {path_of(obj) for obj in everything("rescheduler")}
    assert {path_of(obj) for obj in manifests.load()} <= known
    for folder in (
        "components/webhook-server",
        "components/webhook",
        "components/guard",
        "components/responder",
        "components/start-first",
        "monitoring",
    ):
        for obj in manifests.load(manifests.FOLDER / folder):
            placed = {**obj, "metadata": {"namespace": "rescheduler", **obj["metadata"]}}
            assert path_of(placed) in known
