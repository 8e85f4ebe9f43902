"""ReservationWindows from their making to their end: the program at work on the sandbox, in virtual time."""

from window_scene import HEAD_ROOM, NODE, OWNERS, WINDOW, WindowScene, template

from harness.histories.program import QUIET
from kube_sandbox.controllers.unstructured import POD, annotations_of, spec, status
from rescheduler.model.names import LABEL_PLACEHOLDER, MAXIMUM_RUNTIME
from rescheduler.room_sets import windows
from rescheduler.room_sets.rooms import MOST_AT_ONCE


def labels_of(obj):
    return obj["metadata"].get("labels") or {}


def placeholders(scene):
    return [p for p in scene.api.list(POD) if LABEL_PLACEHOLDER in labels_of(p)]


def opened(scene, **more):
    scene.window(**more)
    scene.until(lambda: scene.phase() == "Open", 240)
    return scene


def test_room_is_gathered_before_the_start_used_at_once_and_given_back_when_filled():
    scene = WindowScene()
    scene.window()
    scene.advance(3)
    assert scene.phase() == "Waiting"
    assert scene.live() == []
    scene.until(lambda: scene.phase() == "Gathering")
    scene.advance(5)
    assert scene.state()["rooms"] == "2/2"
    assert len(scene.state()["nodes"]) == 1, "one big node rather than pieces of several"
    scene.until(lambda: scene.phase() == "Open")
    scene.owner("a")
    scene.advance(5)
    assert scene.node_of("a") == scene.state()["nodes"][0]
    assert (scene.phase(), scene.state()["placed"], scene.state()["rooms"]) == ("Open", 1, "1/1")
    scene.owner("b")
    scene.until(lambda: scene.phase() == "Filled", 20)
    assert scene.live() == []
    scene.advance(5)
    assert placeholders(scene) == []
    scene.advance(3600)
    assert (scene.phase(), scene.state()["placed"]) == ("Waiting", 0)
    assert scene.told("Gathering")
    assert scene.told("Opened")
    assert scene.told("Filled")
    assert scene.told("Closed")
    assert scene.program.events.damaged == []


def test_what_is_not_used_is_given_back_at_the_end():
    scene = opened(WindowScene(), duration="10m")
    assert len(scene.live()) == 2
    scene.until(lambda: scene.phase() == "Waiting", 700)
    scene.advance(10)
    assert scene.live() == []
    assert placeholders(scene) == []


def test_what_is_not_used_is_given_back_with_the_window():
    scene = opened(WindowScene())
    scene.api.delete(scene.api.get(WINDOW, "", "nightly"))
    scene.advance(10)
    assert scene.live() == []
    assert placeholders(scene) == []


def test_a_suspended_window_gives_everything_back():
    scene = opened(WindowScene())
    scene.change(suspend=True)
    scene.until(lambda: scene.phase() == "Suspended", 10)
    scene.advance(5)
    assert scene.live() == []


def test_pods_that_run_are_left_alone_and_what_they_leave_is_kept():
    scene = WindowScene(nodes=2, cpu="4")
    for number, run_s in enumerate((480, 500, 3000, 3000)):
        notes = {MAXIMUM_RUNTIME: f"{run_s}s"}
        scene.pod(f"job-{number}", run_s=run_s, annotations=notes, restartPolicy="Never")
    for number in range(4):
        scene.pod(f"queued-{number}", run_s=3000, restartPolicy="Never")
    scene.advance(5)
    first = scene.node_of("job-0")
    scene.window(cron=scene.cron_in(600), startReserveAgo="9m")
    scene.until(lambda: scene.phase() == "Gathering")
    scene.advance(5)
    rooms = {spec(r)["template"]["spec"].get("nodeName", "") for r in scene.live()}
    assert first in rooms, "where a pod has declared to end in time"
    scene.until(lambda: scene.phase() == "Open")
    assert scene.state()["gathered"] == 2
    assert all(scene.api.get(POD, "default", f"job-{n}") for n in (2, 3)), "nobody is preempted"
    assert [scene.node_of(f"queued-{n}") for n in range(4)] == ["", "", "", ""]


def test_nothing_is_written_while_nothing_happens():
    scene = WindowScene()
    scene.window(cron=scene.cron_in(600), duration="3600.5s", startReserveAgo="299.9s")
    scene.head_room()
    for phase in ("Waiting", "Gathering", "Open"):
        scene.until(lambda now=phase: scene.phase() == now)
        scene.advance(20)
        before = versions(scene)
        scene.advance(120)
        assert versions(scene) == before, phase
    assert len(scene.rooms()) == 4


def versions(scene):
    kinds = {WINDOW: "nightly", HEAD_ROOM: "spare"}
    return [scene.api.get(kind, "", name)["metadata"]["resourceVersion"] for kind, name in kinds.items()]


def test_a_sum_is_held_in_few_big_rooms_that_pods_of_any_size_share():
    scene = opened(WindowScene(nodes=3, cpu="8"), resources={"cpu": "12", "memory": "1Gi"}, podNumToReserve=6)
    scene.advance(5)
    assert scene.state()["rooms"] == "6/6"
    held = [
        spec(r)["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] for r in scene.live()
    ]
    assert sorted(held) in (["4", "8"], ["6", "6"])
    scene.owner("large", "3")
    scene.advance(6)
    assert scene.node_of("large")
    assert scene.state()["placed"] == 1


def test_pods_that_ran_before_the_window_was_written_are_not_its_pods():
    scene = WindowScene()
    for name in ("before", "also-before"):
        scene.owner(name)
    scene.until(lambda: scene.node_of("also-before"))
    scene.advance(60)
    scene.window(cron=scene.cron_in(600), startReserveAgo="2h")
    scene.until(lambda: scene.state().get("rooms") == "2/2")
    assert (scene.phase(), scene.state()["placed"]) == ("Gathering", 0)
    scene.owner("since")
    scene.until(lambda: scene.state()["placed"] == 1)


def test_pods_of_the_seed_need_no_owners_in_the_spec():
    scene = WindowScene()
    scene.window(owners=None)
    scene.until(lambda: scene.phase() == "Open", 240)
    scene.pod("mine", labels={"volcano.sh/reserveable": "true"})
    scene.advance(5)
    assert scene.state()["placed"] == 1


def test_the_hour_range_of_the_seed():
    scene = WindowScene()
    minute, hour, *_ = scene.cron_in(150).split()
    scene.window(cron=f"{minute} {hour} - {int(hour) + 1} * * *", duration=None)
    scene.until(lambda: scene.phase() == "Open", 240)
    assert scene.state()["end"][11:16] == f"{int(hour) + 1:02}:{int(minute):02}"


def test_a_changed_spec_is_followed_in_the_middle():
    scene = opened(WindowScene())
    scene.change(podNumToReserve=3, template=template("1"))
    scene.advance(10)
    assert scene.state()["rooms"] == "3/3"
    assert len(scene.live()) == 3
    scene.change(podNumToReserve=1)
    scene.advance(10)
    assert len(scene.live()) == 1


def test_a_wrong_zone_is_said_and_holds_nothing_until_it_is_mended():
    scene = WindowScene()
    scene.window(timeZone="Europe/Berlim")
    scene.advance(5)
    assert scene.phase() == "Invalid"
    (valid,) = [c for c in scene.state()["conditions"] if c["type"] == "Valid"]
    assert valid["status"] == "False"
    assert "Europe/Berlim" in valid["message"]
    assert scene.told("Invalid")
    scene.change(timeZone="Europe/Berlin")
    scene.advance(5)
    assert scene.phase() == "Waiting"


def test_a_controller_that_was_away_goes_on_in_the_middle_and_makes_nothing_up():
    scene = WindowScene()
    scene.window(duration="20m")
    scene.advance(5)
    scene.program.frozen = True
    scene.advance(700)
    scene.program.frozen = False
    scene.until(lambda: scene.phase() == "Open", 60)
    scene.until(lambda: scene.state()["rooms"] == "2/2", 30)
    scene.until(lambda: scene.phase() == "Waiting", 1300)
    start = scene.state()["start"]
    scene.program.frozen = True
    scene.advance(86_400 + 1200)
    scene.program.frozen = False
    scene.until(lambda: scene.told("Missed"), 60)
    assert scene.phase() == "Waiting"
    assert scene.state()["start"] > start


def test_kills_at_any_moment_leave_nothing_twice_and_nothing_behind():
    scene = WindowScene()
    scene.window(podNumToReserve=4, duration="10m")
    scene.until(lambda: scene.phase() == "Gathering")
    for _ in range(12):
        scene.program.kill()
        scene.advance(1.7)
        assert len(scene.live()) <= 4
    scene.until(lambda: scene.state()["rooms"] == "4/4", 60)
    scene.until(lambda: scene.phase() == "Waiting", 1300)
    scene.advance(30)
    assert scene.live() == []
    assert placeholders(scene) == []


def test_two_windows_for_the_same_pods_add_up():
    scene = WindowScene()
    scene.window("one")
    scene.window("two")
    scene.until(lambda: scene.phase("one") == "Open" and scene.phase("two") == "Open", 240)
    scene.advance(5)
    assert len(scene.live()) == 4
    assert {r["metadata"]["ownerReferences"][0]["name"] for r in scene.live()} == {"one", "two"}


def test_a_node_that_goes_is_replaced_by_another():
    scene = opened(WindowScene())
    scene.advance(5)
    (node,) = scene.state()["nodes"]
    scene.api.delete(scene.api.get(NODE, "", node))
    scene.until(lambda: scene.state()["rooms"] == "2/2" and node not in scene.state()["nodes"], 120)


def test_a_template_that_is_no_pod_is_said_and_not_tried_for_ever():
    scene = opened(WindowScene(), template={
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"gpu": "1"}}}]},
    })  # fmt: skip
    scene.advance(30)
    (told,) = [c for c in scene.state()["conditions"] if c["type"] == "Gathered"]
    assert told["reason"] == "Invalid"
    assert len(scene.rooms()) <= 2


def test_a_room_of_a_window_says_what_it_is_for():
    scene = opened(WindowScene())
    room = scene.live()[0]
    window = scene.api.get(WINDOW, "", "nightly")
    assert labels_of(room)["rescheduler.dev/room-of"] == window["metadata"]["uid"]
    assert annotations_of(room)["rescheduler.dev/room-recipe"]
    assert spec(room)["owners"] == OWNERS
    assert spec(room)["expires"] == status(window)["end"]


def test_a_window_of_which_the_controller_crashes_stops_no_other(monkeypatch):
    whole = windows.step

    def step(observed, now_s):
        if observed.window.name == "broken":
            raise RuntimeError("a defect")
        return whole(observed, now_s)

    monkeypatch.setattr(windows, "step", step)
    scene = WindowScene()
    scene.window("broken")
    scene.window("nightly")
    scene.head_room()
    scene.until(lambda: scene.phase() == "Open", 240)
    assert scene.state()["rooms"] == "2/2"
    assert scene.state("spare", HEAD_ROOM)["rooms"] == "2/2"
    assert scene.program.events.damaged
    assert set(scene.program.events.damaged) == {"a step of ReservationWindow crashed"}
    monkeypatch.undo()
    scene.until(lambda: scene.phase("broken") == "Open", 60)


SHARE = QUIET + b'reservations: {shares: {"*": {reservations: 20}}}\n'


def test_many_windows_of_one_namespace_make_hardly_more_rooms_than_its_share():
    """Each asks for as many as it may. Before the first room is found to be beyond the share, all would have made theirs."""
    scene = WindowScene(document=SHARE)
    names = [f"w{number}" for number in range(8)]
    for name in names:
        scene.window(name, template=template("10m"), podNumToReserve=256, startReserveAgo="24h")
    scene.advance(60.0)
    assert 20 <= len(scene.rooms()) <= 20 + MOST_AT_ONCE + len(names)
    assert len(scene.live()) == len(scene.rooms())
    told = {label for room in scene.rooms() if (label := room["metadata"]["ownerReferences"][0]["name"])}
    assert told == set(names), "each has a room that says why there are no more"
