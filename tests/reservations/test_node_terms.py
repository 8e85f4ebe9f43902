"""Node affinity of many volumes: the same nodes as all selectors together, and never more than the bounds."""

import json
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.decode.pod_wire_types import NodeSelectorWire
from rescheduler.model.decode.selectors import node_selector
from rescheduler.model.selectors import LabelSet, NodeSelector, NodeSelectorTerm, Operator, Requirement
from rescheduler.reservations.node_terms import MOST_CHARACTERS, MOST_TERMS, all_of

PIN = Requirement("metadata.name", Operator.IN, ("n1",))
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def listed(key, *values):
    return Requirement(key, Operator.IN, tuple(sorted(values)))


def selector(*terms):
    return NodeSelector(tuple(NodeSelectorTerm(expressions=tuple(term)) for term in terms))


def decoded(terms):
    return node_selector(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelectorWire))


def disk(*zones, region=None):
    """A volume that can be attached in these zones, as CSI drivers write it: a term for each."""
    more = [listed(REGION, region)] if region else []
    return selector(*([listed(ZONE, zone), *more] for zone in zones))


@pytest.mark.parametrize(("volumes", "terms"), [
    ([disk("a", "b")] * 18, 1),
    ([disk("a", "b", "c", "d")] * 9, 1),
    ([disk(f"own-{i}", "a", "b", "c") for i in range(9)], 1),
    ([disk("a", "b", region="r"), disk("b", "c", region="r")], 1),
    ([disk("a"), disk("b")], 1),
], ids=["one claim many times", "honest disks", "different zones", "zones of a region", "nowhere"])  # fmt: skip
def test_volumes_are_intersected_and_not_multiplied(volumes, terms):
    assert len(all_of(volumes, PIN)) == terms


def test_values_of_one_key_are_intersected():
    (term,) = all_of([disk("a", "b", "c"), disk("b", "c", "d"), disk("c", "e")], PIN)
    assert term["matchExpressions"] == [{"key": ZONE, "operator": "In", "values": ["c"]}]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]


def test_volumes_that_no_node_reaches_match_none_and_stay_well_formed():
    terms = decoded(all_of([disk("a"), disk("b")], PIN))
    assert terms.terms
    assert not any(term.invalid for term in terms.terms)
    assert not any(terms.matches(LabelSet({ZONE: zone}), "n1") for zone in "ab")


def test_without_selectors_every_node_matches():
    assert all_of([]) is None
    assert all_of([], PIN) == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    ]


@pytest.mark.parametrize("hostile", [
    [selector(*([listed(f"k{i}-{j}", "v")] for j in range(4))) for i in range(30)],
    [selector(*([Requirement(f"k{i}-{j}", Operator.EXISTS)] for j in range(100))) for i in range(30)],
    [selector(*([listed(f"k{j}", f"v{j}")] for j in range(30_000)))],
    [selector([listed("k", *(f"value-{i}-{j}" for j in range(30_000)))]) for i in range(20)],
    [selector(*([listed(f"k{i}", f"v{j}"), listed(f"l{i}", f"v{j}")] for j in range(100))) for i in range(9)],
], ids=["a key for each term", "many terms", "one with very many terms", "long lists", "pairs of keys"])  # fmt: skip
def test_whatever_comes_in_the_terms_are_few(hostile):
    began = time.process_time()
    terms = all_of(hostile, PIN)
    assert time.process_time() - began < 5
    assert terms is not None
    assert len(terms) <= MOST_TERMS
    assert len(json.dumps(terms)) <= MOST_CHARACTERS + MOST_TERMS * 300


REQUIREMENT = st.one_of(
    st.builds(
        lambda key, values: listed(key, *values),
        st.sampled_from("zr"),
        st.sets(st.sampled_from("abc"), min_size=1),
    ),
    st.builds(
        lambda key, value: Requirement(key, Operator.NOT_IN, (value,)),
        st.sampled_from("zr"),
        st.sampled_from("abc"),
    ),
    st.builds(
        Requirement, st.sampled_from("zr"), st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])
    ),
)
SELECTOR = st.lists(st.lists(REQUIREMENT, max_size=3), max_size=4).map(lambda terms: selector(*terms))


@given(st.lists(SELECTOR, max_size=4))
def test_the_terms_match_the_nodes_that_all_selectors_match(selectors):
    terms = all_of(selectors, PIN)
    joined = decoded(terms)
    assert not any(term.invalid for term in joined.terms)
    for z in ("a", "b", "c", None):
        for r in ("a", "b", None):
            labels = LabelSet({key: value for key, value in (("z", z), ("r", r)) if value})
            for name in ("n1", "n2"):
                expected = name == "n1" and all(s.matches(labels, name) for s in selectors)
                assert joined.matches(labels, name) == expected
