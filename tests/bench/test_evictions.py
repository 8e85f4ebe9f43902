"""The judge of evictions sees each way in which a pod is evicted without a room."""

import copy

import pytest
from click.testing import CliRunner

from bench.evictions import Watched, judge
from bench.faults import main

ROOM = {
    "kind": "Reservation",
    "metadata": {"uid": "room", "name": "room"},
    "status": {"phase": "Available", "nodeName": "n2"},
}
HOLDER = {
    "kind": "Pod",
    "metadata": {
        "uid": "holder",
        "name": "holder",
        "namespace": "rescheduler",
        "ownerReferences": [{"uid": "room"}],
    },
    "spec": {"nodeName": "n2"},
}
MOVE = {
    "kind": "PodMigration",
    "metadata": {"uid": "move", "name": "move", "namespace": "shop"},
    "spec": {"podRef": {"name": "web", "uid": "web"}},
    "status": {"evictionRequestedAt": "2026-01-01T00:00:00Z", "reservationUid": "room"},
}
POD = {"kind": "Pod", "metadata": {"uid": "web", "name": "web", "namespace": "shop"}, "spec": {}}
ENDING = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:01Z"}}


def merged(base, change):
    found = copy.deepcopy(base)
    for key, value in change.items():
        found[key] = merged(found.get(key) or {}, value) if isinstance(value, dict) else value
    return found


def story(*events):
    """Each event: (version, type, object)."""
    watched = Watched()
    for version, kind, found in events:
        stamped = merged(found, {"metadata": {"resourceVersion": str(version)}})
        watched.take({"type": kind, "object": stamped})
    return judge(watched, "shop")


BEFORE = [(1, "ADDED", ROOM), (2, "ADDED", HOLDER), (3, "ADDED", MOVE), (4, "ADDED", POD)]
EVICTED = (10, "MODIFIED", merged(POD, ENDING))


def test_an_eviction_for_an_available_room_is_right_whatever_comes_later():
    claimed = merged(ROOM, {"status": {"currentOwners": [{"uid": "new"}]}})
    verdict = story(*BEFORE, EVICTED, (11, "MODIFIED", claimed), (12, "DELETED", HOLDER))
    assert (verdict.evicted, verdict.without_room) == (1, ())


@pytest.mark.parametrize(
    ("meanwhile", "words"),
    [
        ((5, "DELETED", HOLDER), "no placeholder stood"),
        ((5, "MODIFIED", merged(HOLDER, ENDING)), "no placeholder stood"),
        ((5, "MODIFIED", merged(HOLDER, {"spec": {"nodeName": "n3"}})), "no placeholder stood"),
        ((5, "DELETED", ROOM), "the room was absent"),
        ((5, "MODIFIED", merged(ROOM, {"status": {"phase": "Waiting"}})), "the room was Waiting"),
        ((5, "MODIFIED", merged(ROOM, {"status": {"currentOwners": [{"uid": "x"}]}})), "the room was"),
        ((5, "MODIFIED", merged(MOVE, {"status": {"evictionRequestedAt": ""}})), "no intent was written"),
        ((5, "DELETED", MOVE), "no intent was written"),
    ],
)
def test_what_was_missing_at_the_eviction_is_told(meanwhile, words):
    (told,) = story(*BEFORE, meanwhile, EVICTED).without_room
    assert told.startswith("web: ")
    assert words in told


def test_a_pod_that_vanishes_without_a_move_was_evicted_into_the_void():
    (told,) = story((4, "ADDED", POD), (10, "DELETED", POD)).without_room
    assert told == "web: no move"


def test_pods_of_others_are_not_judged():
    assert story((2, "ADDED", HOLDER), (3, "DELETED", HOLDER)).evicted == 0


@pytest.mark.parametrize("command", ["turns", "leaders"])
def test_the_commands_say_what_they_do(command):
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0
