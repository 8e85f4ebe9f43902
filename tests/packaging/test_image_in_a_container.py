"""The image, built from the Dockerfile by buildah and started by runc as the Deployment starts it. Asked for by ``-m container``."""

import json
import urllib.request
from urllib.parse import urlsplit

import pytest
import yaml

from harness.controlplane import manifests
from harness.controlplane.processes import free_port
from harness.controlplane.world import PATIENCE_S, World
from tests.packaging.engine import Engine, lacking

pytestmark = pytest.mark.container

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
CONFIG_MAP = "/api/v1/namespaces/rescheduler/configmaps/rescheduler"
READ_ONLY = """
import importlib.util, json, os, pathlib
def writes(folder):
    try:
        pathlib.Path(folder, "x").write_text("")
    except OSError as error:
        return error.strerror
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(), "capabilities": int(status["CapBnd"], 16) | int(status["CapEff"], 16),
    "no new privileges": int(status["NoNewPrivs"]), "root": writes("/"), "tmp": writes("/tmp"), "code": writes("/opt/rescheduler"),
    "more than it needs": [name for name in ("pip", "kubernetes.aio") if importlib.util.find_spec(name)],
}))
"""


@pytest.fixture(scope="module")
def engine(request, tmp_path_factory):
    if "container" not in (request.config.getoption("markexpr") or ""):
        pytest.skip("the image is built and started by make container")
    if sentence := lacking():
        pytest.skip(sentence)
    return Engine(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def image(engine):
    """Its configuration."""
    return engine.build()


@pytest.fixture(autouse=True)
def ended(engine):
    yield
    engine.stop("KILL")


def said(process, seconds=60):
    output, _ = process.communicate(timeout=seconds)
    return process.returncode, output


@pytest.fixture(scope="module")
def container():
    """What the Deployment says of it."""
    (deployment,) = [each for each in manifests.load() if each["kind"] == "Deployment"]
    return deployment["spec"]["template"]["spec"]


def test_its_user_is_that_of_the_deployment(image, container):
    security = container["securityContext"]
    assert image["User"] == f"{security['runAsUser']}:{security['runAsGroup']}"


def test_it_starts_without_rights_on_a_root_that_it_cannot_write(engine, image):
    assert said(engine.start(image, ["version"]))[1].startswith("rescheduler ")
    code, text = said(
        engine.start({**image, "Entrypoint": ["/opt/rescheduler/bin/python"]}, ["-c", READ_ONLY])
    )
    assert code == 0, text
    uid, gid = map(int, image["User"].split(":"))
    nothing = "Read-only file system"
    assert json.loads(text) == {
        "uid": uid, "gid": gid, "capabilities": 0, "no new privileges": 1, "root": nothing, "tmp": nothing,
        "code": nothing, "more than it needs": [],
    }  # fmt: skip


@pytest.mark.parametrize("command", ["run", "uninstall", "plan"])
def test_its_commands_can_be_started(engine, image, command):
    code, text = said(engine.start(image, [command, "--help"]))
    assert (code, f"rescheduler {command}" in text) == (0, True), text


def test_its_command_leads_on_a_real_cluster_and_ends_when_it_is_told_to(
    engine, image, container, control_plane, tmp_path
):
    api, port = control_plane.api(), free_port()
    before = api.get(CONFIG_MAP).expect().body["data"]["config.yaml"]
    api.patch(CONFIG_MAP, {"data": {"config.yaml": f"{before}server: {{port: {port}}}\n"}}).expect()
    # As a kubelet does: token and certificate in a folder, the address in the environment.
    document = yaml.safe_load(control_plane.kubeconfig_for("rescheduler", "rescheduler").read_text())
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(document["users"][0]["user"]["token"])
    (account / "ca.crt").write_text(control_plane.ca)
    account.chmod(0o755)
    server = urlsplit(control_plane.url)
    process = engine.start(image, container["containers"][0]["args"], mounts={ACCOUNT: account}, environment={
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    })  # fmt: skip
    try:
        with World(api, "image") as world:
            world.wait(lambda: process.poll() is not None or ready(port), PATIENCE_S)
    finally:
        api.patch(CONFIG_MAP, {"data": {"config.yaml": before}}).expect()
        engine.stop()
        code, text = said(process)
    assert (code, "Elected" in text) == (0, True), text


def ready(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False
