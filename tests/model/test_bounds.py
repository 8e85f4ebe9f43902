"""What the schemas of the manifests admit, the decoder reads; the limits are those of one table."""

import re
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.bounds import (
    LONGEST_CRON,
    LONGEST_LABEL,
    LONGEST_NAME,
    LONGEST_ZONE,
    MOST_EARLIER_MOVES,
    MOST_MOVE_TTL,
    MOST_ROOMS,
    MOST_TTL,
    MOST_WINDOW,
)
from rescheduler.model.decode import Decoder
from rescheduler.model.decode.wire_form import manifest
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.own_objects import LONGEST_USER
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationOwner, ReservationPhase
from rescheduler.model.room_sets import WindowPhase, YieldTo
from rescheduler.model.selectors import LabelSet, Operator
from rescheduler.model.times import parse_duration, parse_timestamp

LONGEST_DURATION_TEXT = 32
LONGEST_KEY = LONGEST_NAME + 1 + LONGEST_LABEL
LONGEST_UID = 128
LONGEST_REASON = 1024
MOST_OWNERS = 16
MOST_VALUES = 48
TIME_OF_DAY = 5

LENGTHS = {
    "apiVersion": LONGEST_NAME,
    "kind": LONGEST_LABEL,
    "namespace": LONGEST_LABEL,
    "name": LONGEST_NAME,
    "nodeName": LONGEST_NAME,
    "uid": LONGEST_UID,
    "key": LONGEST_KEY,
    "values": LONGEST_LABEL,
    "matchLabels": LONGEST_LABEL,
    "ttl": LONGEST_DURATION_TEXT,
    "hint": LONGEST_DURATION_TEXT,
    "reason": LONGEST_REASON,
    "policy": LONGEST_NAME,
    "requestedBy": LONGEST_USER,
    "after": LONGEST_KEY,
    "containers.name": LONGEST_LABEL,
    "cron": LONGEST_CRON,
    "timeZone": LONGEST_ZONE,
    "end": TIME_OF_DAY,
    "duration": LONGEST_DURATION_TEXT,
    "startReserveAgo": LONGEST_DURATION_TEXT,
    "nodeSelector": LONGEST_LABEL,
    "spreadOver": LONGEST_KEY,
}
"""Field of a spec -> the longest text in it. A field of several objects has one limit; where not, its parent is named, too."""
COUNTS = {
    "owners": MOST_OWNERS, "matchLabels": MOST_OWNERS, "matchExpressions": MOST_OWNERS,
    "values": MOST_VALUES, "after": MOST_EARLIER_MOVES, "nodeSelector": MOST_OWNERS,
    "resources": MOST_OWNERS,
}  # fmt: skip
"""List or map of a spec -> the most entries."""
MOST = {"podNumToReserve": MOST_ROOMS, "rooms": MOST_ROOMS}
"""Number of a spec -> the largest."""
LEAST = {
    "owners": 1, "containers": 1, "containers.name": 1, "key": 1, "podRef.name": 1, "target.nodeName": 1,
    "reservationRef.name": 1, "after": 3, "gracePeriodSeconds": 0, "cron": 9, "timeZone": 1, "resources": 1,
    "podNumToReserve": 1, "rooms": 0,
}  # fmt: skip
"""Field of a spec -> the shortest text, the fewest entries, or the smallest number in it."""

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
OWNERS = (ReservationOwner(object=ObjectRef("a", "b", "c")),)


def spec_of(plural):
    document = yaml.safe_load((CRDS / f"{plural}.yaml").read_text())
    return document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


@pytest.mark.parametrize(("plural", "field", "most"), [
    ("reservations", "ttl", MOST_TTL),
    ("podmigrations", "ttl", MOST_MOVE_TTL),
    ("podmigrations", "hint", MOST_MOVE_TTL),
    ("reservationwindows", "duration", MOST_WINDOW),
    ("reservationwindows", "startReserveAgo", MOST_WINDOW),
])  # fmt: skip
def test_the_schemas_have_the_limits_of_the_table(plural, field, most):
    ttl = spec_of(plural)[field]
    assert ttl["maxLength"] == LONGEST_DURATION_TEXT
    rules = [rule["rule"] for rule in ttl["x-kubernetes-validations"]]
    assert f"self == '0' || duration(self) <= duration('{most}')" in rules
    assert parse_duration(most) > 0


PLURALS = ("reservations", "podmigrations", "reservationwindows", "headrooms")
TABLES = {
    "maxLength": LENGTHS, "maxItems": COUNTS, "maxProperties": COUNTS, "minLength": LEAST, "minItems": LEAST,
    "minProperties": LEAST, "minimum": LEAST, "maximum": MOST,
}  # fmt: skip
ENUMS = {
    "mode": MoveMode,
    "operator": [Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST],
    ("reservations", "phase"): ReservationPhase,
    ("podmigrations", "phase"): MigrationPhase,
    ("reservationwindows", "phase"): WindowPhase,
    "yieldTo": YieldTo,
    "status": ["True", "False", "Unknown"],
}
BOUNDS = {*TABLES, "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum"}
NUMBERS_OF_RULES = {0, MOST_VALUES, LONGEST_KEY}


def schema_of(plural, part):
    document = yaml.safe_load((CRDS / f"{plural}.yaml").read_text())
    return document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]


def schemas(schema, path=()):
    """(path, schema) of a field and of all below it; items and values of maps have the name of their field."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from schemas(inner, (*path, name))
    for keyword in ("items", "additionalProperties"):
        yield from schemas(schema.get(keyword), path)


def limits(plural, part="spec"):
    """(path, keyword, value) of each limit."""
    for path, schema in schemas(schema_of(plural, part)):
        for keyword in BOUNDS.intersection(schema):
            yield path, keyword, schema[keyword]


@pytest.mark.parametrize("plural", PLURALS)
def test_every_limit_of_the_schemas_is_that_of_the_table(plural):
    found = [limit for limit in limits(plural) if limit[1] != "enum"]
    assert len(found) >= 9
    for path, keyword, number in found:
        table = TABLES[keyword]
        assert table.get(".".join(path[-2:]), table.get(path[-1])) == number, (path, keyword)


def test_the_table_has_no_limit_of_which_the_schemas_know_nothing():
    found = [limit for plural in PLURALS for limit in limits(plural)]
    for table in (LENGTHS, COUNTS, LEAST, MOST):
        of_table = [path for path, keyword, _ in found if TABLES.get(keyword) is table]
        assert set(table) <= {name for path in of_table for name in (path[-1], ".".join(path[-2:]))}


@pytest.mark.parametrize("plural", PLURALS)
def test_no_field_of_a_spec_is_without_a_limit(plural):
    """But for a template, which is a part of a pod and is limited as a whole by admission."""
    for path, schema in schemas(schema_of(plural, "spec")):
        if path[:1] == ("template",):
            continue
        kind = schema.get("type")
        if kind == "string":
            assert {"maxLength", "enum", "format"} & set(schema), path
        elif kind == "array":
            assert "maxItems" in schema, path
        elif kind == "object" and "properties" not in schema:
            assert "maxProperties" in schema, path
        elif kind == "integer":
            assert {"format", "minimum"} <= set(schema), path


@pytest.mark.parametrize("plural", PLURALS)
@pytest.mark.parametrize("part", ["spec", "status"])
def test_every_choice_of_the_schemas_is_one_of_the_program(plural, part):
    for path, keyword, values in limits(plural, part):
        if keyword == "enum":
            known = ENUMS.get((plural, path[-1]), ENUMS.get(path[-1]))
            assert sorted(values) == sorted(map(str, known)), path


@pytest.mark.parametrize("plural", PLURALS)
def test_every_number_in_a_rule_of_the_schemas_is_in_the_table(plural):
    for path, schema in schemas(schema_of(plural, "spec")):
        for rule in schema.get("x-kubernetes-validations") or ():
            text = re.sub(r"'[^']*'", "", rule["rule"])
            assert set(map(int, re.findall(r"\b[0-9]+\b", text))) <= NUMBERS_OF_RULES, (path, rule)


NUMBER = st.from_regex(r"[0-9]{1,4}([.][0-9]{0,4})?|[.][0-9]{1,4}", fullmatch=True)
PART = st.tuples(NUMBER, st.sampled_from(["ns", "us", "µs", "ms", "s", "m", "h"])).map("".join)
DURATION = (
    st.lists(PART, min_size=1, max_size=5).map("".join).filter(lambda t: len(t) <= LONGEST_DURATION_TEXT)
)


@given(DURATION)
def test_every_duration_of_the_schema_is_read(text):
    assert parse_duration(text) >= 0
    assert parse_duration(f"+{text}") >= 0


MOMENT = st.tuples(
    st.integers(0, 9999), st.integers(1, 12), st.integers(1, 28), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59),
    st.sampled_from(["", ".5", ".123456789", "." + "9" * 40]),
    st.sampled_from(["Z", "z", "+00:00", "-12:00", "+99:99", "-99:99", "+24:00"]), st.sampled_from("Tt"),
).map(lambda m: f"{m[0]:04}-{m[1]:02}-{m[2]:02}{m[8]}{m[3]:02}:{m[4]:02}:{m[5]:02}{m[6]}{m[7]}")  # fmt: skip


@given(MOMENT)
def test_every_moment_of_the_format_is_read(text):
    parse_timestamp(text)


def test_a_moment_is_that_of_its_zone():
    assert parse_timestamp("2026-01-01T00:00:00+01:30") == parse_timestamp("2025-12-31T22:30:00Z")
    assert parse_timestamp("2026-01-01T00:00:00.25-01:00") == parse_timestamp("2026-01-01T01:00:00.25Z")


OPEN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["namespace", "labels", "annotations", "name", "x"]), OPEN), OPEN)
def test_whatever_the_schema_leaves_open_in_a_template_is_read(metadata, extra):
    template = {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": extra}], "x": extra}}
    written = manifest(Reservation(name="r", template_raw=msgspec.json.encode(template), owners=OWNERS))
    found = Decoder().attempt(Kind.RESERVATION, msgspec.json.encode(written))
    assert found.name == "r"
    assert not found.unreadable


@given(
    st.text(max_size=8),
    st.text(max_size=8),
    st.one_of(st.just("--5"), st.just("9" * 5000), st.text(max_size=9)),
)
def test_whatever_is_in_annotations_and_labels_is_read(key, label, value):
    keys = ("rescheduler.dev/order", "rescheduler.dev/mode", "rescheduler.dev/migration", key)
    notes, labels = LabelSet(dict.fromkeys(keys, value)), LabelSet({label: value})
    for kind, record in (
        (Kind.RESERVATION, Reservation(name="r", owners=OWNERS, annotations=notes, labels=labels)),
        (
            Kind.POD_MIGRATION,
            PodMigration(namespace="s", name="m", pod_name="p", annotations=notes, labels=labels),
        ),
    ):
        assert not Decoder().attempt(kind, msgspec.json.encode(manifest(record))).unreadable
