"""The log says what became of every move and room: one line each, with pod, from, to, why and by whom."""

import pytest
from scenes import Scene
from structlog.testing import capture_logs

from rescheduler.calls.objects import write_status
from rescheduler.controller.effects import NO_EFFECT
from rescheduler.controller.move_log import MoveLog
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode, PodMigration
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY

NODES = {"n1": 4, "n2": 4}
RESERVED, EVICTED = "The room is reserved", "The pod is evicted"
LANDED, FAILED = "The replacement has landed", "The move has failed"
BACK = "The room is given back"


def told(lines):
    """The lines of moves and rooms, in order."""
    ours = (RESERVED, EVICTED, LANDED, FAILED, BACK, "The room is claimed", "The room is used")
    return [line for line in lines if line["event"] in ours]


@pytest.fixture
def scene():
    scene = Scene(NODES).workload("Deployment", "web", ["n1", "n1"])
    scene.start()
    return scene


def test_a_move_that_lands(scene):
    pod = scene.ready("web")[0]["metadata"]["name"]
    with capture_logs() as lines:
        name = scene.move(scene.ready("web")[0], "n2", reason="n1 is being replaced")
        assert scene.until(lambda: scene.over(name))
        scene.advance(30.0)
    found = told(lines)
    assert [line["event"] for line in found] == [RESERVED, EVICTED, LANDED]
    for line in found:
        facts = {key: line.get(key) for key in ("pod", "from", "to", "why", "by")}
        assert facts == {
            "pod": f"default/{pod}",
            "from": "n1",
            "to": "n2",
            "why": "n1 is being replaced",
            "by": "user sandbox-admin",
        }
    assert found[-1]["replacement"] != pod


def test_a_move_that_fails_gives_its_room_back(scene):
    scene.budget(maxUnavailable=1)
    scene.refuse(403, "Forbidden", lambda call: call.rehearses)
    with capture_logs() as lines:
        name = scene.move(scene.ready("web")[0], "n2", ttl="20s")
        assert scene.until(lambda: scene.over(name))
        scene.advance(30.0)
    found = told(lines)
    assert [line["event"] for line in found] == [RESERVED, FAILED, BACK]
    failed, back = found[1:]
    assert (failed["reason"], failed["to"]) == (scene.state(name)["reason"], "n2")
    assert back["to"] == "n2"
    assert failed["pod"] in back["why"]
    assert back["room"] == failed["room"]


def test_a_move_that_fails_before_it_reserves_says_from_where(scene):
    with capture_logs() as lines:
        name = scene.move(scene.ready("web")[0], "nowhere", ttl="5s")
        assert scene.until(lambda: scene.over(name))
    (failed,) = told(lines)
    assert (failed["event"], failed["from"], failed["to"]) == (FAILED, "n1", "nowhere")


def test_rooms_that_people_reserve(scene):
    with capture_logs() as lines:
        room = scene.held_room(node="n2", ttl="30s")
        assert scene.until(lambda: scene.over(room))
        other = scene.held_room("other", node="n2")
        scene.scale(3)
        assert scene.until(lambda: scene.over(other))
        scene.advance(30.0)
    events = [(line["event"], line["room"], line.get("why")) for line in told(lines)]
    assert events == [
        (RESERVED, room, None),
        (BACK, room, "Expired"),
        (RESERVED, other, None),
        ("The room is claimed", other, None),
        ("The room is used", other, None),
    ]


def test_it_says_which_policy_and_repeats_nothing():
    seen = PodMigration(
        namespace="shop", name="m", pod_name="web-1", policy="NodeTaints", reason="a taint",
        labels={LABEL_CREATED_BY: CREATED_BY},
    )  # fmt: skip
    begun = MigrationStatus(phase=MigrationPhase.RESERVING, mode=MoveMode.START_FIRST)
    ready = MigrationStatus(phase=MigrationPhase.EVICTING, mode=MoveMode.START_FIRST, reserved_at_s=1.0)
    with capture_logs() as lines:
        log = MoveLog()
        for before, after in ((begun, ready), (ready, ready)):
            log(write_status(_with(seen, before), after), NO_EFFECT)
    (line,) = lines
    assert (line["event"], line["by"]) == ("The replacement is Ready", "policy NodeTaints")


def _with(seen, status):
    return PodMigration(
        **{f: getattr(seen, f) for f in seen.__struct_fields__ if f != "status"}, status=status
    )
