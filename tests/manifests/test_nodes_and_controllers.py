"""What a node, and another controller, may touch of rooms and moves: nothing, asked of the real API server's rights."""

import itertools

import pytest

from harness.controlplane.world import PATIENCE_S
from rescheduler.model.names import DEFAULT_NAMESPACE, GATE_CONFIG_MAP, GROUP

pytestmark = pytest.mark.realcluster

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
WRITES = ("create", "update", "patch", "delete")
OURS = [
    *({"group": GROUP, "resource": kind, "verb": verb} for kind, verb in itertools.product(("reservations", "podmigrations"), WRITES)),
    *({"group": GROUP, "resource": kind, "subresource": "status", "verb": "update"} for kind in ("reservations", "podmigrations")),
    *({"resource": "configmaps", "name": GATE_CONFIG_MAP, "namespace": DEFAULT_NAMESPACE, "verb": verb} for verb in ("get", *WRITES)),
    *({"resource": "pods", "namespace": DEFAULT_NAMESPACE, "verb": verb} for verb in ("create", "delete")),
    {"resource": "pods", "subresource": "eviction", "verb": "create"},
    {"group": "coordination.k8s.io", "resource": "leases", "namespace": DEFAULT_NAMESPACE, "verb": "update"},
]  # fmt: skip


def allowed(api, subject, attributes):
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    answer = api.create(REVIEWS, {**body, "spec": {**subject, "resourceAttributes": attributes}})
    return answer.expect(201).body["status"]["allowed"]


def granted(api, subject):
    return [attributes for attributes in OURS if allowed(api, subject, attributes)]


def test_a_node_may_write_no_room_no_move_and_no_gate_key(control_plane):
    api = control_plane.api()
    node = {"user": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}
    assert granted(api, node) == []


def test_a_controller_with_rights_in_its_namespace_writes_no_room_and_no_gate_key(control_plane, mine, team):
    """``edit``, as operators have it: moves of its own namespace, and nothing in that of the placeholders."""
    del team
    api = control_plane.api()
    account = {"user": f"system:serviceaccount:{mine.namespace}:another", "groups": ["system:authenticated"]}
    mine.bind("edit", "another")
    own = {"group": GROUP, "resource": "podmigrations", "namespace": mine.namespace, "verb": "create"}
    mine.wait(lambda: allowed(api, account, own), PATIENCE_S)
    assert granted(api, account) == []
    status = {**own, "verb": "update", "subresource": "status"}
    assert not allowed(api, account, status)
