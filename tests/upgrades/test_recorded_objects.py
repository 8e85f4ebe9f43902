"""What earlier versions have stored is taken over at every step of a move: the pod lands in the room that was held.

Each moment of each recording (``harness.recorded``) is restored, and the controller of this version starts on it, as
after an upgrade in the middle. From the moment at which room is held, a crowd waits for it. CI plays every eighth moment,
``make nightly`` all of them.
"""

import os
import random
from pathlib import Path

import pytest

from harness.histories.program import QUIET, Program, ProgramOptions
from harness.recorded.recording import decode
from harness.recorded.restoring import restore
from kube_sandbox.controllers.unstructured import POD, GroupKind, deleting, labels, ready, spec, status, uid
from rescheduler.model.names import GATE, GATE_CONFIG_MAP, LABEL_PLACEHOLDER

FOLDER = Path(__file__).parent / "recorded"
RECORDINGS = sorted(path for path in FOLDER.rglob("*.jsonl") if path.stem != "rooms")
ROOMS = sorted(FOLDER.rglob("rooms.jsonl"))
EVERY = 1 if os.environ.get("RESCHEDULER_EXAMPLES") else 8


def moments_of(recordings):
    return [
        pytest.param(moment, id=f"{path.parent.name}-{path.stem}-{index}")
        for path in recordings
        for index, moment in enumerate(decode(path.read_text(encoding="utf-8").splitlines()))
        if index % EVERY == 0
    ]


MOVE = GroupKind("rescheduler.dev", "PodMigration")
ROOM = GroupKind("rescheduler.dev", "Reservation")
HEAD_ROOM = GroupKind("rescheduler.dev", "HeadRoom")
CONFIG_MAP = GroupKind("", "ConfigMap")
TARGET = "b"
LIMIT_S = 120


def crowd(sandbox):
    """Pods that fit where the moved pod was, and would fit into its room, but not beside it."""
    for index in range(4):
        resources = {"requests": {"cpu": "1500m"}}
        sandbox.api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"crowd-{index}", "namespace": "default", "labels": {"app": "crowd"}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
            }
        )


def moved(sandbox):
    return [p for p in sandbox.api.list(POD) if labels(p).get("app") == "web" and not deleting(p)]


def room_held(moment):
    return any(status(r).get("phase") in ("Available", "Succeeded") for r in moment.of_kind("Reservation"))


def gate_left_behind(moment):
    """The pod is evicted and its replacement is to come at once, but the key of the gate is in a ConfigMap of another name.

    Before 0.1.0 it was called ``live``: what comes before the new controller has written its own comes without the gate.
    """
    names = {o["metadata"]["name"] for o in moment.of_kind("ConfigMap")}
    there = [p for p in moment.of_kind("Pod") if labels(p).get("app") == "web" and not deleting(p)]
    return GATE_CONFIG_MAP not in names and not there


@pytest.mark.parametrize("moment", moments_of(RECORDINGS))
def test_a_move_that_an_earlier_version_has_begun_lands_in_its_room(moment):
    sandbox = restore(moment)
    if room_held(moment):
        crowd(sandbox)
    program = Program(sandbox, random.Random(1), ProgramOptions(document=QUIET))  # noqa: S311 - reproducible
    sandbox.add(program)

    def ended():
        return status(sandbox.api.list(MOVE)[0]).get("phase") in ("Succeeded", "Failed")

    sandbox.run_until(ended, LIMIT_S)
    sandbox.advance(30)
    (move,) = sandbox.api.list(MOVE)
    (pod,) = moved(sandbox)
    if gate_left_behind(moment) and status(move)["phase"] == "Failed":
        assert status(move)["reason"] == "ReplacementUngated"
        return
    assert status(move)["phase"] == "Succeeded", (status(move), program.events.told)
    assert (spec(pod)["nodeName"], ready(pod)) == (TARGET, True)
    assert not program.events.damaged
    assert not [p for p in sandbox.api.list(POD) if LABEL_PLACEHOLDER in labels(p)]
    assert not [p for p in sandbox.api.list(POD) if {"name": GATE} in spec(p).get("schedulingGates", ())]
    assert {status(r)["phase"] for r in sandbox.api.list(ROOM)} <= {"Succeeded"}
    keys = sandbox.api.get(CONFIG_MAP, "rescheduler", GATE_CONFIG_MAP)
    assert not keys.get("data")


@pytest.mark.parametrize("moment", moments_of(ROOMS))
def test_rooms_that_an_earlier_version_holds_are_kept(moment):
    """The very Reservations and placeholders: none is given back to be made again."""

    def held(objects):
        rooms = {uid(o) for o in objects if o["kind"] == "Reservation" and available(o)}
        return rooms | {uid(o) for o in objects if placeholder_of(o) in rooms}

    def available(obj):
        return (obj.get("status") or {}).get("phase") == "Available" and not status(obj).get("currentOwners")

    def placeholder_of(obj):
        owners = obj["metadata"].get("ownerReferences") or [{}]
        return owners[0].get("uid") if LABEL_PLACEHOLDER in labels(obj) else None

    sandbox, before = restore(moment), held(moment.objects.values())
    program = Program(sandbox, random.Random(1), ProgramOptions(document=QUIET))  # noqa: S311 - reproducible
    sandbox.add(program)
    lost = set()
    sandbox.api.subscribe(lambda change: lost.add(uid(change.object)) if change.type == "DELETED" else None)
    sandbox.advance(20)
    (head_room,) = sandbox.api.list(HEAD_ROOM) or ({},)
    if head_room:
        assert status(head_room)["rooms"] == "2/2"
    taken = [p for p in sandbox.api.list(POD) if labels(p).get("app") == "late" and spec(p).get("nodeName")]
    assert len(before & lost) <= len(taken), "only the room of the pod that took one ends"
    assert not program.events.damaged
