"""How much one object may say, on the real API server: owners that would fill the gate's store, times that cannot be meant."""

import pytest

from harness import documents
from harness.controlplane.world import RESERVATIONS

pytestmark = pytest.mark.realcluster

MOVES = "/apis/rescheduler.dev/v1alpha1/namespaces/default/podmigrations"


def listed(size, tag=""):
    values = [f"{tag}{i:03}-{'v' * 55}"[:63] for i in range(size)]
    expression = {"key": f"{'k' * 40}.example.com/{'k' * 60}", "operator": "In", "values": values}
    return {"object": {"namespace": "default"}, "labelSelector": {"matchExpressions": [expression]}}


def asked(api, owners, **spec):
    body = documents.reservation("bounds", documents.pod_spec(""), owners, **spec)
    return api.create(RESERVATIONS, body, dryRun="All")


def test_owners_that_would_fill_the_store_are_refused(control_plane):
    api = control_plane.api()
    asked(api, [listed(64, f"o{i}") for i in range(32)]).expect(422)
    words = asked(api, [listed(4, f"o{i}") for i in range(16)]).expect(422).body["message"]
    assert "may list at most 48 values" in words
    asked(api, [listed(3, f"o{i}") for i in range(16)]).expect(201)
    asked(api, [{"labelSelector": {"matchLabels": {"k" * 400: "v"}}}]).expect(422)


def test_times_that_cannot_be_meant_are_refused(control_plane):
    api, owner = control_plane.api(), [{"controller": {"name": "web", "namespace": "default"}}]
    for ttl in ("8761h", "9999999999h", "99999999999999999999h"):
        asked(api, owner, ttl=ttl).expect(422)
    for ttl in ("0", "0s", "8760h", "1h30m", "+5m", "500ms"):
        asked(api, owner, ttl=ttl).expect(201)
    for ttl, code in (("2000000h", 422), ("169h", 422), ("168h", 201), ("0s", 201)):
        api.create(MOVES, documents.migration("m", "p", ttl=ttl), dryRun="All").expect(code)
