"""Objects of which a field cannot be read, through the assembled controller: they hold what they hold, and come back."""

import msgspec
import pytest
from scenes import Scene

from kube_sandbox.controllers.unstructured import POD, meta
from rescheduler.model.decode import Decoder

TTL = {"spec": {"ttl": "9999999999h"}}
OWNERS = {"spec": {"owners": "everybody"}}
STATUS = {"status": {"conditions": 7}}


def merged(into, change):
    both = {**into, **change}
    return {
        k: merged(into[k], v) if isinstance(v, dict) and isinstance(into.get(k), dict) else v
        for k, v in both.items()
    }


class Spoiling:
    """A decoder that finds in objects what their schema forbids, as in objects that are older than the schema."""

    def __init__(self):
        self.real, self.changes = Decoder(), {}

    def _text(self, text):
        obj = msgspec.json.decode(bytes(text))
        return msgspec.json.encode(merged(obj, self.changes.get(obj["metadata"]["name"], {})))

    def attempt(self, kind, text):
        return self.real.attempt(kind, self._text(text))

    def stand_in(self, kind, text):
        return self.real.stand_in(kind, self._text(text))


@pytest.fixture
def scene():
    return Scene({"n1": 2, "n2": 1, "n3": 2}).workload(nodes=["n1"])


@pytest.fixture
def spoil(scene):
    spoiling = Spoiling()

    def change(name, kind, damage):
        """Let the program read another text of the object from now on."""
        spoiling.changes[name] = damage
        program = scene.program
        for watch in program.caches.watches():
            watch._decoder = spoiling
        program.caches._decoder = spoiling
        obj = next(o for o in scene.api.everything() if o["kind"] == kind and meta(o)["name"] == name)
        scene.api.patch(obj, {"metadata": {"annotations": {"example.com/text": str(damage)}}})

    return change


def readable(scene, name):
    found = [c for c in scene.state(name).get("conditions") or () if c["type"] == "Readable"]
    return found[0]["status"] if found else None


@pytest.mark.parametrize("damage", [TTL, OWNERS], ids=["ttl", "owners"])
def test_a_reservation_that_cannot_be_read_keeps_its_room_and_goes_on_when_it_is_mended(scene, spoil, damage):
    program = scene.start()
    scene.held_room(node="n2", ttl="30s")
    spoil("room", "Reservation", damage)
    scene.until(lambda: readable(scene, "room") == "False")
    scene.crowd(3)
    scene.advance(60.0)
    assert scene.phase("room") == "Available"
    assert len(scene.placeholders()) == 1
    assert not [
        pod
        for pod in scene.api.list(POD)
        if pod["spec"].get("nodeName") == "n2" and pod not in scene.placeholders()
    ]
    assert sum(event.startswith("Damaged: no step is taken") for event in program.events.told) == 1
    program.events.damaged.clear()
    spoil("room", "Reservation", {})
    scene.until(lambda: scene.phase("room") == "Failed")  # its time is over
    scene.until(lambda: not scene.placeholders())


def test_a_reservation_whose_status_cannot_be_read_is_not_overwritten(scene, spoil):
    program = scene.start()
    scene.held_room(node="n2")
    spoil("room", "Reservation", STATUS)
    scene.advance(5.0)
    before = scene.state("room")
    scene.advance(60.0)
    assert scene.state("room") == before
    assert len(scene.placeholders()) == 1
    assert any(event.startswith("Damaged: ") for event in program.events.told)
    spoil("room", "Reservation", {})
    scene.advance(2.0)  # an unreadable room gates nobody, so its owner is in the gate again first
    scene.scale(2)
    scene.until(lambda: scene.phase("room") == "Succeeded")
    assert len(scene.on("n2")) == 1


def test_a_reservation_that_was_never_readable_is_seen_when_it_is_mended(scene, spoil):
    scene.start()
    scene.room("first", node="n3")
    spoil("first", "Reservation", TTL)
    scene.program.kill()
    scene.until(lambda: readable(scene, "first") == "False")
    spoil("first", "Reservation", {})
    scene.until(lambda: scene.phase("first") == "Available")
    assert readable(scene, "first") == "True"


def test_a_move_that_cannot_be_read_rests_and_goes_on_when_it_is_mended(scene, spoil):
    scene.start()
    name = scene.move(scene.pods()[0], "n2")
    spoil(name, "PodMigration", {"spec": {"ttl": "9999999999h"}})
    scene.until(lambda: readable(scene, name) == "False")
    scene.advance(30.0)
    assert not scene.calls.of(lambda c: c.evicts)
    other = scene.move(scene.pods()[0], "n3", name="other")
    scene.advance(10.0)
    spoil(name, "PodMigration", {})
    scene.until(lambda: scene.over(name, other))
    assert "Succeeded" in (scene.phase(name), scene.phase(other))


def test_the_unreadable_reservations_of_one_do_not_keep_others_waiting(scene, spoil):
    scene.start()
    for number in range(5):
        scene.room(f"bad-{number}", node="n3", cpu="1")
        spoil(
            f"bad-{number}", "Reservation", {"spec": {"template": {"metadata": {"namespace": 5}}, "ttl": "x"}}
        )
    name = scene.move(scene.pods()[0], "n2")
    scene.succeed(name)
