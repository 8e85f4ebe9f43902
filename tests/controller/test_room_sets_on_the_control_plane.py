"""Windows and head-rooms as people see them: what kubectl prints, what Events say, and what becomes of a used room and a lost node."""

import time

import pytest
from test_windows_on_both_clusters import GROUP, make, mine, owner, rooms, template

from harness.controlplane.world import World

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
pytestmark = pytest.mark.realcluster


def told(world, kind, name):
    """Reason -> note of the Events of one object."""
    found = world.api.get(EVENTS).items
    return {
        e["reason"]: e["note"]
        for e in found
        if (e["regarding"]["kind"], e["regarding"]["name"]) == (kind, name)
    }


def test_kubectl_and_events_tell_the_life_of_a_window(control_plane, controller, table):
    with World(control_plane.api(), "told") as world:
        node = world.node("night", cpu="4", labels={"pool": "told"})
        at = time.gmtime(time.time() + 65)
        cron = f"{at.tm_min} {at.tm_hour} * * *"
        spec = {"cron": cron, "duration": "2m", "startReserveAgo": "3m", "podNumToReserve": 1}
        look = make(
            world,
            "ReservationWindow",
            "reservationwindows",
            world.namespace,
            {**spec, "template": template("told"), "owners": mine(world)},
        )
        path = f"reservationwindows/{world.namespace}"
        try:
            world.wait(lambda: look().get("phase") == "Open" and look().get("rooms") == "1/1", 75)
            assert look()["nodes"] == [node]
            (seen,) = table(f"{GROUP}/{path}")
            assert set(seen) == {"Name", "Schedule", "Next Start", "Phase", "Gathered", "Placed", "Age"}
            assert seen["Next Start"] == f"{look()['start']}"
            assert (seen["Schedule"], seen["Phase"], seen["Gathered"], seen["Placed"]) == (
                cron, "Open", "1/1", 0,
            )  # fmt: skip
            start, end = look()["start"], look()["end"]
            owner(world, "a", "told")
            world.wait(lambda: look().get("phase") == "Filled", 30)
            (filled,) = table(f"{GROUP}/{path}")
            assert (filled["Phase"], filled["Gathered"], filled["Placed"]) == ("Filled", "0/0", 1)
            events = world.wait(
                lambda: (e := told(world, "ReservationWindow", world.namespace)) and "Filled" in e and e, 20
            )
            assert events["Gathering"] == f"gathers 1 room until {start}"
            assert events["Opened"] == f"open until {end}: 1 of 1 rooms are held"
            assert events["Filled"] == "1 pod was placed; the rest is given back"
        finally:
            world.api.delete(f"{GROUP}/{path}").expect()
        world.wait(lambda: not rooms(world, world.namespace), 30)
