"""A tenant of the real control plane, who may edit a namespace and reserve for it; and the controller's account on both clusters."""

import sys
import time
from pathlib import Path

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.world import PATIENCE_S, RESERVATIONS, World
from kube_sandbox.sandbox import Sandbox
from rescheduler.model import names

sys.path.insert(0, str(Path(__file__).parent))

from tenants import room


@pytest.fixture
def mine(control_plane):
    with World(control_plane.api(), "mine") as world:
        yield world


@pytest.fixture
def team(control_plane, mine):
    """Somebody who may reserve, and who may change pods in one namespace only."""
    mine.account("team", "edit")
    mine.bind("rescheduler-reserver", "team", everywhere=True)
    client = control_plane.account(mine.namespace, "team")
    allowed = room([{"controller": {"name": "web", "namespace": mine.namespace}}])
    mine.wait(lambda: client.create(RESERVATIONS, allowed).ok, PATIENCE_S)
    client.delete(f"{RESERVATIONS}/{allowed['metadata']['name']}").expect()
    return client


@pytest.fixture(scope="module")
def embedded():
    """The administrator and the controller of a sandbox, which knows no rights: what is refused there is refused by admission."""
    with Sandbox(clock=time.time) as cluster:
        url = cluster.start().url
        admin = Api(HttpTransport(url))
        manifests.apply(admin, manifests.load())
        yield admin, Api(HttpTransport(url, user=names.CONTROLLER_USER))


@pytest.fixture(scope="module")
def real(control_plane):
    account = control_plane.kubeconfig_for(names.DEFAULT_NAMESPACE, "rescheduler")
    return control_plane.api(), Api.from_kubeconfig(account)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.realcluster)])
def both(request):
    return request.getfixturevalue(request.param)
