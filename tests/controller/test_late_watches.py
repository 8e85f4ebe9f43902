"""Watches that are behind: nothing is evicted whose replacement would be seen too late, however often it is tried."""

import pytest
from scenes import TAINTS, Scene

from kube_sandbox.controllers.unstructured import annotations, spec
from rescheduler.model.kinds import Kind
from rescheduler.model.names import ANNOTATION_SEEN


@pytest.fixture
def scene():
    made = Scene({"n1": 4, "n2": 4, "n3": 4}).workload("Deployment", "web", ["n1", "n1"])
    made.start()
    made.advance(3.0)
    return made


def evicted(scene):
    return scene.calls.of(lambda c: c.evicts)


@pytest.mark.crossed
@pytest.mark.parametrize("given", [False, True], ids=["its own room", "a room that was there"])
@pytest.mark.parametrize("kinds", [tuple(Kind), (Kind.POD,)], ids=["all watches", "the watch of pods"])
def test_nothing_is_evicted_while_watches_are_seconds_behind(scene, given, kinds):
    wish = {}
    if given:
        room = scene.held_room(node="n2")
        scene.advance(90.0)
        wish = {"reservationRef": {"name": room}}
    watched = {watch.kind for watch in scene.program.caches.watches()}
    scene.program.caches.lag(12.0, watched & set(kinds))
    first = scene.move(scene.ready()[0], "" if given else "n2", ttl="300s", **wish)
    second = scene.move(scene.ready()[1], "n3", ttl="300s")
    scene.advance(100.0)
    assert evicted(scene) == []
    assert "LateWatch" in {scene.reason(first), scene.reason(second)}
    scene.program.caches.lag(0.0)
    scene.until(lambda: scene.over(first, second), 150.0)
    assert {scene.phase(first), scene.phase(second)} == {"Succeeded"}, (
        scene.state(first),
        scene.state(second),
    )
    assert scene.faults == []


def test_watches_that_fall_behind_after_an_eviction_stop_the_next_one_until_they_are_measured(scene):
    first = scene.move(scene.ready()[0], "n2")
    scene.until(lambda: bool(evicted(scene)))
    scene.program.caches.lag(70.0)
    second = scene.move(scene.ready("web")[-1], "n3", ttl="600s")
    scene.advance(200.0)
    assert len(evicted(scene)) == 1
    scene.program.caches.lag(0.0)
    scene.until(lambda: scene.over(first, second), 300.0)
    assert scene.phase(second) == "Succeeded", scene.state(second)


def test_where_the_measuring_write_is_refused_the_move_goes_on_as_before(scene):
    """As by the admission policy of an older version."""
    room = scene.held_room(node="n2")
    scene.advance(90.0)
    scene.refuse(403, "Forbidden", lambda c: ANNOTATION_SEEN in str(c.body))
    name = scene.move(scene.ready()[0], "", reservationRef={"name": room})
    scene.succeed(name)
    assert not any(ANNOTATION_SEEN in annotations(p) for p in scene.placeholders())


@pytest.mark.crossed
@pytest.mark.parametrize("behind_s", [0.5, 2.0])
@pytest.mark.parametrize("kind", [Kind.POD, Kind.POD_MIGRATION, Kind.RESERVATION])
def test_each_replacement_lands_in_its_room_whichever_watch_is_behind(scene, kind, behind_s):
    """Nothing orders the events of different kinds: a replacement may be seen before the intent to evict its pod."""
    scene.program.caches.lag(behind_s, {kind})
    moves = [scene.move(pod, "n2") for pod in scene.ready()]
    scene.until(lambda: scene.over(*moves), 150.0)
    assert [scene.reason(move) for move in moves] == ["Landed"] * 2
    assert {spec(pod)["nodeName"] for pod in scene.ready()} == {"n2"}
    assert scene.faults == []


@pytest.mark.crossed
@pytest.mark.parametrize("behind_s", [0.5, 2.0])
@pytest.mark.parametrize("kind", [Kind.POD, Kind.POD_MIGRATION, Kind.RESERVATION])
def test_a_leader_that_takes_over_right_after_an_eviction_knows_all_that_its_predecessor_wrote(
    kind, behind_s
):
    """It has read the cluster before it leads: each kind is as old as its watch is behind, and nothing orders them."""
    scene = Scene({"n1": 4, "n2": 4, "n3": 4}).workload("Deployment", "web", ["n1", "n1"])
    first = scene.start(identity="first")
    scene.advance(3.0)
    scene.start(identity="next").caches.lag(behind_s, {kind})
    scene.advance(3.0)
    move = scene.move(scene.ready()[0], "n2")
    scene.until(lambda: bool(evicted(scene)))
    first.frozen = True
    first.elector.stop()
    scene.until(lambda: scene.over(move), 150.0)
    assert scene.reason(move) == "Landed", scene.state(move)
    assert [len(scene.on(node)) for node in ("n1", "n2")] == [1, 1]
    assert scene.faults == []


@pytest.mark.parametrize("kind", [Kind.POD, Kind.POD_MIGRATION, Kind.RESERVATION])
def test_a_workload_rests_after_its_move_whichever_watch_is_behind(kind):
    """Neither a move that hands over nor one whose end the cache does not show yet lets the next one begin."""
    scene = Scene({"n1": 8, "n2": 8, "n3": 8}).workload("Deployment", "web", ["n1"] * 3)
    document = TAINTS.replace(b"workloadCooldown: 2s", b"workloadCooldown: 30m, perWorkload: 1")
    scene.start(document=document).caches.lag(2.0, {kind})
    scene.advance(3.0)
    scene.taint("n1")
    scene.advance(60.0)
    assert len(evicted(scene)) == 1


@pytest.mark.parametrize("kind", [Kind.POD, Kind.POD_MIGRATION])
def test_an_evicted_pod_is_not_taken_for_available_though_its_move_is_deleted(kind):
    """No budget keeps two evictions apart here, and the watch of pods may show the old pod for a while."""
    scene = Scene({"n1": 4, "n2": 4}).workload("Deployment", "web", ["n1"] * 3)
    scene.start().caches.lag(2.0, {kind})
    scene.advance(3.0)
    moves = [scene.move(pod, "n2", ttl="200s") for pod in scene.ready()]
    scene.until(lambda: bool(evicted(scene)))
    first = next(move for move in moves if scene.state(move).get("evictionRequestedAt"))
    scene.api.delete(scene.get_move(first))
    for _ in range(600):
        scene.advance(0.1)
        assert len(scene.ready()) >= 2
    assert scene.over(*(move for move in moves if move != first))
