"""A tenant of the real control plane: a namespace, and an account that may edit it and reserve for it."""

import sys
from pathlib import Path

import pytest

from harness.controlplane.api import Api
from harness.controlplane.world import PATIENCE_S, RESERVATIONS, World

sys.path.insert(0, str(Path(__file__).parent))

from tenants import RBAC, bind, room


@pytest.fixture
def mine(control_plane):
    with World(control_plane.api(), "mine") as world:
        yield world


@pytest.fixture
def team(control_plane, mine):
    """Somebody who may reserve, and who may change pods in one namespace only."""
    api = control_plane.api()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "team"}}
    api.create(mine.path("serviceaccounts"), account).expect(201)
    bind(api, f"/apis/{RBAC}/v1/clusterrolebindings", "rescheduler-reserver", "team", mine.namespace)
    bind(api, mine.path("rolebindings", group=f"{RBAC}/v1"), "edit", "team", mine.namespace)
    client = Api.from_kubeconfig(control_plane.kubeconfig_for(mine.namespace, "team"))
    allowed = room([{"controller": {"name": "web", "namespace": mine.namespace}}])
    mine.wait(lambda: client.create(RESERVATIONS, allowed).ok, PATIENCE_S)
    client.delete(f"{RESERVATIONS}/{allowed['metadata']['name']}").expect()
    return client
