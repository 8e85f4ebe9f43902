"""Which moves start first: the word of the owner, of the policy and of the PodMigration, and what forbids the mode."""

import json

import msgspec
import pytest
from start_first_scene import DECLARED

from harness.histories.faulty_transport import Killed, Line
from harness.histories.user_requests import MOVE
from kube_sandbox.controllers.unstructured import NODE, POD, spec, uid
from rescheduler.configuration.document import parse_configuration
from rescheduler.controller.issuing import ApiIssuer, Order
from rescheduler.kube.client import KubeApi
from rescheduler.model.migration import MoveMode
from rescheduler.planning.plan import Move, PodRef

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"


def configured(mode, modes):
    policies = [{"name": name, "mode": declared} for name, declared in modes.items()]
    text = f"{HEAD}reservations: {{ttl: 60s}}\npolicies: {json.dumps(policies)}\n"
    return msgspec.structs.replace(parse_configuration(text, "test"), mode=mode)


def issue(s, *, policy, mode=MoveMode.AUTO, modes=DECLARED, planned=MoveMode.START_FIRST, transport=None):
    """Begins the move that a plan decided on; gives its name and target."""
    pod = min(s.pods(), key=lambda p: p["metadata"]["name"])
    used = {spec(p).get("nodeName") for p in s.api.list(POD)}
    target = min({n["metadata"]["name"] for n in s.api.list(NODE)} - used)
    move = Move(
        pod=PodRef("default", pod["metadata"]["name"], uid(pod)), controller=None,
        source=spec(pod)["nodeName"], target=target, policy=policy, reason="test", message="", gain=1.0,
        disruption=0.0, mode=planned,
    )  # fmt: skip
    order = Order(snapshot=s.program.loop.snapshot(), configuration=configured(mode, modes))
    (key,) = ApiIssuer(KubeApi(transport or s.cluster.transport)).issue((move,), order, 0.0).keys
    return key.name, target


@pytest.mark.parametrize(("policy", "modes", "planned"), [
    ("NodeAffinity", DECLARED, MoveMode.RESERVE_FIRST),
    ("NodeTaints", {}, MoveMode.START_FIRST),
    ("NodeTaints", DECLARED, MoveMode.RESERVE_FIRST),
    ("NodeAffinity", {"NodeAffinity": MoveMode.START_FIRST}, MoveMode.START_FIRST),
], ids=["another policy", "not declared", "planned otherwise", "taken back since"])  # fmt: skip
def test_other_moves_reserve_first_and_the_budget_holds(scene, policy, modes, planned):
    s = scene(12, annotated=False)
    name, _ = issue(s, policy=policy, modes=modes, planned=planned)
    s.finish(name)
    found = s.state(name)
    assert (found["phase"], found["mode"]) == ("Failed", "ReserveFirst"), found
    s.settled(1)
    assert s.witness.most == 1


def test_a_death_before_the_declaration_is_written_leaves_a_move_that_reserves_first(scene):
    s = scene(15, annotated=False)
    line = Line(s.cluster.transport, s.rng, s.cluster.clock)
    line.doom(2, after=False)
    with pytest.raises(Killed):
        issue(s, policy="NodeTaints", transport=line)
    (move,) = s.api.list(MOVE)
    s.finish(move["metadata"]["name"])
    assert s.state(move["metadata"]["name"])["mode"] == "ReserveFirst"
    assert s.witness.most == 1


ONE_FOR_EACH_ZONE = {
    "maxSkew": 1,
    "minDomains": 2,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "nodeAffinityPolicy": "Ignore",
}
"""There is one zone only, so that no second pod may run beside the first."""


@pytest.mark.parametrize("named", [True, False])
def test_auto_reserves_first_where_no_second_pod_may_run_beside_the_old_one(scene, named):
    s = scene(3, spread=[ONE_FOR_EACH_ZONE], unavailable=1)
    name, target, old = s.move(mode="Auto", **({} if named else {"target": None}))
    s.finish(name)
    state = s.state(name)
    assert (state["phase"], state["mode"]) == ("Succeeded", "ReserveFirst")
    (told,) = [c for c in state["conditions"] if c["type"] == "StartFirst"]
    assert (told["status"], told["reason"]) == ("False", "ModeNotSupported")
    (pod,) = s.pods()
    assert uid(pod) != uid(old)
    assert not named or spec(pod)["nodeName"] == target
    assert s.leftovers() == ([], [], {})


def test_a_move_that_asks_for_the_mode_waits_for_a_place_beside_the_old_pod(scene):
    s = scene(3, spread=[ONE_FOR_EACH_ZONE], unavailable=1)
    name, _, old = s.move(mode="StartFirst")
    s.finish(name)
    state = s.state(name)
    assert state["phase"] == "Failed"
    assert "next to the running old pod" in state["message"]
    assert [uid(p) for p in s.pods()] == [uid(old)]
