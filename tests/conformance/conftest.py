"""Every test of this folder runs twice: on the embedded cluster and on the real control plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from rescheduler.testing.api import Api
from rescheduler.testing.world import World


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
