"""Fixtures for all tests: the real control plane, one per session, with kubelets and the project's manifests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from rescheduler.sim.kubelet import KubeletThread
from rescheduler.testing import manifests
from rescheduler.testing.binaries import BinariesMissing
from rescheduler.testing.controlplane import ControlPlane

# Examples are judged by what they find, never by how long a loaded machine takes for them.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


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
