"""Every call that changes something carries what it was decided on, and ``docs/design/04-preconditions.md`` says what."""

import re
from pathlib import Path

import msgspec
import pytest
from objects_of_calls import SETTINGS
from test_call_table import CALLS_OF

from rescheduler.controller.call_table import CALLS, create_config_map, operation_of, set_keys
from rescheduler.controller.calls import Call, ReadThenCall, Verb
from rescheduler.migrations import actions as moves
from rescheduler.model.records import ObjectKey
from rescheduler.reservations import actions as rooms

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/design/04-preconditions.md"
KEYS = ObjectKey("rescheduler", "gate-keys")
READ = {
    rooms.DeletePlaceholder: {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": "n1"}},
    rooms.TakeBackNomination: {"metadata": {"uid": "h"}},
    moves.StartReplacement: {
        "metadata": {"uid": "rs-uid"},
        "spec": {"template": {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}},
    },
}
"""What is found by actions that read before they write."""


def preconditions(operation, found=None):
    """Words of the table for one operation; empty if it changes nothing."""
    if isinstance(operation, ReadThenCall):
        return {"read"} | preconditions(operation.then(msgspec.json.encode(found)), found)
    if not isinstance(operation, Call) or operation.dry_run or operation.verb is Verb.GET:
        return set()
    body = msgspec.json.decode(operation.body) if operation.body else {}
    tests = [o["path"] for o in body if o["op"] == "test"] if isinstance(body, list) else []
    metadata = body.get("metadata", {}) if isinstance(body, dict) else {}
    said = {
        "name": operation.verb is Verb.CREATE and bool(metadata.get("name")),
        "uid": bool(operation.uid) or (operation.verb is not Verb.CREATE and bool(metadata.get("uid"))),
        "resourceVersion": bool(operation.resource_version or metadata.get("resourceVersion"))
        or "/metadata/resourceVersion" in tests,
    }
    carried = {word for word, there in said.items() if there}
    assert carried, f"{operation.line} changes something without a precondition"
    return carried


def written_down():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    words = {"name", "read", "uid", "resourceVersion"}
    return {name: set(cell.split(", ")) & words for name, cell in rows}


def test_every_action_has_a_row():
    assert set(written_down()) == {action.__name__ for action in CALLS}
    assert {type(action) for action, *_ in CALLS_OF} == set(CALLS)


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_a_call_carries_the_preconditions_of_its_row(kind):
    carried = [
        preconditions(operation_of(action, SETTINGS), READ.get(kind))
        for action, *_ in CALLS_OF
        if type(action) is kind
    ]
    assert set.union(*carried) == written_down()[kind.__name__]


def test_config_maps_are_written_by_version_and_created_by_name():
    assert preconditions(set_keys(KEYS, "7", {"a": "1"}, ())) == {"resourceVersion"}
    assert preconditions(create_config_map(KEYS, {"a": "1"})) == {"name"}
