"""An object in the layout of a newer version is left alone, keeps what it holds, and says so; absent is what 0.1.0 wrote."""

import json
import random
from pathlib import Path

import pytest

from harness.histories.program import QUIET, Program, ProgramOptions
from harness.recorded.recording import Moment, decode
from harness.recorded.restoring import restore
from kube_sandbox.controllers.unstructured import POD, GroupKind, labels, ready, spec, status
from rescheduler.model.decode import Decoder
from rescheduler.model.decode.wire_form import encode
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.names import LABEL_PLACEHOLDER
from rescheduler.model.own_objects import LAYOUT
from rescheduler.model.reservation import ReservationStatus

RECORDING = Path(__file__).parent / "recorded" / "0.1.0" / "moved-statefulset.jsonl"
MOMENTS = list(decode(RECORDING.read_text(encoding="utf-8").splitlines()))
KINDS = ("Reservation", "PodMigration")
MOVE = GroupKind("rescheduler.dev", "PodMigration")


def with_layout(moment, layout):
    def changed(obj):
        known = obj["kind"] in KINDS and obj.get("status")
        return {**obj, "status": {**obj["status"], "layout": layout}} if known else obj

    return Moment(moment.at_s, {key: changed(obj) for key, obj in moment.objects.items()})


def in_phase(phase):
    """The first moment at which the move is in that phase and its room is held."""
    for moment in MOMENTS:
        (move,) = moment.of_kind("PodMigration")
        rooms = moment.of_kind("Reservation")
        held = rooms and (rooms[0].get("status") or {}).get("phase") == "Available"
        if (move.get("status") or {}).get("phase") == phase and held:
            return moment
    raise AssertionError(phase)


def start(sandbox):
    program = Program(sandbox, random.Random(1), ProgramOptions(document=QUIET))  # noqa: S311 - reproducible
    sandbox.add(program)
    return program


def stored(sandbox):
    found = [obj for obj in sandbox.api.everything() if obj["kind"] in KINDS]
    return [(obj["kind"], spec(obj), status(obj)) for obj in found]


def test_every_status_is_written_with_the_layout():
    assert encode(ReservationStatus())["layout"] == LAYOUT
    assert encode(MigrationStatus())["layout"] == LAYOUT


def known_again(sandbox):
    """The newer version goes on: here, what is stored gets a layout that this version knows."""
    store = sandbox.server.store
    for obj in sandbox.api.everything():
        if obj["kind"] in KINDS:
            metadata = obj["metadata"]
            table = store.registry.by_kind(obj["apiVersion"], obj["kind"]).table
            new = {**obj, "metadata": dict(metadata), "status": {**obj["status"], "layout": LAYOUT}}
            store.objects.put(table, (metadata.get("namespace", ""), metadata["name"]), new)


@pytest.mark.parametrize("phase", ["Reserving", "Evicting"])
def test_a_move_of_a_newer_layout_is_left_alone_and_goes_on_with_the_newer_version(phase):
    sandbox = restore(with_layout(in_phase(phase), LAYOUT + 1))
    program, before = start(sandbox), stored(sandbox)
    sandbox.advance(100)
    assert stored(sandbox) == before
    assert any(LABEL_PLACEHOLDER in labels(p) for p in sandbox.api.list(POD)), "the room is not held any more"
    assert any("is of a newer version of rescheduler" in told for told in program.events.told)
    known_again(sandbox)
    sandbox.run_until(lambda: status(sandbox.api.list(MOVE)[0])["phase"] in ("Succeeded", "Failed"), 300)
    sandbox.advance(5)
    (pod,) = [p for p in sandbox.api.list(POD) if labels(p).get("app") == "web"]
    assert status(sandbox.api.list(MOVE)[0])["phase"] == "Succeeded"
    assert (spec(pod)["nodeName"], ready(pod)) == ("b", True)


def test_an_end_is_an_end_in_every_layout():
    (move,) = with_layout(MOMENTS[-1], LAYOUT + 1).of_kind("PodMigration")
    record = Decoder().stand_in(Kind.POD_MIGRATION, json.dumps(move).encode())
    assert (record.status.phase, record.status_unreadable) == (MigrationPhase.SUCCEEDED, True)


@pytest.mark.parametrize("phase", ["Reserving", "Evicting", "HandingOver"])
@pytest.mark.parametrize("layout", [None, 0, LAYOUT])
def test_known_layouts_are_read(phase, layout):
    (move,) = with_layout(in_phase(phase), layout).of_kind("PodMigration")
    assert Decoder().record(Kind.POD_MIGRATION, json.dumps(move).encode()).status.phase == phase
