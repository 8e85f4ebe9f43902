"""Fake nodes for tests: objects that a scheduler takes for ready machines.

A new Node gets the taint ``node.kubernetes.io/not-ready`` from the API server; ``add_node`` takes it off, so that
pods can be bound at once. The objects themselves are those of the sandbox.
"""

from __future__ import annotations

from harness.controlplane.api import MERGE, STRATEGIC, Answer, Api, Json


def add_node(api: Api, node: Json) -> Answer:
    """Creates the node, writes its status, and sets its taints again."""
    name, taints = node["metadata"]["name"], node["spec"]["taints"]
    api.create("/api/v1/nodes", node).expect()
    api.patch(f"/api/v1/nodes/{name}/status", {"status": node["status"]}, STRATEGIC).expect()
    return api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}}, MERGE).expect()


def cordon(api: Api, name: str, *, unschedulable: bool = True) -> Answer:
    """As kubectl cordon and uncordon."""
    return api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": unschedulable}})
