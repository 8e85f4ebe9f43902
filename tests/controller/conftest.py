"""Makes the world of this folder importable by its tests; a world in which Reservations are acted on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rescheduler.testing.controllers import running
from rescheduler.testing.world import World

sys.path.insert(0, str(Path(__file__).parent))

RESERVATIONS = "/apis/rescheduler.dev/v1alpha1/reservations"


@pytest.fixture(scope="module")
def controller(control_plane):
    """A controller that acts on what people ask for, on the real control plane."""
    with running(control_plane.api().transport) as controller:
        yield controller


@pytest.fixture
def reserving(control_plane, controller):
    """A world for Reservations; none is left behind."""
    with World(control_plane.api(), "rsv") as world:
        yield world
        for item in world.api.get(RESERVATIONS).expect().items:
            world.api.delete(f"{RESERVATIONS}/{item['metadata']['name']}")
