"""Uninstalling on the real control plane, by the command and by the kubectl lines of the documents: nothing stays behind."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import documents
from harness.controlplane import manifests
from harness.controlplane.controllers import QUIET, controller_process
from harness.controlplane.in_force import wait_until_mutated, wait_until_served
from harness.controlplane.kubelets import KubeletThread
from harness.controlplane.processes import free_port
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import RESERVATIONS, World, gates_of, keys_on
from rescheduler.model.names import (
    ANNOTATION_AVOID,
    ANNOTATION_HANDOVER_TAINT,
    ANNOTATION_KEPT_EMPTY,
    ANNOTATION_RESERVATION,
    API_VERSION,
    GATE,
    LABEL_PLACEHOLDER,
    TAINT_KEPT_EMPTY,
)

pytestmark = pytest.mark.realcluster
ROOT = manifests.FOLDER.parent
START = "from rescheduler.cli.entry import main; main()"
LIMIT_S = 120.0


def document_lines():
    """The lines for kubectl of docs/installing.md; they wait shorter for moves that end, which nobody is there to end."""
    text = (ROOT / "docs" / "installing.md").read_text()
    (lines,) = re.findall(r"```bash\n(.*?)```", text.partition("## Removing it")[2], re.DOTALL)
    assert "--timeout=2m" in lines
    return lines.replace("--timeout=2m", "--timeout=5s")


def command(plane, tmp_path):
    """``rescheduler uninstall``, as its administrator runs it."""
    words = [sys.executable, "-c", START, "uninstall", "--kubeconfig", str(plane.kubeconfig), "--wait", "10"]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=540)


def kubectl(plane, _):
    """The lines of the documents, in a shell that stops at the first failure."""
    tools = Path(plane.kubectl).parent
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "PATH": f"{tools}:{os.environ['PATH']}"}
    words = ["bash", "-euo", "pipefail", "-c", document_lines()]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=540
    )


@pytest.fixture(scope="module")
def of_its_own(control_plane):
    """A control plane from which the project may be removed."""
    with ControlPlane(binaries=control_plane.binaries) as plane, KubeletThread(plane.api().transport):
        yield plane


@pytest.fixture
def plane(of_its_own):
    """With the project installed."""
    installed(of_its_own)
    return of_its_own


def installed(plane):
    """As the README says."""
    words = [plane.kubectl, "--kubeconfig", str(plane.kubeconfig), "apply", "-k", "manifests/"]
    applied = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert applied.returncode == 0, applied.stderr
    wait_until_served(plane.api(), manifests.load())
    wait_until_mutated(plane.api(), manifests.load())


@pytest.fixture
def world(plane):
    with World(plane.api(), "away") as world:
        yield world


def room(world, name, node, **more):
    pod, owners = world.spec("1", nodeName=node), [documents.owner("web", world.namespace)]
    body = documents.reservation(name, pod, owners, meta=more)
    world.api.create(RESERVATIONS, body).expect(201)


def room_sets(world):
    """A head-room that stands, and a window for whose only room a pod must step aside. Gives what shows that it does."""
    owners = [{"object": {"namespace": world.namespace}, "labelSelector": {"matchLabels": {"app": "late"}}}]
    at = time.gmtime(time.time() + 1200)
    cron = {"cron": f"{at.tm_min} {at.tm_hour} * * *", "duration": "1h", "startReserveAgo": "2h"}
    for kind, plural, cpu, wish in (
        ("HeadRoom", "headrooms", "1", {"rooms": 1}),
        ("ReservationWindow", "reservationwindows", "4", {**cron, "podNumToReserve": 1}),
    ):
        spec = {**wish, "template": {"spec": world.spec(cpu)}, "owners": owners, "makeRoom": True}
        body = documents.own(kind, world.namespace, spec)
        world.api.create(f"/apis/{API_VERSION}/{plural}", body).expect(201)
        if kind == "HeadRoom":
            path = f"/apis/{API_VERSION}/{plural}/{world.namespace}"
            world.wait(lambda: world.api.get(path).body.get("status", {}).get("rooms") == "1/1", LIMIT_S)  # noqa: B023
    return lambda: any(
        "makingRoom" in (found.get("status") or {}) for found in world.api.get(RESERVATIONS).expect().items
    )


def phase(world, name):
    return (world.api.get(f"{RESERVATIONS}/{name}").expect().body.get("status") or {}).get("phase")


AT_WORK = {
    **QUIET,
    "leaderElection": {"enabled": True},
    "aggressiveness": "aggressive",
    "interval": "2s",
    "policies": [{"name": "PendingPods", "after": "1s"}],
}


def leave_behind(plane, world, folder):
    """What a controller leaves that is killed in the middle: rooms, moves for a window, a taint, a hint, pods at the gate."""
    node = world.node("n", cpu="8")
    world.running("Deployment", "web", 2, cpu="1")
    world.node("m", cpu="1")
    process = controller_process(plane, folder, "controller", {**AT_WORK, "server": {"port": free_port()}})
    process.start()
    try:
        room(world, "one", node)
        room(world, "two", node)
        world.wait(lambda: {phase(world, n) for n in ("one", "two")} == {"Available"}, LIMIT_S)
        steps_aside = room_sets(world)
        world.wait(steps_aside, LIMIT_S)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{process.log_tail()}") from error
    finally:
        process.kill()
    held = world.spec("1", gates=[GATE])
    metadata = {"name": "held", "labels": {"app": "held"}, "annotations": {ANNOTATION_RESERVATION: "one"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    world.api.create(world.path("pods"), {**pod, "spec": held}).expect(201)
    path = f"/api/v1/nodes/{node}"
    world.taint(node, ANNOTATION_HANDOVER_TAINT, value="one")
    world.taint(node, TAINT_KEPT_EMPTY)
    notes = {ANNOTATION_AVOID: "[]", ANNOTATION_KEPT_EMPTY: "Cordoned until 2099-01-31T23:59:59Z"}
    world.api.patch(path, {"metadata": {"annotations": notes}, "spec": {"unschedulable": True}}).expect()
    return node


def scale(world, replicas):
    path = world.path("deployments", "web", group="apps/v1")
    world.api.patch(path, {"spec": {"replicas": replicas}}).expect()


def check_clean(world, node):
    api = world.api
    pods = api.get("/api/v1/pods").expect().items
    assert [p["metadata"]["name"] for p in pods if GATE in gates_of(p)] == []
    assert [p["metadata"]["name"] for p in pods if LABEL_PLACEHOLDER in p["metadata"].get("labels", {})] == []
    assert [
        p["metadata"]["name"] for p in pods if ANNOTATION_RESERVATION in p["metadata"].get("annotations", {})
    ] == []
    found = api.get(f"/api/v1/nodes/{node}").expect().body
    kept = {ANNOTATION_HANDOVER_TAINT, TAINT_KEPT_EMPTY}
    assert kept.isdisjoint(taint["key"] for taint in found["spec"]["taints"])
    assert {ANNOTATION_AVOID, ANNOTATION_KEPT_EMPTY}.isdisjoint(found["metadata"].get("annotations", {}))
    assert not found["spec"].get("unschedulable")
    left = [path for path in map(manifests.path_of, manifests.load()) if api.get(path).status != 404]
    assert left == []
    assert api.get(RESERVATIONS).status == 404
    scale(world, 6)
    world.wait_ready("web", 6, LIMIT_S)
    world.wait_ready("held", 1, LIMIT_S)


def held_at_once(world, within_s):
    """Whether a pod of a controller that has a gate key is gated."""
    owner = (
        world.api.create(world.path("configmaps"), {"metadata": {"generateName": "owner-"}}).expect(201).body
    )
    meta = owner["metadata"]
    keys = keys_on({f"controller.{world.namespace}.{meta['uid']}": "room"})
    world.api.patch("/api/v1/namespaces/rescheduler/configmaps/gate-keys", keys).expect()
    reference = {
        "apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"],
        "controller": True,
    }  # fmt: skip
    body = {"metadata": {"generateName": "p-", "ownerReferences": [reference]}, "spec": world.spec("1")}
    ends_s = time.monotonic() + within_s
    while time.monotonic() < ends_s:
        pod = world.api.create(world.path("pods"), {"apiVersion": "v1", "kind": "Pod", **body}, dryRun="All")
        if pod.ok and gates_of(pod.body) == [GATE]:
            return True
        time.sleep(0.2)
    return False


def test_installed_again_the_gate_holds_after_a_restart_of_the_api_server_and_not_before(
    plane, world, tmp_path
):
    """As the last words of ``uninstall`` say; without one the webhook is the way. The first of these tests, which need no gate in force."""
    assert held_at_once(world, LIMIT_S)
    done = command(plane, tmp_path)
    assert "Before it is installed here again, restart the API servers" in done.stdout, done.stderr
    installed(plane)
    assert not held_at_once(world, 15.0), "API servers follow policies that come back: nobody needs a restart"
    plane.stop_apiserver()
    plane.start_apiserver()
    assert held_at_once(world, LIMIT_S)


@pytest.mark.parametrize("way", [command, kubectl])
def test_nothing_stays_behind_and_new_pods_start(plane, world, tmp_path, way):
    node = leave_behind(plane, world, tmp_path)
    scale(world, 4)  # their rooms are held, and nobody hands them over any more
    done = way(plane, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    check_clean(world, node)
    again = way(plane, tmp_path) if way is command else done
    assert again.returncode == 0, again.stdout + again.stderr
