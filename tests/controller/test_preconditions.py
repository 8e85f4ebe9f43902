"""Every call that changes something carries what it was decided on, and ``docs/design/04-preconditions.md`` says what."""

import re
from pathlib import Path

import msgspec
import pytest
from example_calls import CALLS

from rescheduler.calls.call import Call, ReadThenCall, Verb
from rescheduler.calls.objects import create_config_map, set_keys
from rescheduler.model.records import ObjectKey

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/design/04-preconditions.md"
KEYS = ObjectKey("rescheduler", "gate-keys")
READ = {
    "delete_placeholder": {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": "n1"}},
    "take_back_nomination": {"metadata": {"uid": "h"}},
    "start_replacement": {"metadata": {"uid": "rs-uid"}, "spec": {"template": {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}}},
}  # fmt: skip
"""What is found by calls that read before they write."""


def preconditions(call, found=None):
    """Words of the table for one call; empty if it changes nothing."""
    if isinstance(call, ReadThenCall):
        return {"read"} | preconditions(call.then(msgspec.json.encode(found)), found)
    if not isinstance(call, Call) or call.dry_run or call.verb is Verb.GET:
        return set()
    body = msgspec.json.decode(call.body) if call.body else {}
    tests = [o["path"] for o in body if o["op"] == "test"] if isinstance(body, list) else []
    metadata = body.get("metadata", {}) if isinstance(body, dict) else {}
    said = {
        "name": call.verb is Verb.CREATE and bool(metadata.get("name")),
        "uid": bool(call.uid) or (call.verb is not Verb.CREATE and bool(metadata.get("uid"))),
        "resourceVersion": bool(call.resource_version or metadata.get("resourceVersion"))
        or "/metadata/resourceVersion" in tests,
    }
    carried = {word for word, there in said.items() if there}
    assert carried, f"{call.line} changes something without a precondition"
    return carried


def written_down():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    words = {"name", "read", "uid", "resourceVersion"}
    return {name: set(cell.split(", ")) & words for name, cell in rows}


def test_every_call_has_a_row():
    assert set(written_down()) == {call.does for call in CALLS}


@pytest.mark.parametrize("does", written_down())
def test_a_call_carries_the_preconditions_of_its_row(does):
    carried = [preconditions(call, READ.get(does)) for call in CALLS if call.does == does]
    assert set.union(*carried) == written_down()[does]


def test_config_maps_are_written_by_version_and_created_by_name():
    assert preconditions(set_keys(KEYS, "7", {"a": "1"}, ())) == {"resourceVersion"}
    assert preconditions(create_config_map(KEYS, {"a": "1"})) == {"name"}
