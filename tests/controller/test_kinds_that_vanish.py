"""What is not served now is unknown, not empty: nothing is decided and no step is taken until it is seen again."""

import pytest
from scenes import MOVE, ROOM, Response, Scene

from rescheduler.kube.reflector import EndKind
from rescheduler.model.kinds import Kind
from rescheduler.model.names import GATE

PLAIN = Response(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})
OWN = {Kind.POD_MIGRATION: MOVE, Kind.RESERVATION: ROOM}


@pytest.fixture
def scene():
    return Scene({"n1": 4, "n2": 4, "n3": 4}).workload("Deployment", "web", ["n1", "n1"])


def intended(scene, name):
    return scene.until(lambda: bool((scene.get_move(name).get("status") or {}).get("evictionRequestedAt")))


@pytest.mark.crossed
@pytest.mark.parametrize("kind", [*OWN, Kind.REPLICA_SET, Kind.NODE])
@pytest.mark.parametrize("at", ["reserved", "intended"])
def test_a_404_of_a_proxy_in_the_middle_of_a_move_costs_only_time(scene, kind, at):
    scene.start()
    name = scene.move(scene.ready()[0], "n2")
    if at == "reserved":
        scene.until(lambda: bool(scene.placeholders()))
    else:
        intended(scene, name)
    caches = scene.program.caches
    caches.unserve(kind, scene.now_s + 8.0, EndKind.UNPROVEN)
    scene.advance(1.0)
    since_s = scene.now_s
    assert not scene.program.loop.ready().ok
    assert "was served and is not now" in scene.program.loop.ready().reason
    scene.advance(5.0)
    assert scene.calls.of(lambda c: c.writes, since_s) == []
    scene.until(lambda: scene.over(name))
    assert (scene.phase(name), scene.reason(name)) == ("Succeeded", "Landed"), scene.state(name)
    scene.advance(20.0)
    assert scene.leftovers() == []
    assert scene.faults == []


@pytest.mark.parametrize("kind", OWN)
def test_an_empty_list_after_a_full_one_is_confirmed_before_anything_depends_on_it(scene, kind):
    scene.start()
    name = scene.move(scene.ready()[0], "n2")
    intended(scene, name)
    scene.program.caches.empty(kind, 1)
    scene.until(lambda: scene.over(name))
    assert (scene.phase(name), scene.reason(name)) == ("Succeeded", "Landed"), scene.state(name)
    assert scene.faults == []


def test_pods_are_not_held_beyond_their_limit_while_rooms_are_unknown(scene):
    scene.start()
    name = scene.move(scene.ready()[0], "n2")

    def gated():
        return [p for p in scene.pods() if {"name": GATE} in (p["spec"].get("schedulingGates") or [])]

    scene.until(lambda: bool(gated()))
    (held,) = gated()
    for kind in OWN:
        scene.program.caches.unserve(kind, scene.now_s + 1_000.0, EndKind.ABSENT)
    scene.advance(30.0)
    assert [p["metadata"]["uid"] for p in gated()] == [held["metadata"]["uid"]]
    scene.until(lambda: not gated(), 60.0)
    assert not gated()
    assert not scene.over(name), "nothing else is done for it"


WRITES = {
    "eviction": lambda c: c.evicts,
    "rehearsal": lambda c: c.rehearses,
    "placeholder's end": lambda c: c.method == "DELETE" and "/rescheduler/pods/" in c.path,
    "nomination": lambda c: c.path.endswith("/status") and "/default/pods/" in c.path,
    "release": lambda c: c.method == "PATCH" and "/default/pods/" in c.path and "/status" not in c.path,
    "status of the move": lambda c: c.method == "PUT" and "/podmigrations/" in c.path,
    "status of the room": lambda c: c.method == "PUT" and "/reservations/" in c.path,
    "gate keys": lambda c: c.method == "PATCH" and c.path.endswith("/configmaps/gate-keys"),
    "read": lambda c: c.method == "GET" and "/configmaps/" in c.path,
    "template": lambda c: c.method == "GET" and "/replicasets/" in c.path,
}


@pytest.mark.parametrize("chosen", WRITES)
def test_a_404_that_names_no_object_is_no_answer_to_any_call(scene, chosen):
    scene.budget(maxUnavailable=1)
    scene.start()
    met = []

    def refuse(call):
        met.append(call)
        return PLAIN if len(met) <= 3 else None

    scene.calls.answer(WRITES[chosen], refuse)
    name = scene.move(scene.ready()[0], "n2")
    scene.until(lambda: scene.over(name))
    assert len(met) > 3
    assert (scene.phase(name), scene.reason(name)) == ("Succeeded", "Landed"), scene.state(name)
    assert [len(scene.on(n)) for n in ("n1", "n2", "n3")] == [1, 1, 0]
    scene.advance(20.0)
    assert scene.leftovers() == []
    assert scene.faults == []
