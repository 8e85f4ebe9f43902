"""Selectors of replacements that are created before they have all labels of their template."""

import copy

from rescheduler.migrations.start_first_replacement import with_merged_label_keys

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
LABELS = {"app": "web", "pod-template-hash": "5d4f"}
SELECTOR = {"matchLabels": {"app": "web"}}
OWN = {"key": "pod-template-hash", "operator": "In", "values": ["5d4f"]}
OTHER = {"key": "pod-template-hash", "operator": "NotIn", "values": ["5d4f"]}


def term(**fields):
    return {"topologyKey": "zone", "labelSelector": SELECTOR, **fields}


def test_values_of_label_keys_become_part_of_all_selectors():
    spec = {
        "topologySpreadConstraints": [{"maxSkew": 1, **term(matchLabelKeys=["pod-template-hash"])}],
        "affinity": {
            "podAffinity": {REQUIRED: [term(matchLabelKeys=["pod-template-hash"])]},
            "podAntiAffinity": {
                PREFERRED: [{"weight": 1, "podAffinityTerm": term(mismatchLabelKeys=["pod-template-hash"])}]
            },
        },
    }
    given = copy.deepcopy(spec)
    made = with_merged_label_keys(spec, LABELS)
    own, other = {**SELECTOR, "matchExpressions": [OWN]}, {**SELECTOR, "matchExpressions": [OTHER]}
    assert made["topologySpreadConstraints"] == [{"maxSkew": 1, "topologyKey": "zone", "labelSelector": own}]
    assert made["affinity"]["podAffinity"] == {REQUIRED: [{"topologyKey": "zone", "labelSelector": own}]}
    assert made["affinity"]["podAntiAffinity"] == {
        PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": other}}]
    }
    assert spec == given, "what was read is not changed"


def test_a_key_that_the_template_does_not_have_selects_nothing_more():
    spec = {"topologySpreadConstraints": [term(matchLabelKeys=["absent"])]}
    assert with_merged_label_keys(spec, LABELS) == {"topologySpreadConstraints": [term()]}


def test_expressions_of_the_template_are_kept():
    exists = {"key": "tier", "operator": "Exists"}
    one = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [exists]}, "matchLabelKeys": ["app"]}
    made = with_merged_label_keys({"topologySpreadConstraints": [one]}, LABELS)
    app = {"key": "app", "operator": "In", "values": ["web"]}
    assert made["topologySpreadConstraints"][0]["labelSelector"] == {"matchExpressions": [exists, app]}


def test_other_rules_and_empty_ones_are_left_as_they_are():
    spec = {"affinity": {"nodeAffinity": {"x": 1}, "podAffinity": None}, "containers": [1]}
    assert with_merged_label_keys(spec, LABELS) == spec
