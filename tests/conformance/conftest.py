"""Every test of this folder runs on the real control plane and, but for those that are REAL_ONLY, on the sandbox too."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.world import World
from kube_sandbox.sandbox import Sandbox


@dataclass(frozen=True)
class Backend:
    """A cluster with workload controllers, a scheduler, kubelets, and the project's manifests."""

    name: str
    api: Api
    kubeconfig: str
    forget_history: Callable[[], None]
    """Afterwards no watch can begin at a version from before."""


@pytest.fixture(scope="session")
def real(control_plane):
    def restart():
        control_plane.stop_apiserver()
        control_plane.start_apiserver()

    return Backend("real", control_plane.api(), str(control_plane.kubeconfig), restart)


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    kubeconfig = tmp_path_factory.mktemp("embedded") / "kubeconfig"
    with Sandbox(clock=time.time) as cluster:
        server = cluster.start(kubeconfig=kubeconfig)
        api = Api(HttpTransport(server.url))
        manifests.apply(api, manifests.load())
        yield Backend("embedded", api, str(kubeconfig), cluster.server.store.objects.forget_history)


REAL_ONLY = pytest.mark.parametrize(
    "backend", [pytest.param("real", marks=pytest.mark.realcluster)], indirect=True
)
"""For what only a real server does: the sandbox checks neither values nor rules of schemas."""


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.realcluster)], scope="session")
def backend(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def api(backend):
    return backend.api


@pytest.fixture
def world(backend):
    with World(backend.api, "conf") as world:
        yield world
