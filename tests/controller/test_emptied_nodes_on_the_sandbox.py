"""Nodes that the controller has emptied: cordoned or tainted, given back in time or at once, never taken from an administrator."""

import msgspec
import pytest
from scenes import Scene

from harness import builders as b
from harness.histories.user_requests import MOVE
from kube_sandbox.controllers.unstructured import NODE, POD, annotations_of, spec, status
from rescheduler.controller.periodic_steps import EmptiedNodeKeeper
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.names import ANNOTATION_KEPT_EMPTY, TAINT_KEPT_EMPTY
from rescheduler.model.snapshot import Snapshot
from tests.seeds import parts

PLAIN = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 30s
limits: {movesAtOnce: 3, movesPerHour: 600, workloadCooldown: 2s}
policies:
- {name: HighNodeUtilization, thresholds: {cpu: 40}, targetThresholds: {cpu: 95}}
"""
CORDON = PLAIN.replace(b"{cpu: 95}", b"{cpu: 95}, emptiedNodes: cordon, keptEmptyFor: 10m")
TAINT = CORDON.replace(b"cordon,", b"taint,")
MARKER = {"key": "example.com/rack", "value": "7", "effect": "PreferNoSchedule"}


def sparse():
    """Two nodes, of which n1 is hardly used: its pod has room on n0."""
    scene = Scene({"n0": 4, "n1": 4}).workload("Deployment", "base", ["n0", "n0"])
    scene.workload("Deployment", "web", ["n1"])
    return scene


def sparse_with_a_budget():
    """Two nodes with two pods each of an app of which one may be away at a time; they have room on the others."""
    scene = Scene({"n0": 4, "n1": 4, "n2": 4, "n3": 4})
    scene.workload("Deployment", "base", ["n0", "n0", "n3", "n3"])
    scene.workload("Deployment", "web", ["n1", "n1", "n2", "n2"], cpu="250m")
    scene.budget("web", maxUnavailable=1)
    scene.advance(2.0)
    return scene


def node(scene, name="n1"):
    return scene.api.get(NODE, "", name)


def cordoned(scene):
    return bool(spec(node(scene)).get("unschedulable"))


def tainted(scene):
    return any(taint["key"] == TAINT_KEPT_EMPTY for taint in spec(node(scene)).get("taints", ()))


def note(scene):
    return note_of(scene, "n1")


def note_of(scene, name):
    return annotations_of(node(scene, name)).get(ANNOTATION_KEPT_EMPTY, "").split(" ")[0]


def cordoned_with_pods(scene):
    """Nodes that are cordoned although pods stand there."""
    return [n for n in scene.nodes() if spec(node(scene, n)).get("unschedulable") and scene.on(n)]


def kept(scene):
    return cordoned(scene) and note(scene) == "Cordoned"


def at_rest(scene):
    return all(status(move).get("phase") == "Succeeded" for move in scene.api.list(MOVE))


def emptied(document=CORDON):
    scene = sparse()
    scene.start(document=document)
    scene.until(lambda: kept(scene) and at_rest(scene), 120.0)
    return scene


def kept_by_a_taint(scene):
    return tainted(scene) and not cordoned(scene) and note(scene) == "Tainted"


def emptied_and_tainted(*taints, document=TAINT):
    """``taints``: what stands on the node already."""
    scene = sparse()
    if taints:
        scene.api.patch(node(scene), {"spec": {"taints": list(taints)}})
    scene.start(document=document)
    scene.until(lambda: kept_by_a_taint(scene) and at_rest(scene), 120.0)
    return scene


def large(scene):
    return scene.api.get(POD, "default", "large-0")


def evictions(scene):
    return len(scene.calls.of(lambda call: call.evicts))


def test_an_emptied_node_is_cordoned_for_its_time_and_then_left_in_peace():
    scene = emptied()
    assert scene.on("n1") == []
    (move,) = scene.api.list(MOVE)
    assert status(move)["phase"] == "Succeeded"
    assert "cordoned for 10m" in spec(move)["reason"]
    scene.advance(500.0)
    assert kept(scene)
    scene.until(lambda: not cordoned(scene), 120.0)
    assert note(scene) == ""
    scene.advance(600.0)
    assert not cordoned(scene), "one emptying, one cordon"
    assert evictions(scene) == 1, "nothing is filled and emptied again"
    told = scene.program.events.told
    assert [line.split(":")[0] for line in told if "kept" in line or "cordoned" in line] == [
        "KeptEmpty",
        "GivenBack",
    ]
    assert scene.leftovers() == scene.program.events.damaged == []


def test_a_move_that_no_other_node_takes_gets_the_node_back_instead_of_a_new_one():
    scene = emptied(CORDON + b"reservations: {nodeAutoscaler: Present}\n")
    scene.cordon("n0")
    name = scene.move(scene.pods("base")[0], "", ttl="10m")
    scene.succeed(name, limit_s=120.0)
    assert len(scene.on("n1", "base")) == 1
    assert note(scene) == "GivenBack"
    assert not scene.placeholders()


def test_nodes_are_emptied_one_pod_at_a_time_where_a_budget_allows_no_more():
    scene = sparse_with_a_budget()
    ready = []
    scene.api.subscribe(lambda _: ready.append(len(scene.ready())))
    scene.start(document=CORDON)
    scene.until(lambda: not scene.on("n1") and not scene.on("n2") and len(scene.ready()) == 4, 600.0)
    assert min(ready) == 3
    scene.until(lambda: kept(scene), 60.0)
    scene.advance(300.0)
    assert evictions(scene) == 4, "no pod comes back"
    assert {status(move)["phase"] for move in scene.api.list(MOVE)} == {"Succeeded"}
    assert scene.leftovers() == scene.program.events.damaged == scene.faults == []


def on_node(scene, name):
    return [pod for pod in scene.api.list(POD) if spec(pod).get("nodeName") == name]


@pytest.mark.parametrize("dies", [False, True], ids=["", "another-controller-goes-on"])
def test_a_node_is_not_filled_again_while_its_pods_leave_it_one_by_one(dies):
    scene = sparse_with_a_budget()
    program = scene.start(document=CORDON)
    scene.until(lambda: cordoned_with_pods(scene), 120.0)
    (begun,) = cordoned_with_pods(scene)
    assert evictions(scene) == 1
    if dies:
        program.line.doom(1, after=True)
        scene.until(lambda: program.died, 60.0)
    scene.crowd(6, cpu_milli=100, name="new")
    scene.until(lambda: not scene.on(begun) and len(scene.ready()) == 4, 300.0)
    assert on_node(scene, begun) == [], "kube-scheduler prefers it, and may not"
    assert note_of(scene, begun) == "Cordoned"
    assert not cordoned_with_pods(scene)
    scene.until(lambda: note_of(scene, begun) == "", 900.0)
    assert scene.leftovers() == scene.program.events.damaged == scene.faults == []


def test_a_node_of_which_the_rest_cannot_leave_any_more_is_a_node_like_any_other():
    scene = sparse_with_a_budget()
    scene.start(document=CORDON)
    scene.until(lambda: evictions(scene) == 1 and len(scene.ready()) == 4, 120.0)
    (begun,) = cordoned_with_pods(scene)
    for name, cpu_milli in (("a", 3500), ("b", 1900), ("c", 1700)):
        scene.crowd(1, cpu_milli=cpu_milli, name=name)
        scene.until(lambda name=name: spec(scene.api.get(POD, "default", f"{name}-0")).get("nodeName"), 5.0)
    scene.until(lambda: not cordoned_with_pods(scene), 60.0)
    told = [line for line in scene.program.events.told if line.startswith("GivenBack")]
    assert len(told) == 1
    assert "pods that stand there cannot leave" in told[0]
    assert note_of(scene, begun) == "GivenBack"
    scene.advance(600.0)
    assert evictions(scene) < 4
    assert not any(spec(node(scene, name)).get("unschedulable") for name in ("n1", "n2") if scene.on(name))
    assert scene.leftovers() == scene.program.events.damaged == scene.faults == []


def test_a_pod_that_has_no_other_room_gets_the_node_at_once():
    scene = emptied()
    scene.crowd(1, cpu_milli=3000, name="large")
    scene.until(lambda: not cordoned(scene), 10.0)
    assert note(scene) == "GivenBack"
    scene.until(lambda: spec(large(scene)).get("nodeName") == "n1", 60.0)
    scene.advance(700.0)
    assert note(scene) == ""


def test_a_reservation_that_finds_no_other_room_gets_the_node():
    scene = emptied()
    room = scene.room("big", app="base", cpu="3", allocateOnce=False)
    scene.until(lambda: scene.phase(room) == "Available", 120.0)
    assert not cordoned(scene)


def test_who_uncordons_it_has_the_last_word():
    scene = emptied()
    scene.uncordon("n1")
    scene.advance(30.0)
    assert not cordoned(scene)
    assert note(scene) == "GivenBack"
    # What an administrator cordons from now on is the administrator's.
    scene.cordon("n1")
    scene.advance(700.0)
    assert cordoned(scene)
    assert note(scene) == ""


def test_a_node_that_is_taken_away_takes_its_note_with_it():
    scene = emptied()
    scene.api.delete(node(scene))
    scene.advance(700.0)
    assert scene.nodes() == ["n0"]
    assert scene.program.events.damaged == []


@pytest.mark.parametrize("taints", [(), (MARKER,)], ids=["no-other-taint", "another-taint"])
def test_a_tainted_node_keeps_its_other_taints_and_loses_ours_in_time(taints):
    scene = emptied_and_tainted(*taints)
    (move,) = scene.api.list(MOVE)
    assert "tainted for 10m" in spec(move)["reason"]
    scene.advance(500.0)
    assert kept_by_a_taint(scene)
    scene.until(lambda: not tainted(scene), 120.0)
    assert note(scene) == ""
    assert spec(node(scene)).get("taints", []) == list(taints)
    scene.advance(600.0)
    assert not tainted(scene), "one emptying, one taint"
    assert evictions(scene) == 1
    assert scene.leftovers() == scene.program.events.damaged == []


def test_a_cordon_over_our_taint_stays_when_the_taint_goes():
    scene = emptied_and_tainted()
    scene.cordon("n1")
    scene.until(lambda: not tainted(scene), 700.0)
    assert cordoned(scene)
    assert note(scene) == ""


def test_a_configuration_that_changes_from_taint_to_cordon_leaves_what_stands_until_its_time_is_over():
    scene = emptied_and_tainted()
    scene.program.document.content = CORDON
    scene.advance(100.0)
    assert kept_by_a_taint(scene)
    scene.program.document.content = PLAIN
    scene.until(lambda: not tainted(scene), 60.0)
    assert not cordoned(scene)


@pytest.mark.parametrize("part", parts(16))
@pytest.mark.parametrize(
    ("document", "is_kept"), [(CORDON, kept), (TAINT, kept_by_a_taint)], ids=["cordon", "taint"]
)
def test_a_controller_that_dies_at_any_write_gives_back_what_it_has_kept(document, is_kept, part):
    scene = sparse()
    scene.start(document=document)
    scene.until(lambda: is_kept(scene), 120.0)
    scene.until(lambda: note(scene) == "", 720.0)
    writes = scene.calls.of(lambda call: call.writes)
    on_nodes = [i for i, call in enumerate(writes, 1) if "/nodes/" in call.path]
    assert len(on_nodes) >= 2, "the cordon, and what takes it off"
    for write in {*on_nodes, *range(1 + part, len(writes) + 1, 16)}:
        scene = sparse()
        program = scene.start(document=document)
        program.line.doom(write, after=False)
        scene.until(lambda scene=scene: is_kept(scene), 240.0)
        scene.until(lambda scene=scene: note(scene) == "", 720.0)
        scene.advance(10.0)
        assert not cordoned(scene)
        assert not tainted(scene)
        assert scene.leftovers() == []


def test_a_round_within_a_second_of_the_last_look_asks_for_another_look():
    keeper, nothing = EmptiedNodeKeeper(), Snapshot(taken_at_s=0.0)
    assert list(keeper.steps(nothing, (), (), 100.0)) == []
    assert keeper.again_s is None
    assert list(keeper.steps(nothing, (), (), 100.3)) == []
    assert keeper.again_s == 101.0
    assert list(keeper.steps(nothing, (), (), 101.0)) == []
    assert keeper.again_s is None


def test_a_node_that_is_kept_is_looked_at_again_within_five_seconds():
    node = msgspec.structs.replace(b.node("n1").build(), kept_empty=KeptEmpty(Hold.CORDONED, 500.0))
    keeper = EmptiedNodeKeeper()
    list(keeper.steps(Snapshot(taken_at_s=100.0, nodes={"n1": node}), (), (), 100.0))
    assert keeper.again_s == 105.0
