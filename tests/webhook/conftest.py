"""A control plane like one before 1.36: without the policy engine, with the webhook's manifests."""

from __future__ import annotations

import pytest

from rescheduler.sim.kubelet import KubeletThread
from rescheduler.testing import manifests
from rescheduler.testing.binaries import BinariesMissing
from rescheduler.testing.controlplane import WITHOUT_POLICIES, ControlPlane


@pytest.fixture(scope="session")
def old_control_plane():
    try:
        plane = ControlPlane(apiserver_flags=WITHOUT_POLICIES)
    except BinariesMissing as missing:
        pytest.skip(str(missing))
    with plane:
        api = plane.api()
        component = manifests.load(manifests.FOLDER / "components" / "webhook")
        base = [obj for obj in manifests.load() if not obj["kind"].startswith("MutatingAdmissionPolicy")]
        with KubeletThread(api.transport):
            manifests.apply(api, base + component)
            yield plane
