"""The control plane with the guard, for the tests that need one."""

import pytest

from harness.controlplane import manifests
from harness.controlplane.world import World


@pytest.fixture(scope="module")
def guarded_plane(control_plane):
    """The shared control plane with what the guard needs besides; afterwards no controller of another test serves it."""
    components = manifests.FOLDER / "components"
    for name in ("webhook-server", "guard"):
        manifests.apply(control_plane.api(), manifests.load(components / name))
    yield control_plane
    for obj in manifests.load(components / "guard"):
        control_plane.api().delete(manifests.path_of(obj))


@pytest.fixture
def world(guarded_plane):
    with World(guarded_plane.api(), "guard") as world:
        yield world


@pytest.fixture
def may_start_first(guarded_plane):
    granted = manifests.load(manifests.FOLDER / "components" / "start-first")
    manifests.apply(guarded_plane.api(), granted)
    yield
    for obj in granted:
        guarded_plane.api().delete(manifests.path_of(obj))
