"""The controller's requests have a priority level of their own, on the real API server: nobody else's queue before them."""

import pytest

from harness.controlplane.world import PATIENCE_S

pytestmark = pytest.mark.realcluster

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
LEVEL = "x-kubernetes-pf-prioritylevel-uid"


def level_of(api, path="/api/v1/namespaces/default/pods"):
    return api.get(path).headers.get(LEVEL)


def test_the_flood_of_a_tenant_is_not_queued_before_the_controller(control_plane, mine, team):
    own = control_plane.api().get(f"{FLOWS}/prioritylevelconfigurations/rescheduler").expect().uid
    controller = control_plane.account()
    mine.wait(lambda: level_of(controller) == own, PATIENCE_S)
    mine.wait(lambda: level_of(controller, "/version") == own, PATIENCE_S)
    assert level_of(team, mine.path("pods")) not in (None, own)
    flow = control_plane.api().get(f"{FLOWS}/flowschemas/rescheduler").expect().body
    (dangling,) = [c for c in flow["status"]["conditions"] if c["type"] == "Dangling"]
    assert dangling["status"] == "False"
