"""Makes the world of this folder importable by its tests; both clusters with the controller at work."""

import sys
import time
from pathlib import Path

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.controllers import running
from harness.controlplane.world import World
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.sandbox import Sandbox
from rescheduler.model.names import CONTROLLER_USER

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def controller(request, control_plane):
    """At work on the real control plane: it acts on what people ask for, and by what the module says in CONFIGURATION.

    With all rights, or (OWN_RIGHTS of the module) with those of its service account.
    """
    own = getattr(request.module, "OWN_RIGHTS", False)
    api = control_plane.account() if own else control_plane.api()
    with running(api.transport, **getattr(request.module, "CONFIGURATION", {})) as controller:
        yield controller


@pytest.fixture(scope="module")
def embedded_api():
    """The sandbox in real time, with everything of ``manifests/`` installed."""
    with Sandbox(clock=time.time, kubelet=KubeletSettings(start_s=0.05, ready_s=0.1, stop_s=0.1)) as cluster:
        url = cluster.start().url
        api = Api(HttpTransport(url))
        api.controller = HttpTransport(url, user=CONTROLLER_USER)
        manifests.apply(api, manifests.load())
        yield api


@pytest.fixture(scope="module")
def real_api(control_plane):
    """The real control plane's."""
    return control_plane.api()


@pytest.fixture(
    scope="module", params=["embedded_api", pytest.param("real_api", marks=pytest.mark.realcluster)]
)
def cluster(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def api(cluster):
    """A cluster with the controller at work; it takes up what is asked for and decides nothing itself.

    On the sandbox it acts as its service account, whose writes admission narrows.
    """
    with running(getattr(cluster, "controller", cluster.transport)):
        yield cluster


@pytest.fixture
def world(request):
    """A corner of the clusters of ``api`` for a test that uses it, else of the real control plane."""
    both = "api" in request.fixturenames
    api = request.getfixturevalue("api") if both else request.getfixturevalue("control_plane").api()
    with World(api, "test") as world:
        yield world


@pytest.fixture
def table(control_plane):
    """table(path, wide=False): what ``kubectl get`` prints, by the server's own table: the cells of each row by column."""
    api = Api.from_kubeconfig(control_plane.kubeconfig, accept="application/json;as=Table;v=v1;g=meta.k8s.io")

    def table(path, *, wide=False):
        found = api.get(path).expect().body
        assert found["kind"] == "Table"
        shown = [i for i, column in enumerate(found["columnDefinitions"]) if wide or not column["priority"]]
        names = [found["columnDefinitions"][i]["name"] for i in shown]
        return [dict(zip(names, [row["cells"][i] for i in shown], strict=True)) for row in found["rows"]]

    return table
