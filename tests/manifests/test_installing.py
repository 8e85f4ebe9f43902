"""Installing on the real control plane, as the README says, and what the installed service account may do."""

import json
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from harness import documents
from harness.controlplane import manifests
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, keys_on
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.reservations.placeholder import placeholder_manifest
from rescheduler.reservations.settings import ReservationSettings

pytestmark = pytest.mark.realcluster
USER = "system:serviceaccount:rescheduler:rescheduler"


@pytest.fixture(scope="module")
def bare(control_plane):
    """A control plane of its own, without the project."""
    with ControlPlane(binaries=control_plane.binaries) as plane:
        yield plane


def kubectl(plane, *arguments):
    command = [plane.kubectl, "--kubeconfig", str(plane.kubeconfig), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=manifests.FOLDER.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def may(api, verb, resource, *, group="", subresource="", namespace="", name="", user=USER):
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb,
                "group": group,
                "resource": resource,
                "subresource": subresource,
                "namespace": namespace,
                "name": name,
            },
        },
    }
    answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body).expect(201)
    return answer.body["status"]["allowed"]


def test_the_dry_run_overlay_is_enough_to_decide(bare):
    """The first of these tests: nothing else is installed yet."""
    assert "reservations.rescheduler.dev created" in kubectl(
        bare, "apply", "-k", "manifests/overlays/dry-run"
    )
    kubeconfig = str(bare.kubeconfig_for("rescheduler", "rescheduler"))
    command = [sys.executable, "-c", "from rescheduler.cli.main import main; main()"]
    done = subprocess.run(
        [*command, "run", "--dry-run", "--once", "--kubeconfig", kubeconfig, "--log-format", "json"],
        capture_output=True, text=True, check=False, cwd=manifests.FOLDER.parent, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "orbidden" not in done.stderr


def test_everything_is_applied_with_one_command_and_again_without_change(bare):
    kubectl(bare, "apply", "-k", "manifests/crds")
    applied = kubectl(bare, "apply", "-k", "manifests/")
    assert "mutatingadmissionpolicy.admissionregistration.k8s.io/gate.rescheduler.dev created" in applied
    gate_keys = "/api/v1/namespaces/rescheduler/configmaps/gate-keys"
    bare.api().patch(gate_keys, keys_on({"some-uid": "some-room"})).expect(200)
    again = kubectl(bare, "apply", "-k", "manifests/")
    assert "created" not in again
    assert bare.api().get(gate_keys).body["data"] == {"some-uid": "some-room"}
    kubectl(bare, "get", "rsv,pmig", "-A", "-o", "wide")
    kubectl(bare, "get", "rescheduler", "-A")


def test_overlays_and_components_are_taken_by_the_api_server(bare):
    manifests.apply(bare.api(), manifests.load())
    for words in (
        ("-k", "manifests/overlays/ha"),
        ("-k", "manifests/overlays/dry-run"),
        ("-f", "manifests/components/start-first/role-start-first.yaml"),
    ):
        kubectl(bare, "apply", *words, "--dry-run=server")


def test_the_dry_run_overlay_grants_no_way_to_change_anything(bare):
    kinds = kubectl(bare, "kustomize", "manifests/overlays/dry-run")
    assert "pods/eviction" not in kinds
    assert "rescheduler-move" not in kinds
    assert "rescheduler-dry-run-creation" not in kinds
    assert "MutatingAdmissionPolicy" not in kinds
    assert "- --dry-run" in kinds


@pytest.mark.parametrize("base", ["../dry-run", "../../base", "../ha", "../webhook", "../guard"])
def test_the_overlay_of_the_page_names_the_image(bare, tmp_path, base):
    page = (manifests.FOLDER.parent / "docs/installing.md").read_text()
    overlay = textwrap.dedent(re.search(r" *```yaml\n(.*?)```", page, re.DOTALL)[1]).replace(
        "../dry-run", base
    )
    mine = shutil.copytree(manifests.FOLDER, tmp_path / "manifests") / "overlays/mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(overlay.replace("[]", "[../../components/start-first]"))
    assert "image: registry.example/rescheduler:" in kubectl(bare, "kustomize", mine)


def test_monitoring_is_a_kustomization_that_links_every_alert_to_one_place(bare, tmp_path):
    assert "ServiceMonitor" in kubectl(bare, "kustomize", "manifests/monitoring")
    copy = shutil.copytree(manifests.FOLDER / "monitoring", tmp_path / "monitoring")
    rules = copy / "prometheusrule.yaml"
    text = rules.read_text()
    one = 'rescheduler.dev/runbook: "https://rescheduler.example/docs'
    rules.write_text(text.replace(one, 'rescheduler.dev/runbook: "https://wiki.corp/r'))
    links = re.findall("runbook_url: (.*)#", kubectl(bare, "kustomize", copy))
    assert len(links) == text.count("runbook_url: ")
    assert set(links) == {"https://wiki.corp/r/troubleshooting.md"}


def test_the_controllers_pod_passes_the_restricted_profile(control_plane):
    with World(control_plane.api()) as world:
        path = "/api/v1/namespaces/rescheduler/pods"
        pods = world.wait(
            lambda: (
                control_plane.api().get(path, labelSelector="app.kubernetes.io/component=controller").items
            )
        )
    assert pods[0]["spec"]["serviceAccountName"] == "rescheduler"


def test_placeholders_pass_the_restricted_profile_and_their_priority_class(control_plane):
    api = control_plane.account()
    owners, meta = [{"object": {"name": "x"}}], {"uid": "11111111-1111-1111-1111-111111111111"}
    stored = documents.reservation("room", documents.pod_spec("1", "1Gi"), owners, meta=meta)
    reservation = Decoder().record(Kind.RESERVATION, json.dumps(stored).encode())
    body = json.loads(placeholder_manifest(reservation, "some-node", ReservationSettings()))
    answer = api.call("POST", "/api/v1/namespaces/rescheduler/pods", body, dryRun="All")
    spec = answer.expect(201).body["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1_000_000_000, "Never")
    assert "schedulingGates" not in spec


ALLOWED = [
    ("create", "pods", {"subresource": "eviction", "namespace": "default"}),
    ("patch", "pods", {"namespace": "default"}),
    ("patch", "pods", {"subresource": "status", "namespace": "default"}),
    ("patch", "nodes", {}),
    ("create", "reservations", {"group": "rescheduler.dev"}),
    ("create", "reservations", {"group": "scheduling.koordinator.sh"}),
    ("delete", "reservations", {"group": "scheduling.koordinator.sh"}),
    ("update", "reservations", {"group": "rescheduler.dev", "subresource": "status"}),
    ("update", "podmigrations", {"group": "rescheduler.dev", "subresource": "status", "namespace": "default"}),
    ("create", "events", {"group": "events.k8s.io", "namespace": "default"}),
    ("create", "pods", {"namespace": "rescheduler"}),
    ("delete", "pods", {"namespace": "rescheduler"}),
    ("watch", "configmaps", {"namespace": "rescheduler", "name": "rescheduler"}),
    ("patch", "configmaps", {"namespace": "rescheduler", "name": "gate-keys"}),
    ("patch", "configmaps", {"namespace": "rescheduler", "name": "avoid-nodes"}),
    ("patch", "configmaps", {"namespace": "rescheduler", "name": "move-history"}),
    ("create", "configmaps", {"namespace": "rescheduler"}),
    ("update", "leases", {"group": "coordination.k8s.io", "namespace": "rescheduler"}),
    ("watch", "volumeattachments", {"group": "storage.k8s.io"}),
    ("watch", "deviceclasses", {"group": "resource.k8s.io"}),
    ("watch", "podgroups", {"group": "scheduling.volcano.sh"}),
    ("watch", "podgroups", {"group": "scheduling.x-k8s.io"}),
    ("watch", "podgroups", {"group": "scheduling.k8s.io"}),
]  # fmt: skip
REFUSED = [
    ("delete", "pods", {"namespace": "default"}),
    ("update", "pods", {"namespace": "default"}),
    ("create", "pods", {"subresource": "binding", "namespace": "default"}),
    ("update", "reservations", {"group": "rescheduler.dev"}),
    ("update", "reservations", {"group": "scheduling.koordinator.sh", "subresource": "status"}),
    ("get", "secrets", {"namespace": "rescheduler"}),
    ("get", "configmaps", {"namespace": "default"}),
    ("create", "configmaps", {"namespace": "default"}),
    ("delete", "configmaps", {"namespace": "rescheduler", "name": "move-history"}),
    ("watch", "configmaps", {"namespace": "rescheduler"}),
    ("patch", "configmaps", {"namespace": "rescheduler", "name": "rescheduler"}),
    ("delete", "nodes", {}),
    ("patch", "deployments", {"group": "apps", "namespace": "default"}),
    ("update", "mutatingadmissionpolicies", {"group": "admissionregistration.k8s.io"}),
    ("delete", "volumeattachments", {"group": "storage.k8s.io"}),
]


@pytest.mark.parametrize(("verb", "resource", "where"), ALLOWED)
def test_the_controller_may_do_what_a_move_needs(control_plane, verb, resource, where):
    assert may(control_plane.api(), verb, resource, **where)


@pytest.mark.parametrize(("verb", "resource", "where"), REFUSED)
def test_the_controller_may_do_nothing_else(control_plane, verb, resource, where):
    assert not may(control_plane.api(), verb, resource, **where)


def test_people_see_and_move_in_their_namespace_but_reserve_only_as_operators(control_plane):
    api = control_plane.api()
    with World(api, "people") as world:
        for role in ("view", "edit"):
            body = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": role}],
            }
            api.create(world.path("rolebindings", group="rbac.authorization.k8s.io/v1"), body).expect(201)
        here = {"group": "rescheduler.dev", "namespace": world.namespace}
        world.wait(lambda: may(api, "get", "podmigrations", user="view", **here))
        assert not may(api, "create", "podmigrations", user="view", **here)
        assert world.wait(lambda: may(api, "create", "podmigrations", user="edit", **here))
        assert not may(api, "create", "reservations", user="edit", group="rescheduler.dev")
