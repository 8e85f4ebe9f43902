"""A control plane without the policy engine, as before 1.36, with the webhook's manifests."""

import pytest

from harness.controlplane import manifests
from harness.controlplane.binaries import find
from harness.controlplane.kubelets import KubeletThread
from harness.controlplane.servers import POLICIES_SINCE, ControlPlane, without_policies


@pytest.fixture(scope="session")
def policies_served():
    """Whether the programs at hand, whatever their version, have the policy engine (1.36 and later)."""
    return find().kubernetes_minor >= POLICIES_SINCE


@pytest.fixture(scope="session")
def old_flags(policies_served):
    """What makes an API server one without the policy engine."""
    return without_policies()


@pytest.fixture(scope="session")
def old_control_plane(old_flags):
    with ControlPlane(apiserver_flags=old_flags) as plane:
        api = plane.api()
        with KubeletThread(api.transport):
            manifests.apply(api, manifests.of("webhook"))
            yield plane
