"""What the schemas of the manifests admit, the decoder reads; the limits are those of one table."""

from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.bounds import COUNTS, LENGTHS, LONGEST_DURATION_TEXT, MOST_MOVE_TTL, MOST_TTL
from rescheduler.model.decode import Decoder
from rescheduler.model.encode import migration_manifest, reservation_manifest
from rescheduler.model.kinds import Kind
from rescheduler.model.reservation import ObjectRef, ReservationOwner
from rescheduler.model.times import parse_duration, parse_timestamp

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
OWNERS = (ReservationOwner(object=ObjectRef("a", "b", "c")),)


def spec_of(plural):
    document = yaml.safe_load((CRDS / f"{plural}.yaml").read_text())
    return document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


@pytest.mark.parametrize(("plural", "most"), [("reservations", MOST_TTL), ("podmigrations", MOST_MOVE_TTL)])
def test_the_schemas_have_the_limits_of_the_table(plural, most):
    ttl = spec_of(plural)["ttl"]
    assert ttl["maxLength"] == LONGEST_DURATION_TEXT
    rules = [rule["rule"] for rule in ttl["x-kubernetes-validations"]]
    assert f"self == '0' || duration(self) <= duration('{most}')" in rules
    assert parse_duration(most) > 0


def limits_of(schema, path=()):
    """(path, keyword, number) of each limit of a schema; items and values of maps have the name of their field."""
    if not isinstance(schema, dict):
        return
    for keyword in ("maxLength", "maxItems", "maxProperties"):
        if isinstance(schema.get(keyword), int):
            yield path, keyword, schema[keyword]
    for name, inner in (schema.get("properties") or {}).items():
        yield from limits_of(inner, (*path, name))
    for keyword in ("items", "additionalProperties"):
        yield from limits_of(schema.get(keyword), path)


@pytest.mark.parametrize("plural", ["reservations", "podmigrations"])
def test_every_limit_of_the_schemas_is_that_of_the_table(plural):
    found = list(limits_of({"properties": spec_of(plural)}))
    assert len(found) >= 9
    for path, keyword, number in found:
        table = LENGTHS if keyword == "maxLength" else COUNTS
        assert table.get(".".join(path[-2:]), table.get(path[-1])) == number, (path, keyword)


def test_the_table_has_no_limit_of_which_the_schemas_know_nothing():
    found = [
        each
        for plural in ("reservations", "podmigrations")
        for each in limits_of({"properties": spec_of(plural)})
    ]
    named = {name for path, _, _ in found for name in (path[-1], ".".join(path[-2:]))}
    assert {*LENGTHS, *COUNTS} <= named


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
    manifest = reservation_manifest("r", template=template, owners=OWNERS)
    found = Decoder().attempt(Kind.RESERVATION, msgspec.json.encode(manifest))
    assert found.name == "r"
    assert not found.unreadable


@given(
    st.text(max_size=8),
    st.text(max_size=8),
    st.one_of(st.just("--5"), st.just("9" * 5000), st.text(max_size=9)),
)
def test_whatever_is_in_annotations_and_labels_is_read(key, label, value):
    keys = ("rescheduler.dev/order", "rescheduler.dev/mode", "rescheduler.dev/migration", key)
    notes = dict.fromkeys(keys, value)
    for manifest, kind in (
        (
            reservation_manifest("r", template={}, owners=OWNERS, annotations=notes, labels={label: value}),
            Kind.RESERVATION,
        ),
        (
            migration_manifest("s", "m", pod_name="p", annotations=notes, labels={label: value}),
            Kind.POD_MIGRATION,
        ),
    ):
        assert not Decoder().attempt(kind, msgspec.json.encode(manifest)).unreadable
