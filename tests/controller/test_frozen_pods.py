"""Admission that refuses changes of the pods of a namespace: no pod is evicted for it, and who waits at the gate is told why."""

import pytest
from scenes import Scene, refusal

from rescheduler.model.names import GATE


def frozen():
    scene = Scene({"n1": 4, "n2": 4}).workload(nodes=("n1",))
    scene.start()
    thaw = []
    path = "/api/v1/namespaces/default/pods/"
    scene.refuse(
        403, "Frozen", lambda call: call.method == "PATCH" and call.path.startswith(path) and not thaw
    )
    return scene, thaw


def test_no_pod_is_evicted_whose_replacement_would_stay_at_the_gate():
    scene, _ = frozen()
    (pod,) = scene.pods()
    move = scene.move(pod, "n2")
    scene.until(lambda: scene.over(move))
    assert scene.reason(move) == "NotAdmitted"
    assert "the hand-over could not be made: 403 Frozen" in scene.state(move)["message"]
    assert [found["metadata"]["uid"] for found in scene.on("n1")] == [pod["metadata"]["uid"]]
    assert not scene.leftovers()


@pytest.mark.parametrize(("code", "ended"), [(403, ["Failed"]), (500, [])])
def test_no_pod_is_evicted_for_a_placeholder_that_could_not_be_deleted(code, ended):
    scene = Scene({"n1": 4, "n2": 4, "n3": 4}).workload(nodes=("n1", "n1"))
    scene.start()
    thaw = []
    held = lambda call: call.method == "DELETE" and "/rescheduler/pods/" in call.path  # noqa: E731
    scene.calls.answer(held, lambda _: None if thaw else refusal(code, "Frozen"))
    before = {pod["metadata"]["uid"] for pod in scene.pods()}
    moves = [scene.move(pod, node) for pod, node in zip(scene.pods(), ("n2", "n3"), strict=True)]
    scene.advance(60.0)
    assert {scene.phase(move) for move in moves} == set(ended or ["Evicting"])
    assert all("Frozen" in scene.state(move)["message"] for move in moves)
    assert {pod["metadata"]["uid"] for pod in scene.on("n1")} == before
    thaw.append(True)
    scene.advance(60.0)
    assert [scene.phase(move) for move in moves] == (ended or ["Succeeded"]) * 2
    assert scene.leftovers() == []


def test_who_waits_at_the_gate_for_the_room_of_somebody_is_told_why_and_goes_as_soon_as_it_may():
    scene, thaw = frozen()
    room = scene.held_room("held", node="n2")
    scene.scale(2)
    scene.advance(12.0)
    (told,) = [line for line in scene.program.events.told if line.startswith("WaitsAtGate: ")]
    assert told == "WaitsAtGate: the API server refuses what its hand-over needs: 403 Frozen: "
    assert scene.until(lambda: scene.phase(room) == "Failed")
    words = scene.state(room)["conditions"][-1]["message"]
    assert words.endswith("if it can be: the API server refuses what the hand-over needs: 403 Frozen: ")
    assert [gate["name"] for pod in scene.pods() for gate in pod["spec"].get("schedulingGates", ())] == [GATE]
    thaw.append(True)
    scene.advance(40.0)
    assert len(scene.ready()) == 2
    assert not scene.leftovers()


@pytest.mark.parametrize(("code", "chosen"), [
    (403, lambda call: call.method == "PATCH" and "/nodes/" in call.path),
    (500, lambda call: call.method == "DELETE" and "/rescheduler/pods/" in call.path and not call.dry),
], ids=["the taint", "the end of the placeholder"])  # fmt: skip
def test_a_pod_that_was_gated_in_vain_is_told_which_call_failed(code, chosen):
    scene = Scene({"n1": 4, "n2": 2, "n3": 4}).workload(nodes=("n1", "n1"))
    scene.workload("Deployment", "old", ["n3"] * 4)
    scene.start()
    scene.calls.answer(chosen, lambda _: refusal(code, "Frozen"))
    move = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: bool(scene.calls.of(lambda call: call.evicts)))
    scene.crowd(6, priority_class="patient")
    scene.until(lambda: scene.over(move))
    assert scene.reason(move) == "GateTimeout"
    assert f"the API server refuses what the hand-over needs: {code} Frozen" in scene.state(move)["message"]
    assert len(scene.calls.of(chosen)) < 25, "each try waits longer than the one before"
