"""A guarded control plane, and the programs of others where they are built; a test whose program is missing is skipped with one line."""

import pytest

from harness.controlplane.world import World
from harness.strangers.build import find
from tests.guard.conftest import guarded_plane, may_start_first  # noqa: F401 - fixtures


@pytest.fixture
def world(guarded_plane):  # noqa: F811 - the fixture
    with World(guarded_plane.api(), "strangers") as world:
        yield world


@pytest.fixture
def program():
    """The path of a Tool that is in the cache."""
    return lambda tool: str(find(tool))
