"""Unquoted words of YAML dumps, beside what the YAML library of kubectl (sigs.k8s.io/yaml 1.6) makes of them."""

import pytest

from rescheduler.cli.dump_words import dump_word, resolved

# Printed by YAMLToJSON of sigs.k8s.io/yaml for "k: WORD".
KUBECTL = {
    "true": True, "Yes": True, "on": True, "y": True, "False": False, "off": False, "n": False,
    "yES": "yES", "~": None, "null": None, "": None, "nil": "nil",
    "7": 7, "+5": 5, "-0": 0, "1_000": 1000, "1__0": 10, "012": 10, "-012": -10, "08": 8, "0_8": 8, "0o17": 15,
    "0x1F": 31, "-0x1F": -31, "0X1f": 31, "0b11": 3, "-0b11": -3, "0b2": "0b2", "0x": "0x", "_1": "_1",
    "9223372036854775808": 9223372036854775808, "9" * 23: 1e23,
    "1.10": 1.1, ".5": 0.5, "._5": "._5", "1.": 1, "00.5": 0.5, "2e83": 2e83, "1e5": 100000, "1e3_0": 1e30,
    "6e-400": 0, "2e832088": "2e832088", "9" * 400: "9" * 400, "0x1p4": "0x1p4", "1e": "1e",
    "12:30": "12:30", "2026-11-22": "2026-11-22", "NaN": "NaN", "Inf": "Inf", "=": "=", "<<": "<<", "-": "-",
}  # fmt: skip
INFINITE = [".inf", "-.INF", "+.Inf", ".nan", ".NaN"]


@pytest.mark.parametrize("word", KUBECTL)
def test_a_word_is_what_kubectl_reads(word):
    found = resolved(word)
    assert found == KUBECTL[word]
    assert isinstance(found, bool) == isinstance(KUBECTL[word], bool)


@pytest.mark.parametrize("word", INFINITE)
def test_what_json_cannot_say_stays_a_text(word):
    """kubectl refuses the whole document."""
    assert resolved(word) == word


TEXTS = [
    ("metadata", "labels", "priority"),
    ("metadata", "annotations", "items"),
    ("spec", "selector", "replicas"),
    ("spec", "selector", "matchExpressions", 0, "values", 1),
    ("items", 0, "spec", "template", "metadata", "labels", "a"),
    (0, "spec", "taints", 0, "value"),
    ("spec", "nodeName"),
    ("metadata", "resourceVersion"),
    ("apiVersion",),
    (0, "provisioner"),
]
OTHERS = [
    ("spec", "priority"),
    ("metadata", "generation"),
    ("spec", "containers", 0, "resources", "requests", "cpu"),
    ("spec", "strategy", "rollingUpdate", "maxSurge"),
    ("value",),
    (0, "items", 3, "value"),
    ("spec", "unheardOf"),
    (),
    (0,),
]


@pytest.mark.parametrize("path", TEXTS)
def test_where_the_api_demands_a_text_a_word_is_one(path):
    assert dump_word("012", path) == "012"
    assert dump_word("on", path) == "on"
    assert dump_word("~", path) is None


@pytest.mark.parametrize("path", OTHERS)
def test_elsewhere_a_word_is_what_it_looks_like(path):
    assert dump_word("012", path) == 10
    assert dump_word("on", path) is True
