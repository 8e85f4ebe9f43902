"""``run`` as its users meet it: a process of its own against the sandbox, over HTTP."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from harness.controlplane.processes import free_port
from kube_sandbox.installing import install
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.cli.run import parse_config_map
from rescheduler.kube.client import KubeApi
from rescheduler.model.names import API_VERSION
from tests.waiting import until

CONFIG_MAP = "/api/v1/namespaces/rescheduler/configmaps/rescheduler"
ENDS_WITHIN_S = 100.0
"""However busy the machine is."""
RUN = [sys.executable, "-c", "from rescheduler.cli.main import main; main()", "run"]


def document(**more):
    return json.dumps({"apiVersion": API_VERSION, "kind": "ReschedulerConfiguration", **more})


@pytest.fixture
def cluster(tmp_path):
    """A sandbox with nothing of ours in it, and its kubeconfig."""
    kubeconfig = tmp_path / "kubeconfig"
    with Sandbox([SandboxNode(name="n1")], clock=time.time) as running:
        running.start(kubeconfig=kubeconfig)
        yield running, kubeconfig


@pytest.fixture
def start(cluster):
    """Starts ``run`` in a process of its own, which is ended with the test."""
    processes = []

    def begin(*words):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RESCHEDULER_")}
        command = [*RUN, "--kubeconfig", str(cluster[1]), *map(str, words)]
        processes.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
            )
        )
        return processes[-1]

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def ended(cluster, command, monkeypatch):
    """``run`` in this process, of lines that end by themselves."""
    for name in [name for name in os.environ if name.startswith("RESCHEDULER_")]:
        monkeypatch.delenv(name)
    return lambda *words: command("run", "--kubeconfig", cluster[1], *words)


@pytest.fixture
def taken_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def fetch(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def configure(api, text):
    api.merge_patch(CONFIG_MAP, {"data": {"config.yaml": text}})


def test_a_bad_new_configuration_is_refused_and_a_good_one_taken(cluster, start):
    running, _ = cluster
    install(running.transport)
    api, port = KubeApi(running.transport), free_port()
    configure(api, document(server={"port": port}))
    process = start()
    assert until(lambda: fetch(port, "/readyz") == "ok\n", ENDS_WITHIN_S)
    assert fetch(port, "/healthz") == "ok\n"
    assert fetch(port, "/") == fetch(port, "/state.json") == "", "no page unless it is switched on"
    configure(api, "aggressiveness: on\n")
    assert until(lambda: "rescheduler_configuration_ok 0.0" in fetch(port, "/metrics"), ENDS_WITHIN_S)
    events = until(lambda: refusals(api), ENDS_WITHIN_S)
    assert "aggressiveness" in events[0]["note"]
    assert events[0]["regarding"]["name"] == "rescheduler"
    assert fetch(port, "/readyz") == "ok\n"
    configure(api, document(server={"port": port}, interval="90s"))
    assert until(lambda: "rescheduler_configuration_ok 1.0" in fetch(port, "/metrics"), ENDS_WITHIN_S)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 0
    assert out == ""
    assert "Traceback" not in err


def refusals(api):
    found = json.loads(api.get("/apis/events.k8s.io/v1/namespaces/rescheduler/events"))["items"]
    return [event for event in found if event["reason"] == "ConfigurationRefused"]


def test_a_bad_first_configuration_ends_it_with_every_problem(ended, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(f"apiVersion: {API_VERSION}\nkind: ReschedulerConfiguration\nintervall: 5s\nmode: Fast\n")
    done = ended("--config", path)
    assert done.exit_code == 2
    assert f"{path}:3: intervall: unknown key" in done.stderr
    assert f"{path}:4: mode:" in done.stderr


def test_missing_kinds_are_named_with_the_remedy(ended):
    done = ended("--once")
    assert done.exit_code == 1
    assert "kubectl apply -k manifests/crds" in done.stderr


def test_a_dry_run_once_prints_the_plan_and_writes_nothing(cluster, ended):
    running, _ = cluster
    install(running.transport)
    done = ended("--once", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "Nothing to move: no policy finds a badly placed pod." in done.stdout
    leases = json.loads(KubeApi(running.transport).get("/apis/coordination.k8s.io/v1/leases"))["items"]
    assert [lease for lease in leases if lease["metadata"]["namespace"] == "rescheduler"] == []


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_one_decision_needs_no_port(cluster, ended, taken_port, more):
    running, _ = cluster
    install(running.transport)
    configure(KubeApi(running.transport), document(server={"port": taken_port}))
    done = ended("--once", *more)
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("section", "key"), [({"server": {}}, "server.port"), ({"gate": {"mode": "Webhook"}}, "gate.port")]
)
def test_a_port_that_is_taken_is_named_with_its_key(cluster, ended, taken_port, section, key):
    running, _ = cluster
    install(running.transport)
    (name,) = section
    other = {} if name == "server" else {"server": {"port": 0}}
    configure(KubeApi(running.transport), document(**{name: {**section[name], "port": taken_port}}, **other))
    done = ended()
    assert done.exit_code == 1
    assert f"cannot listen on port {taken_port}: Address already in use" in done.stderr
    assert f"configure another: {key}" in done.stderr


def test_a_port_of_the_command_line_takes_the_place_of_the_configured_one(cluster, start, ended, taken_port):
    """A dry run that goes on answers probes, as any other."""
    running, _ = cluster
    install(running.transport)
    configure(KubeApi(running.transport), document(server={"port": taken_port}))
    port = free_port()
    start("--dry-run", "--port", port)
    assert until(lambda: fetch(port, "/readyz") == "ok\n", ENDS_WITHIN_S)
    assert fetch(port, "/healthz") == "ok\n"
    done = ended("--dry-run", "--port", taken_port)
    assert (done.exit_code, "configure another: --port" in done.stderr) == (1, True), done.stderr


def test_the_page_is_served_where_it_is_switched_on_and_a_follower_says_who_leads(cluster, start, tmp_path):
    running, _ = cluster
    install(running.transport)
    states = []
    for name in ("leader", "follower"):
        port, path = free_port(), tmp_path / f"{name}.yaml"
        path.write_text(document(server={"port": port, "page": True}))
        start("--config", path, "--identity", name)
        assert until(lambda port=port: fetch(port, "/readyz") == "ok\n", ENDS_WITHIN_S)
        assert until(lambda port=port: '"holder":"leader"' in fetch(port, "/state.json"), ENDS_WITHIN_S)
        states.append(json.loads(fetch(port, "/state.json")))
    assert [(state["leads"], state["dryRun"]) for state in states] == [(True, False), (False, False)]
    assert states[1]["nodes"] == []


def test_config_map_names():
    assert parse_config_map("ns/name") == ("ns", "name")
    assert parse_config_map(None) is None
