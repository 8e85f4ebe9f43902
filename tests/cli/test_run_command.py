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

from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.cli.run import parse_config_map
from rescheduler.kube.client import KubeApi
from rescheduler.kube.installation import install
from rescheduler.model.names import API_VERSION

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
def taken_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def until(predicate, limit_s=ENDS_WITHIN_S):
    ends_s = time.monotonic() + limit_s
    while time.monotonic() < ends_s:
        found = predicate()
        if found:
            return found
        time.sleep(0.2)
    return predicate()


def configure(api, text):
    api.merge_patch(CONFIG_MAP, {"data": {"config.yaml": text}})


def test_a_bad_new_configuration_is_refused_and_a_good_one_taken(cluster, start):
    running, _ = cluster
    install(running.transport)
    api, port = KubeApi(running.transport), free_port()
    configure(api, document(server={"port": port}))
    process = start()
    assert until(lambda: fetch(port, "/readyz") == "ok\n")
    assert fetch(port, "/healthz") == "ok\n"
    configure(api, "aggressiveness: on\n")
    assert until(lambda: "rescheduler_configuration_ok 0.0" in fetch(port, "/metrics"))
    events = until(lambda: refusals(api))
    assert "aggressiveness" in events[0]["note"]
    assert events[0]["regarding"]["name"] == "rescheduler"
    assert fetch(port, "/readyz") == "ok\n"
    configure(api, document(server={"port": port}, interval="90s"))
    assert until(lambda: "rescheduler_configuration_ok 1.0" in fetch(port, "/metrics"))
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 0
    assert out == ""
    assert "Traceback" not in err


def refusals(api):
    found = json.loads(api.get("/apis/events.k8s.io/v1/namespaces/rescheduler/events"))["items"]
    return [event for event in found if event["reason"] == "ConfigurationRefused"]


def test_a_bad_first_configuration_ends_it_with_every_problem(start, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(f"apiVersion: {API_VERSION}\nkind: ReschedulerConfiguration\nintervall: 5s\nmode: Fast\n")
    process = start("--config", path)
    _, err = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 2
    assert f"{path}:3: intervall: unknown key" in err
    assert f"{path}:4: mode:" in err


def test_missing_kinds_are_named_with_the_remedy(start):
    process = start("--once")
    _, err = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 1
    assert "kubectl apply -k manifests/crds" in err
    assert "Traceback" not in err


def test_a_dry_run_once_prints_the_plan_and_writes_nothing(cluster, start):
    running, _ = cluster
    install(running.transport)
    process = start("--once", "--dry-run")
    out, _ = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 0
    assert "Nothing to move." in out
    leases = json.loads(KubeApi(running.transport).get("/apis/coordination.k8s.io/v1/leases"))["items"]
    assert [lease for lease in leases if lease["metadata"]["namespace"] == "rescheduler"] == []


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_one_decision_needs_no_port(cluster, start, taken_port, more):
    running, _ = cluster
    install(running.transport)
    configure(KubeApi(running.transport), document(server={"port": taken_port}))
    process = start("--once", *more)
    _, err = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 0, err


@pytest.mark.parametrize(
    ("section", "key"), [({"server": {}}, "server.port"), ({"gate": {"mode": "Webhook"}}, "gate.port")]
)
def test_a_port_that_is_taken_is_named_with_its_key(cluster, start, taken_port, section, key):
    running, _ = cluster
    install(running.transport)
    (name,) = section
    other = {} if name == "server" else {"server": {"port": 0}}
    configure(KubeApi(running.transport), document(**{name: {**section[name], "port": taken_port}}, **other))
    process = start()
    _, err = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 1
    assert f"cannot listen on port {taken_port}: Address already in use" in err
    assert f"configure another: {key}" in err
    assert "Traceback" not in err


def test_a_port_of_the_command_line_takes_the_place_of_the_configured_one(cluster, start, taken_port):
    running, _ = cluster
    install(running.transport)
    configure(KubeApi(running.transport), document(server={"port": taken_port}))
    port = free_port()
    start("--dry-run", "--port", port)
    assert until(lambda: fetch(port, "/readyz") == "ok\n")
    process = start("--dry-run", "--port", taken_port)
    _, err = process.communicate(timeout=ENDS_WITHIN_S)
    assert (process.returncode, "configure another: --port" in err) == (1, True), err


def test_a_long_dry_run_answers_probes(cluster, start):
    running, _ = cluster
    install(running.transport)
    port = free_port()
    configure(KubeApi(running.transport), document(server={"port": port}))
    start("--dry-run")
    assert until(lambda: fetch(port, "/readyz") == "ok\n")
    assert fetch(port, "/healthz") == "ok\n"


def test_the_page_is_served_where_it_is_switched_on_and_a_follower_says_who_leads(cluster, start, tmp_path):
    running, _ = cluster
    install(running.transport)
    states = []
    for name, more in (("leader", {"page": True}), ("follower", {"page": True}), ("without", {})):
        port, path = free_port(), tmp_path / f"{name}.yaml"
        path.write_text(document(server={"port": port, **more}))
        start("--config", path, "--identity", name)
        assert until(lambda port=port: fetch(port, "/readyz") == "ok\n")
        if more:
            assert until(lambda port=port: '"holder":"leader"' in fetch(port, "/state.json"))
            states.append(json.loads(fetch(port, "/state.json")))
        else:
            assert fetch(port, "/") == fetch(port, "/state.json") == ""
    assert [(state["leads"], state["dryRun"]) for state in states] == [(True, False), (False, False)]
    assert states[1]["nodes"] == []


def test_config_map_names():
    assert parse_config_map("ns/name") == ("ns", "name")
    assert parse_config_map(None) is None
