"""Nobody is evicted while kube-controller-manager, which would create the replacement, is away, on the real control plane."""

import contextlib
import time

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.world import node_of
from rescheduler.kube.controller_manager import AWAY_S, NAME
from rescheduler.model.times import format_micros

pytestmark = pytest.mark.realcluster

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LOOKS_S = 15.0


@contextlib.contextmanager
def lease_renewed(api, ago_s):
    """That of a leader; the one of these tests runs without leader election. Gives a function that renews it."""

    def spec(renewed_s):
        return {
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": format_micros(renewed_s)}
        }

    api.create(LEASES, {"metadata": {"name": NAME}, **spec(time.time() - ago_s)}).expect()
    try:
        yield lambda: api.patch(f"{LEASES}/{NAME}", spec(time.time())).expect()
    finally:
        api.delete(f"{LEASES}/{NAME}")


def test_a_move_waits_for_it_and_goes_on_by_itself(control_plane, world):
    source = world.node("src", cpu="2")
    (pod,) = world.running("Deployment", "web", 1)
    target = world.node("dst", cpu="2")
    with lease_renewed(world.api, 2 * AWAY_S) as renew, running(control_plane.account().transport):
        move = world.migrate(pod, target)
        status = world.wait(
            lambda: (s := world.move_status(move)).get("reason") == "ReplacementUnknown" and s
        )
        assert f"{NAME} has not renewed its Lease" in status["message"]
        time.sleep(LOOKS_S)
        (there,) = world.pods("web")
        assert (there["metadata"]["uid"], node_of(there)) == (pod["metadata"]["uid"], source)
        renew()
        world.landed({move: target})
