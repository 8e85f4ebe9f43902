"""An API server that carries out what it does not confirm: slow storage, a proxy that gives up, an answer that is cut off.

Only a refusal proves that nothing was written. Until the cache shows what became of a call, what it may have written counts.
"""

import pytest
from scenes import Scene, refusal

from rescheduler.kube.transport import Response
from rescheduler.model.kinds import Kind

JSON = {"content-type": "application/json"}
LATE_S = 2.5
"""For so long watches show nothing: where storage is slow, events are late, too."""
ANSWERS = {
    "500 of a slow storage": refusal(500, "InternalError"),
    "503 of a proxy": Response(503, b"upstream connect error or disconnect/reset before headers", {}),
    "404 of a proxy": Response(404, b"404 page not found\n", {"content-type": "text/plain"}),
    "404 of no object": refusal(404, "NotFound"),
    "504": refusal(504, "Timeout"),
    "504 of a proxy": Response(504, b"<html>Gateway Time-out</html>", {}),
    "a page": Response(200, b"<html>one moment</html>", {"content-type": "text/html"}),
    "cut off": Response(201, b'{"kind": "Status", "status": "Suc', JSON),
    "another shape": Response(201, b'{"metadata": 5}', JSON),
}


def carried_out(scene, chosen, answer, *, times=1):
    """The first such calls are carried out, but answered so; all watches of pods are late from then on."""
    done = []

    def send(call):
        if len(done) >= times:
            return None
        done.append(call)
        scene.program.caches.stall(Kind.POD, scene.now_s + LATE_S)
        scene.calls.transport.send(scene.calls.request)
        return answer

    scene.calls.answer(chosen, send)
    return done


def at_work(kind="Deployment"):
    scene = Scene({"n1": 4, "n2": 4, "n3": 4}).workload(kind, "web", ["n1", "n1"])
    scene.start()
    scene.advance(5.0)
    return scene


def landed_and_left_nothing(scene, move):
    assert (scene.phase(move), scene.reason(move)) == ("Succeeded", "Landed"), scene.state(move)
    assert [len(scene.on(n)) for n in ("n1", "n2", "n3")] == [1, 1, 0]
    scene.advance(20.0)
    assert scene.leftovers() == []
    assert scene.faults == []


@pytest.mark.crossed
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_an_eviction_that_is_not_confirmed_gets_its_room(kind, answer):
    scene = at_work(kind)
    done = carried_out(scene, lambda c: c.evicts, answer)
    move = scene.move(scene.ready("web")[0], "n2")
    scene.until(lambda: scene.over(move))
    assert done
    landed_and_left_nothing(scene, move)


WRITES = {
    "the Reservation": lambda c: c.method == "POST" and c.path.endswith("/reservations"),
    "the placeholder": lambda c: c.method == "POST" and c.path.endswith("/rescheduler/pods") and not c.dry,
    "gate keys": lambda c: c.method == "PATCH" and c.path.endswith("/configmaps/gate-keys"),
    "past moves": lambda c: c.method == "PATCH" and c.path.endswith("/configmaps/move-history"),
    "a dry-run creation": lambda c: c.tries_creation,
    "a proof of the gate": lambda c: c.proves_gate,
    "a rehearsal": lambda c: c.rehearses,
    "the intent": lambda c: c.intends,
    "the claim": lambda c: (
        "/reservations/" in c.path and c.method == "PUT" and (c.body.get("status") or {}).get("currentOwners")
    ),
    "the nomination": lambda c: c.path.endswith("/status") and "/default/pods/" in c.path,
    "the placeholder's end": lambda c: c.method == "DELETE" and "/rescheduler/pods/" in c.path,
    "the release": lambda c: c.method == "PATCH" and "/default/pods/" in c.path and "/status" not in c.path,
    "any write": lambda c: c.writes,
}


@pytest.mark.crossed
@pytest.mark.parametrize("answer", ["504", "cut off", "another shape"])
@pytest.mark.parametrize("chosen", WRITES)
def test_no_step_of_a_move_relies_on_an_answer_that_proves_nothing(chosen, answer):
    scene = at_work()
    scene.budget(maxUnavailable=1)
    done = carried_out(scene, WRITES[chosen], ANSWERS[answer], times=3)
    move = scene.move(scene.ready("web")[0], "n2")
    scene.until(lambda: scene.over(move))
    assert done
    landed_and_left_nothing(scene, move)
    assert scene.program.events.damaged == [], "what a server answers is no crash of ours"
