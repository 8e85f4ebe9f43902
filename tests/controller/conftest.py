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
def controller(control_plane):
    """A controller that acts on what people ask for, on the real control plane."""
    with running(control_plane.api().transport) as controller:
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
