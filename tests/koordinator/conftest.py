"""A control plane with Koordinator's scheduler and CRDs beside the stock ones, and the controller at work."""

import pytest

from harness.controlplane import manifests
from harness.controlplane.controllers import running
from harness.controlplane.kubelets import KubeletThread
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World
from harness.strangers.build import find
from harness.strangers.koordinator import Koordinator
from harness.strangers.tools import KOORD_SCHEDULER


@pytest.fixture(scope="session")
def plane():
    find(KOORD_SCHEDULER)
    plane = ControlPlane()
    with plane, KubeletThread(plane.api().transport):
        manifests.apply(plane.api(), manifests.load())
        yield plane


@pytest.fixture(scope="session")
def koordinator(plane):
    with Koordinator(plane) as koordinator:
        yield koordinator


@pytest.fixture(scope="session")
def controller(plane, koordinator):
    with running(plane.api().transport, reservations={"engine": "Auto"}) as controller:
        yield controller


@pytest.fixture
def world(plane):
    with World(plane.api(), "koord") as world:
        yield world


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the logs to the report of a failed test."""
    report = yield
    arguments = getattr(item, "funcargs", {})
    if report.failed and "koordinator" in arguments:
        report.sections.append(("koord-scheduler log", arguments["koordinator"].log_tail()))
    return report
