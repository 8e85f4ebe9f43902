"""Moves and rooms through crashes and crowds, in virtual time on the sandbox: no room is lost and nothing is left behind."""

from __future__ import annotations

import pytest
from scenes import Scene

from kube_sandbox.controllers.unstructured import NODE, POD, controller_of, meta, spec
from rescheduler.model.names import ANNOTATION_RESERVATION
from tests.seeds import fresh, parts

seeds = pytest.mark.parametrize("seed", fresh(2))
KINDS = pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])


def full_cluster(kind="ReplicaSet", *, seed=1):
    """Three pods of a workload on n1; one room on n2 and one on n3."""
    scene = Scene({"n1": 3, "n2": 2, "n3": 2}, seed=seed).workload("ReplicaSet", "old", ["n2", "n3"])
    scene.workload(
        kind,
        "web",
        ["n1", "n1", "n1"],
        **({"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}),
    )
    scene.budget("web", minAvailable=2)
    return scene


def two_moves(scene):
    """Asks for both; whoever waits once the rooms are held would take any room."""
    first, second = scene.pods()[:2]
    return {scene.move(first, "n2"): "n2", scene.move(second, "n3"): "n3"}


def finish(scene, *names, limit_s=300.0):
    scene.until(lambda: scene.over(*names), limit_s)
    scene.advance(30.0)
    assert scene.leftovers() == []
    assert scene.faults == []


def landed(scene, names):
    """Name of the move -> how it ended, and where the replacement is."""
    found = {}
    for name in names:
        state = scene.state(name)
        pod = scene.api.get(POD, "default", (state.get("replacement") or {}).get("name", ""))
        found[name] = (state.get("phase"), spec(pod).get("nodeName") if pod else "")
    return found


def writes_of(scene):
    return len(scene.calls.of(lambda call: call.writes))


@KINDS
@pytest.mark.parametrize("part", parts(8))
def test_a_crash_at_every_single_write(kind, part):
    """Dying before one is dying after the one before. Nightly all of them, else every eighth."""
    scene = full_cluster(kind)
    scene.start()
    targets = two_moves(scene)
    finish(scene, *targets)
    total = writes_of(scene)
    assert total > 20
    for write in range(1 + part, total + 1, 8):
        scene = full_cluster(kind)
        program = scene.start()
        program.line.doom(write, after=False)
        targets = two_moves(scene)
        finish(scene, *targets)
        assert landed(scene, targets) == {name: ("Succeeded", node) for name, node in targets.items()}, write
        assert program.died <= 1


@pytest.mark.crossed
@seeds
@pytest.mark.parametrize("priority_class", ["", "patient"])
def test_pods_that_wait_for_any_room_are_kept_out(seed, priority_class):
    """Those of the same priority by the nomination, those of higher priority by the taint."""
    scene = full_cluster(seed=seed)
    scene.start(crashes=4 if seed % 2 else 0, late=True)
    targets = two_moves(scene)
    scene.until(lambda: all(scene.state(name).get("evictionRequestedAt") for name in targets))
    scene.crowd(6, priority_class=priority_class)
    finish(scene, *targets)
    assert landed(scene, targets) == {name: ("Succeeded", node) for name, node in targets.items()}


@seeds
def test_rooms_that_people_reserve_are_used_by_a_scale_up(seed):
    """Two rooms for three new pods, one of them without a named node; the surplus pod is let go."""
    scene = Scene({"n1": 1, "n2": 1, "n3": 1}, seed=seed).workload(nodes=["n1"])
    scene.start(crashes=4 if seed % 2 else 0, late=True)
    rooms = [scene.room("first", node="n2"), scene.room("second")]
    scene.until(lambda: all(scene.phase(name) == "Available" for name in rooms))
    scene.crowd(4)
    scene.scale(4)
    scene.until(lambda: all(scene.phase(name) == "Succeeded" for name in rooms))
    scene.advance(30.0)
    assert [len(scene.on(node)) for node in ("n1", "n2", "n3")] == [1, 1, 1]
    assert scene.leftovers() == []
    assert scene.faults == []


@seeds
def test_soft_moves_end_and_leave_nothing_behind(seed):
    """Nobody is held, nobody comes for the rooms; the old node is closed, so that the room is the only place."""
    scene = Scene({"n1": 2, "n2": 1}, seed=seed).workload("ReplicaSet", nodes=["n1", "n1"])
    scene.budget("web", minAvailable=1)
    scene.cordon("n1")
    soft = b"{apiVersion: rescheduler.dev/v1alpha1, kind: ReschedulerConfiguration, policies: [], mode: Soft}"
    scene.start(document=soft, crashes=4 if seed % 2 else 0, late=True)
    scene.advance(5.0)  # the API server tells creation times in whole seconds
    name = scene.move(scene.pods()[0], "n2", mode="Soft")
    finish(scene, name)
    assert (scene.phase(name), len(scene.on("n2"))) == ("Succeeded", 1)
    assert not any(ANNOTATION_RESERVATION in (meta(p).get("annotations") or {}) for p in scene.pods())


@seeds
def test_of_two_moves_of_one_pod_the_second_waits_and_takes_no_room(seed):
    scene = full_cluster(seed=seed)
    scene.start(crashes=4 if seed % 2 else 0, late=True)
    pod = scene.pods()[0]
    names = scene.move(pod, "n2", name="first"), scene.move(pod, "n3", name="second")
    finish(scene, *names)
    ended = {scene.phase(name): scene.state(name) for name in names}
    assert set(ended) == {"Failed", "Succeeded"}
    failed = ended["Failed"]
    assert failed["conditions"][-1]["reason"] in ("PodGone", "PodReplaced")
    assert not {"reservationName", "evictionRequestedAt", "evictedAt"} & {k for k, v in failed.items() if v}
    assert len(scene.calls.of(lambda c: c.evicts and pod["metadata"]["name"] in c.path)) == 1


def test_the_second_move_of_a_pod_goes_on_if_the_first_one_ends_without_moving_it():
    scene = full_cluster()
    scene.start()
    pod = scene.pods()[0]
    first, second = scene.move(pod, "n2", name="first"), scene.move(pod, "n3", name="second")
    scene.refuse(429, "TooManyRequests", lambda c: c.rehearses)
    scene.until(lambda: scene.reason(second) == "AnotherMove")
    scene.calls.answers.clear()
    scene.api.delete(scene.get_move(first))
    scene.succeed(second)
    assert scene.faults == []


def test_a_sibling_that_lands_on_a_room_of_its_own_is_no_stray():
    """A StatefulSet makes its pods one after the other: the second one comes when the first is Ready."""
    scene = Scene({"n1": 3, "n2": 2, "n3": 2}).workload("ReplicaSet", "old", ["n2", "n3"])
    scene.workload("StatefulSet", "web", ["n1", "n1", "n1"])
    scene.start()
    targets = two_moves(scene)
    finish(scene, *targets)
    assert landed(scene, targets) == {name: ("Succeeded", node) for name, node in targets.items()}


@pytest.mark.parametrize("once", [True, False], ids=["one pod", "several"])
def test_a_sibling_waits_while_the_claim_of_a_pod_that_went_away_is_taken_back(once):
    """The room is free again in the next turn: a pod that is released in between would miss it."""
    scene = Scene({"n1": 1, "n2": 1}).workload(nodes=["n1"])
    scene.start()
    scene.held_room(node="n2", allocateOnce=once)
    scene.crowd(3)
    scene.cluster.stop_scheduler()
    scene.scale(2)
    scene.until(lambda: scene.state("room").get("currentOwners"))
    first = scene.state("room")["currentOwners"][0]["name"]
    scene.api.delete(scene.api.get(POD, "default", first), grace_s=0)
    scene.advance(3.0)
    scene.cluster.restart_scheduler()
    scene.until(lambda: len(scene.on("n2")) == 1)
    assert first not in [p["metadata"]["name"] for p in scene.on("n2")]


@pytest.mark.parametrize(
    "refused", [False, True], ids=["told in the same turn", "its status cannot be written"]
)
def test_nobody_is_evicted_once_the_placeholder_is_deleted_by_hand(refused):
    scene = full_cluster()
    scene.start()
    targets = two_moves(scene)
    scene.until(lambda: scene.calls.of(lambda c: c.rehearses))
    if refused:
        scene.refuse(409, "Conflict", lambda c: "/reservations/" in c.path and c.path.endswith("/status"))
    for pod in scene.placeholders():
        scene.api.delete(pod)
    scene.advance(3.0)
    assert not scene.calls.of(lambda c: c.evicts)
    assert refused or not any(scene.state(name).get("evictionRequestedAt") for name in targets)


@pytest.mark.parametrize("written", [False, True], ids=["before the intent", "after it"])
def test_nobody_is_evicted_for_a_room_that_a_sibling_is_given_meanwhile(written):
    """The Reservation is people's and for any pod of the workload; one comes while the eviction is being prepared."""
    scene = Scene({"n1": 1, "n2": 1}).workload("ReplicaSet", nodes=["n1"])
    scene.budget(maxUnavailable="100%")  # without one the only Ready pod of two would not be evicted
    scene.start()
    scene.held_room(kind="ReplicaSet", node="n2")
    old = scene.pods()[0]
    if not written:  # the rehearsal is refused for a while, so that the move stays before its intent
        scene.refuse(429, "TooManyRequests", lambda c: c.rehearses)
    name = scene.move(old, "", reservationRef={"name": "room"})
    scene.until(
        lambda: scene.state(name).get("evictionRequestedAt") if written else scene.phase(name) == "Evicting"
    )
    scene.scale(2, kind="ReplicaSet")
    scene.advance(5.0 if not written else 0.5)
    scene.calls.answers.clear()
    scene.until(lambda: scene.over(name) or scene.state("room").get("currentOwners"))
    scene.advance(60.0)
    evicted = scene.calls.of(lambda c: c.evicts)
    assert bool(evicted) is written, (
        "the intent holds the room for the replacement; before it, the sibling has it"
    )
    assert scene.faults == []


def test_hints_are_not_written_for_an_owner_that_is_deleted_in_the_middle():
    """They would be collected at once, and written again, without an end."""
    scene = full_cluster()
    scene.start()
    two_moves(scene)
    scene.until(lambda: scene.calls.of(lambda c: c.evicts))
    owner = controller_of(scene.pods()[0])
    scene.api.delete(scene.workload_of(owner))
    begun_s = scene.now_s
    scene.advance(20.0)
    hints = scene.calls.of(lambda c: "/nodes/" in c.path and "annotations" in str(c.body), since_s=begun_s)
    assert len(hints) <= 2
    assert not any("avoid" in key for n in scene.api.list(NODE) for key in meta(n).get("annotations") or {})
