"""Rooms and rights of tenants, for the tests of what they can and cannot do."""

import secrets

RBAC = "rbac.authorization.k8s.io"


def room(owners, *, cpu="1", memory="1Gi"):
    requests = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": f"secure-{secrets.token_hex(4)}"},
        "spec": {
            "owners": owners,
            "ttl": "5m",
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}},
        },
    }


def bind(api, path, role, account, namespace):
    body = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if "namespaces/" in path else "ClusterRoleBinding",
        "metadata": {"name": f"{account}-{role}-{namespace}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    api.create(path, body).expect(201)
