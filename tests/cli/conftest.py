"""Shared pieces of the tests of the command line."""

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
from click.testing import CliRunner

from harness import documents
from harness.builders import node, pdb, replicaset
from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.world import is_ready
from kube_sandbox.installing import install
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.cli.main import main
from rescheduler.controller.ports import LoopTimings
from rescheduler.controller.run import Controller, Options
from rescheduler.kube.connection import connect
from tests.kube.measuring_servers import say, serving

NOW = "2026-11-21T10:00:00Z"


@pytest.fixture
def command():
    """Runs one command line in this process. A fault of the program is raised, never swallowed."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def run(*words, **more):
        result = CliRunner().invoke(main, [str(word) for word in words], **more)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The sandbox with everything of ``manifests/`` installed: (its API, path of a kubeconfig)."""
    kubeconfig = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with Sandbox(clock=time.time) as cluster:
        api = Api(HttpTransport(cluster.start(kubeconfig=kubeconfig).url))
        manifests.apply(api, manifests.load())
        yield api, str(kubeconfig)


@pytest.fixture
def kubeconfig_of(tmp_path):
    """Writes the kubeconfig of a server, of one that is not there if none is named."""

    def write(url="http://127.0.0.1:9", **context):
        path = tmp_path / "kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", **context}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }
        path.write_text(json.dumps(document))
        return path

    return write


@pytest.fixture
def answering():
    """Starts a server that answers everything with this, and returns its URL."""
    with ExitStack() as servers:

        def start(status, body):
            return servers.enter_context(serving(lambda handler: say(handler, body, status, "text/plain")))

        yield start


@pytest.fixture
def without_lease(tmp_path):
    """Flags that name a controller which elects no leader, as its file says: there is no Lease to see it by."""
    file = tmp_path / "its-file.yaml"
    file.write_text(json.dumps({**CONFIGURATION, "leaderElection": {"enabled": False}}))
    return "--controller-namespace", "elsewhere", "--config", file


@pytest.fixture
def untidy():
    """Manifests of a small cluster: two pods on a tainted node, one of them behind a budget that is used up."""
    web = replicaset("web", "shop").cpu("500m").replicas(2)
    api = replicaset("api", "shop").cpu("250m").replicas(2)
    objects = [
        node("n1").zone("a").taint("maintenance"),
        node("n2").zone("a"),
        node("n3").zone("b"),
        web,
        web.pod("web-1").on("n1"),
        web.pod("web-2").on("n2"),
        api,
        api.pod("api-1").on("n1"),
        api.pod("api-2").on("n2"),
        pdb("api", "shop").allows(0),
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "else"}, "spec": {"hard": {}}},
    ]  # fmt: skip
    return [each if isinstance(each, dict) else each.manifest() for each in objects]


@pytest.fixture
def dump(tmp_path):
    """Writes a List as kubectl does."""

    def write(items, name="dump.json"):
        path = tmp_path / name
        document = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
        path.write_text(json.dumps(document))
        return path

    return write


class Work:
    """A sandbox with everything installed and the controller at work, as people have it: with a Lease and a ConfigMap."""

    def __init__(self, cluster, kubeconfig):
        self.cluster, self.kubeconfig = cluster, str(kubeconfig)
        self.api = Api(HttpTransport(cluster.transport_url))

    def pods(self, app=""):
        found = self.api.get(
            "/api/v1/namespaces/default/pods", labelSelector=f"app={app}" if app else ""
        ).items
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def wait(self, look, seconds=240.0):
        ends_s = time.monotonic() + seconds
        while not (value := look()):
            assert time.monotonic() < ends_s, [
                (p["metadata"]["name"], p["spec"].get("nodeName")) for p in self.pods()
            ]
            time.sleep(0.05)
        return value

    def ready(self, app, count):
        def look():
            pods = self.pods(app)
            good = [p for p in pods if is_ready(p)]
            return pods if len(pods) == len(good) == count else []

        return self.wait(look)

    def deploy(self, name, replicas, *, kind="Deployment", cpu="500m", node=None, **pod_spec):
        """A workload with ``app: NAME``, created while only ``node`` can take it, if that is given."""
        others = [n for n in self.nodes() if node and n != node]
        for other in others:
            self.cordon(other)
        pod = documents.pod_spec(cpu, terminationGracePeriodSeconds=1, **pod_spec)
        body = documents.workload(kind, name, replicas, pod, namespace="default")
        self.api.create(f"/apis/apps/v1/namespaces/default/{kind.lower()}s", body).expect()
        pods = self.ready(name, replicas)
        for other in others:
            self.cordon(other, on=False)
        return [pod["metadata"]["name"] for pod in pods]

    def budget(self, app, **spec):
        body = documents.budget(app, namespace="default", **spec)
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        self.api.create(path, body).expect()
        self.wait(lambda: self.api.get(f"{path}/{app}").body.get("status", {}).get("expectedPods"))

    def remove(self, kind, name):
        """Deletes a workload and its budget, and waits until its pods are gone."""
        self.api.delete(f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{name}")
        self.api.delete(f"/apis/apps/v1/namespaces/default/{kind.lower()}s/{name}")
        self.wait(lambda: not self.pods(name))

    def nodes(self):
        return sorted(n["metadata"]["name"] for n in self.api.get("/api/v1/nodes").items)

    def cordon(self, node, *, on=True):
        self.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on or None}}).expect()

    def cordoned(self):
        return {
            n["metadata"]["name"]
            for n in self.api.get("/api/v1/nodes").items
            if n["spec"].get("unschedulable")
        }

    @contextmanager
    def no_moves(self):
        """Moves that people ask for do not begin."""
        before = self.api.get(CONFIG_MAP).body["data"]["config.yaml"]
        document = {**json.loads(before), "limits": {"requested": {"movesPerHour": 0}}}
        self.api.patch(CONFIG_MAP, {"data": {"config.yaml": json.dumps(document)}}).expect()
        try:
            yield
        finally:
            self.api.patch(CONFIG_MAP, {"data": {"config.yaml": before}}).expect()

    def interrupt(self, *words, once):
        """Starts a command as in a terminal, and interrupts it once this holds; it may have ended before."""
        listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        program = f"{listens}; from rescheduler.cli.main import main; main()"
        line = [sys.executable, "-c", program, *words, "--kubeconfig", self.kubeconfig]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait(lambda: once() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)
        assert process.returncode in (0, 130), errors
        assert process.returncode == 0 or "Traceback" not in errors

    def node_of(self, pod):
        return self.api.get(f"/api/v1/namespaces/default/pods/{pod}").expect().body["spec"].get("nodeName")

    def moves(self):
        path = "/apis/rescheduler.dev/v1alpha1/podmigrations"
        return self.api.get(path).items


CONFIG_MAP = "/api/v1/namespaces/rescheduler/configmaps/rescheduler"
CONFIGURATION = {
    "apiVersion": "rescheduler.dev/v1alpha1",
    "kind": "ReschedulerConfiguration",
    "interval": "1h",
    "policies": [],
}


def _on_the_cluster_of_work(name):
    @pytest.fixture(name=name)
    def run(work, command):
        return lambda *words: command(name, *words, "--kubeconfig", work.kubeconfig)

    return run


consolidate, drain, history, move, status, uncordon = map(
    _on_the_cluster_of_work, ("consolidate", "drain", "history", "move", "status", "uncordon")
)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Four nodes and the controller of ``run`` at work on them."""
    kubeconfig = tmp_path_factory.mktemp("work") / "kubeconfig"
    nodes = [SandboxNode(name=f"n{i}", cpu="4") for i in range(1, 5)]
    kubelet = KubeletSettings(start_s=0.05, ready_s=0.1, stop_s=0.1)
    with Sandbox(nodes, clock=time.time, kubelet=kubelet) as cluster:
        cluster.transport_url = cluster.start(kubeconfig=kubeconfig).url
        install(cluster.transport)
        made = Work(cluster, kubeconfig)
        made.api.patch(CONFIG_MAP, {"data": {"config.yaml": json.dumps(CONFIGURATION)}}).expect()
        controller = Controller(
            connect(str(kubeconfig)), Options(serve=False, timings=LoopTimings(turn_s=0.2))
        )
        faults = []

        def run():
            try:
                controller.run()
            except BaseException as error:  # noqa: BLE001 - raised at the end
                faults.append(error)

        thread = threading.Thread(target=run, name="controller", daemon=True)
        thread.start()
        lease = "/apis/coordination.k8s.io/v1/namespaces/rescheduler/leases/rescheduler"
        made.wait(lambda: faults or made.api.get(lease).ok)
        try:
            yield made
        finally:
            controller.stop.set()
            thread.join(60)
    assert not faults
