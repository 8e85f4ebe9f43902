"""A control plane with Koordinator's scheduler and CRDs beside the stock ones, and the controller at work."""

from __future__ import annotations

import threading

import pytest

from rescheduler.controller.loop import Pace
from rescheduler.controller.run import Controller, Options
from rescheduler.sim.kubelet import KubeletThread
from rescheduler.testing import manifests
from rescheduler.testing.binaries import BinariesMissing
from rescheduler.testing.controlplane import ControlPlane
from rescheduler.testing.koordinator import Koordinator, find
from rescheduler.testing.world import World

CONFIGURATION = """\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
interval: 1h
leaderElection: {enabled: false}
policies: []
reservations: {engine: Auto}
"""


@pytest.fixture(scope="session")
def plane():
    try:
        find()
        plane = ControlPlane()
    except BinariesMissing as missing:
        pytest.skip(str(missing))
    with plane, KubeletThread(plane.api().transport):
        manifests.apply(plane.api(), manifests.load())
        yield plane


@pytest.fixture(scope="session")
def koordinator(plane):
    with Koordinator(plane) as koordinator:
        yield koordinator


@pytest.fixture(scope="session")
def controller(plane, koordinator, tmp_path_factory):
    """The controller in threads of this process; it takes up what is asked for and decides nothing itself."""
    path = tmp_path_factory.mktemp("configuration") / "config.yaml"
    path.write_text(CONFIGURATION)
    controller = Controller(
        plane.api().transport, Options(config_file=str(path), serve=False, pace=Pace(turn=0.2))
    )
    faults = []

    def run():
        try:
            controller.run()
        except BaseException as error:  # noqa: BLE001  shown by the test that it breaks
            faults.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield faults
    controller.stop.set()
    thread.join(10)
    assert not faults


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
