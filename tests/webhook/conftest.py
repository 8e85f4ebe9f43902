"""A control plane without the policy engine, as before 1.36, with the webhook's manifests."""

from __future__ import annotations

import subprocess

import pytest

from rescheduler.sim.kubelet import KubeletThread
from rescheduler.testing import manifests
from rescheduler.testing.binaries import BinariesMissing, find
from rescheduler.testing.controlplane import WITHOUT_POLICIES, ControlPlane


@pytest.fixture(scope="session")
def policies_served():
    """Whether the programs at hand, whatever their version, have the policy engine (1.36 and later)."""
    try:
        program = find().path("kube-apiserver")
    except BinariesMissing as missing:
        pytest.skip(str(missing))
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    minor = int(said.removeprefix("Kubernetes v1.").split(".")[0])
    return minor >= 36


@pytest.fixture(scope="session")
def old_flags(policies_served):
    """What makes an API server one without the policy engine."""
    return list(WITHOUT_POLICIES) if policies_served else []


@pytest.fixture(scope="session")
def old_control_plane(old_flags):
    with ControlPlane(apiserver_flags=old_flags) as plane:
        api = plane.api()
        component = manifests.load(manifests.FOLDER / "components" / "webhook")
        base = [obj for obj in manifests.load() if not obj["kind"].startswith("MutatingAdmissionPolicy")]
        with KubeletThread(api.transport):
            manifests.apply(api, base + component)
            yield plane
