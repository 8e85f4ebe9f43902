"""Fixtures for all tests: the real control plane, one per session, with kubelets and the project's manifests."""

from __future__ import annotations

import pytest

from rescheduler.sim.kubelet import KubeletThread
from rescheduler.testing import manifests
from rescheduler.testing.binaries import BinariesMissing
from rescheduler.testing.controlplane import ControlPlane


@pytest.fixture(scope="session")
def control_plane():
    """A running control plane with kubelets for every node and everything of ``manifests/`` installed."""
    try:
        plane = ControlPlane()
    except BinariesMissing as missing:
        pytest.skip(str(missing))
    with plane:
        api = plane.api()
        with KubeletThread(api.transport):
            manifests.apply(api, manifests.load())
            yield plane


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the logs of the control plane to the report of a failed test that used it."""
    report = yield
    plane = getattr(item, "funcargs", {}).get("control_plane")
    if report.failed and plane is not None:
        report.sections.append(("control plane logs", plane.logs()))
    return report
