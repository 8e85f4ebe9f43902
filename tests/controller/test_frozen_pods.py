"""Admission that refuses changes of the pods of a namespace: no pod is evicted for it, and who waits at the gate is told why."""

from scenes import Scene

from rescheduler.model.names import GATE


def frozen():
    scene = Scene({"n1": 4, "n2": 4})
    scene.workload(nodes=("n1",))
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
    assert "the hand-over could not change it: 403 Frozen" in scene.state(move)["message"]
    assert [found["metadata"]["uid"] for found in scene.on("n1")] == [pod["metadata"]["uid"]]
    assert not scene.leftovers()


def test_who_waits_at_the_gate_for_the_room_of_somebody_is_told_why_and_goes_as_soon_as_it_may():
    scene, thaw = frozen()
    room = scene.room("held", node="n2")
    scene.until(lambda: scene.phase(room) == "Available")
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
