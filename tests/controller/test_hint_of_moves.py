"""For how long pods of the same controller avoid the node that a move has left: by the move, by its policy, or by what is usual."""

import json

import pytest
from scenes import NODE, Scene

from kube_sandbox.controllers.unstructured import GroupKind, annotations_of, spec
from rescheduler.model import names
from rescheduler.model.times import parse_timestamp
from rescheduler.planning.avoid import DEFAULT_TTL_S, TTL_S

MOVE = GroupKind("rescheduler.dev", "PodMigration")
DOCUMENT = """\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
policies: [{name: NodeTaints, after: 0s%s}]
"""


def lasting(scene, node):
    """Seconds that each hint of the node still lasts."""
    text = annotations_of(scene.api.get(NODE, "", node)).get(names.ANNOTATION_AVOID, "[]")
    return [round(parse_timestamp(one["until"]) - scene.now_s, -2) for one in json.loads(text)]


def started(hint=""):
    scene = Scene({"n1": 2, "n2": 2}).workload(nodes=["n1"])
    scene.start(document=(DOCUMENT % hint).encode())
    scene.advance(2.0)
    return scene


@pytest.mark.parametrize(
    ("wish", "lasts"),
    [({}, [DEFAULT_TTL_S]), ({"hint": "6h"}, [21_600]), ({"hint": "0s"}, []), ({"hint": "0"}, [])],
    ids=str,
)
def test_a_move_says_for_how_long(wish, lasts):
    scene = started()
    move = scene.move(scene.pods()[0], "n2", **wish)
    assert scene.until(lambda: scene.state(move).get("phase") == "Succeeded", 60.0)
    assert lasting(scene, "n1") == lasts
    until = scene.state(move).get("sourceAvoidedUntil")
    assert [round(parse_timestamp(until) - scene.now_s, -2)] == lasts if lasts else until is None


@pytest.mark.parametrize(
    ("hint", "said", "lasts"),
    [("", None, [TTL_S["NodeTaints"]]), (", hint: 0s", "0s", []), (", hint: 3h", "3h0m0s", [10_800])],
)
def test_a_policy_says_it_of_the_moves_that_it_plans(hint, said, lasts):
    scene = started(hint)
    scene.taint("n1")
    assert scene.until(lambda: not scene.on("n1") and scene.ready(), 60.0)
    scene.advance(2.0)
    (planned,) = scene.api.list(MOVE)
    assert spec(planned).get("hint") == said
    assert lasting(scene, "n1") == lasts


def test_a_longer_hint_takes_the_place_of_one_that_stands():
    scene = started()
    lasts = []
    for number, hint in enumerate(("1h", "30m", "5h")):
        if number:
            back = scene.move(scene.pods()[0], "n1", name=f"back-{number}", hint="0s")
            assert scene.until(lambda move=back: scene.state(move).get("phase") == "Succeeded", 60.0)
            scene.advance(10.0)
        move = scene.move(scene.pods()[0], "n2", name=f"away-{number}", hint=hint)
        assert scene.until(lambda move=move: scene.state(move).get("phase") == "Succeeded", 60.0)
        scene.advance(10.0)
        lasts.append(lasting(scene, "n1"))
    assert lasts == [[3_600], [3_600], [18_000]]


def test_moves_that_leave_a_node_together_write_its_hints_together():
    apps = [f"app{number}" for number in range(6)]
    scene = Scene({"n1": 8, "n2": 8})
    for app in apps:
        scene.workload(name=app, nodes=["n1"])
    scene.start()
    scene.advance(2.0)
    refused = []
    scene.calls.answer(_writes_node, lambda call: refused.extend(_stale(scene, call)))
    moves = [scene.move(scene.pods(app)[0], "n2") for app in apps]
    assert scene.until(lambda: all(scene.state(move).get("phase") == "Succeeded" for move in moves), 60.0)
    assert len(lasting(scene, "n1")) == len(apps)
    assert not refused
    assert len(scene.calls.of(_writes_node)) <= 2


def _writes_node(call):
    return call.method == "PATCH" and call.path == "/api/v1/nodes/n1"


def _stale(scene, call):
    """The call, if it was decided on an earlier version of the node."""
    now = scene.api.get(NODE, "", "n1")["metadata"]["resourceVersion"]
    return [] if call.body["metadata"]["resourceVersion"] == now else [call]
