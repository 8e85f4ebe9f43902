"""New pods that also get a scheduling gate of another program, with the whole controller on the sandbox in virtual time.

No pod is evicted for a replacement that another program would hold, as soon as anything shows it; and where nothing showed
it, neither the room nor the neighbours of that replacement are lost.
"""

import json

import pytest
from scenes import Scene

from kube_sandbox.controllers.unstructured import REPLICA_SET, GroupKind, labels, spec
from rescheduler.kube.transport import Response
from rescheduler.model.names import GATE

BINDING = GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding")
QUEUE = "queue.example.com/admission"
NO_RIGHT = 'pods is forbidden: User "rescheduler" cannot create resource "pods" in API group ""'


def add_gates(world, app="web", namespace="default"):
    """Every new pod of the app (None: every new pod of the namespace) waits for a queue, which never lets it go."""
    gates = f'[Object.spec.schedulingGates{{name: "{QUEUE}"}}]'
    expression = f"Object{{spec: Object.spec{{schedulingGates: {gates}}}}}"
    conditions = [{"name": "queued", "expression": _labelled(app)}] if app else []
    change = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    mutate_new_pods(world, change, conditions, namespace)


def take_gates_off(world, namespace="default"):
    """As a policy does that forbids scheduling gates in a namespace: it is called after ours."""
    patch = '[JSONPatch{op: "remove", path: "/spec/schedulingGates"}]'
    gated = [{"name": "gated", "expression": "has(object.spec.schedulingGates)"}]
    change = {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}
    mutate_new_pods(world, change, gated, namespace)


def mutate_new_pods(world, change, conditions, namespace):
    """A mutating policy of somebody else."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "queue.example.com"}}
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
        "matchConditions": conditions,
        "mutations": [change],
    }
    world.api.create({**head, "kind": "MutatingAdmissionPolicy", "spec": policy})
    world.api.create(
        {**head, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": "queue.example.com"}}
    )


def refuse_new_pods(world, app):
    """As a webhook that is down would, until the binding is deleted."""
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "refusing"}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "app", "expression": _labelled(app)}],
        "validations": [{"expression": "false", "message": "no new pods"}],
    }
    world.api.create({**head, "kind": "ValidatingAdmissionPolicy", "spec": spec})
    binding = {"policyName": "refusing", "validationActions": ["Deny"]}
    world.api.create({**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding})


def _labelled(app):
    labels = "object.metadata.labels"
    return f"has({labels}) && 'app' in {labels} && {labels}['app'] == '{app}'"


def without_the_right(world):
    """Dry-run creations are forbidden: nothing shows what admission adds but pods that were created."""
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403, "message": NO_RIGHT}
    answer = Response(403, json.dumps(status).encode(), {"content-type": "application/json"})
    world.calls.answer(lambda call: call.tries_creation, lambda _: answer)


def evicted(world):
    return world.calls.of(lambda call: call.evicts)


def gates(pod):
    return [gate["name"] for gate in spec(pod).get("schedulingGates") or ()]


def moved_where(change):
    """A move that is over in a cluster with that change, and its name."""
    world = Scene({"n1": 4, "n2": 4}).workload()
    change(world)
    world.start()
    name = world.move(world.pods()[0], "n2")
    world.until(lambda: world.over(name))
    return world, name


def test_nothing_is_evicted_for_a_replacement_that_another_program_would_hold():
    world, name = moved_where(add_gates)
    assert world.reason(name) == "NotMovable"
    assert QUEUE in world.state(name)["message"]
    assert not evicted(world)
    assert not world.leftovers()


def test_nothing_is_evicted_where_another_policy_takes_the_gate_off():
    """The proof of the gate is a pod of the controller's own namespace, which that policy leaves alone."""
    world, name = moved_where(take_gates_off)
    assert world.reason(name) == "GateNotInForce"
    assert "one in namespace default did not" in world.state(name)["message"]
    assert not evicted(world)
    world.until(lambda: not world.leftovers(), 20.0)
    assert not world.leftovers()


def test_where_nothing_shows_the_replacement_nothing_is_evicted_while_the_namespace_gets_no_pods():
    """As with a webhook for pods that is down: the ReplicaSet that needs a pod says so first."""
    world = Scene({"n1": 4, "n2": 4}).workload()
    world.workload(name="other")
    world.start()
    without_the_right(world)
    (failing,) = [rs for rs in world.api.list(REPLICA_SET) if labels(rs).get("app") == "other"]
    refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no webhook"}
    world.api.patch(failing, {"status": {"conditions": [refused]}}, subresource="status")
    name = world.move(world.pods()[0], "n2")
    world.advance(30.0)
    assert not evicted(world)
    assert world.reason(name) == "ReplacementUnknown"
    assert "no webhook" in world.state(name)["message"]
    (failing,) = [rs for rs in world.api.list(REPLICA_SET) if labels(rs).get("app") == "other"]
    world.api.patch(failing, {"status": {"conditions": []}}, subresource="status")
    world.succeed(name)


def test_where_nothing_shows_the_replacement_a_stateful_set_without_its_pod_stops_evictions_too():
    """It has no condition for it; its pod is deleted by somebody, and is refused when it is to be created again."""
    world = Scene({"n1": 4, "n2": 4}).workload()
    world.workload("StatefulSet", "db", ("n1", "n1"))
    world.start()
    without_the_right(world)
    refuse_new_pods(world, "db")
    world.api.delete(world.pods("db")[0])
    world.until(lambda: len(world.pods("db")) == 1)
    name = world.move(world.pods()[0], "n2")
    world.advance(30.0)
    assert not evicted(world)
    assert world.reason(name) == "ReplacementUnknown"
    assert "StatefulSet db: 1 of 2 pods exist" in world.state(name)["message"]
    world.api.delete(world.api.get(BINDING, "", "refusing"))
    world.succeed(name)


@pytest.mark.parametrize("let_go", [False, True])
def test_where_nothing_showed_the_gate_the_neighbours_land_and_the_room_stays_held(let_go):
    world = Scene({"n1": 8, "n2": 8}).workload(nodes=("n1",))
    world.workload(name="other", nodes=("n1", "n1"))
    add_gates(world)
    world.start()
    without_the_right(world)
    stuck = world.move(world.pods()[0], "n2")
    others = [world.move(pod, "n2") for pod in world.pods("other")]
    world.until(lambda: world.over(*others))
    assert [world.phase(name) for name in others] == ["Succeeded", "Succeeded"]
    assert len(world.on("n2", "other")) == 2
    world.until(lambda: any(QUEUE in gates(pod) for pod in world.pods()))
    (held,) = world.pods()
    assert gates(held).count(GATE) == 1
    assert not held.get("status", {}).get("nominatedNodeName")
    assert len(world.placeholders()) == 1, "its room stays held"
    world.advance(12.0)
    (told,) = [line for line in world.program.events.told if line.startswith("WaitsAtGate: Reservation ")]
    assert "n2" in told
    if let_go:
        kept = [gate for gate in spec(held)["schedulingGates"] if gate["name"] != QUEUE]
        world.api.patch(held, {"spec": {"schedulingGates": kept}})
    world.until(lambda: world.over(stuck))
    assert world.phase(stuck) == ("Succeeded" if let_go else "Failed")
    assert (len(world.on("n2")) == 1) is let_go
    world.advance(30.0)
    assert not world.leftovers()


def test_a_placeholder_that_another_program_holds_is_told_by_its_reservation_and_by_the_move():
    world = Scene({"n1": 4, "n2": 4}).workload()
    add_gates(world, app=None, namespace="rescheduler")
    world.start()
    name = world.move(world.pods()[0], "n2")
    world.until(lambda: QUEUE in (world.state(name).get("message") or ""))
    assert (world.phase(name), world.reason(name)) == ("Reserving", "Reserving")
    assert "it must leave out namespace rescheduler" in world.state(name)["message"]
    assert not evicted(world)
