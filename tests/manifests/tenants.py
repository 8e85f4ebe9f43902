"""Rooms and rights of tenants, for the tests of what they can and cannot do."""

import secrets

from harness import documents

RBAC = "rbac.authorization.k8s.io"


def room(owners, *, cpu="1", memory="1Gi"):
    name = f"secure-{secrets.token_hex(4)}"
    return documents.reservation(name, documents.pod_spec(cpu, memory), owners, ttl="5m")


def bind(api, path, role, account, namespace):
    body = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if "namespaces/" in path else "ClusterRoleBinding",
        "metadata": {"name": f"{account}-{role}-{namespace}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    api.create(path, body).expect(201)
