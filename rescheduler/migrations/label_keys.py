"""Selectors of a pod that is created before it has all its labels: matchLabelKeys and mismatchLabelKeys. Pure.

The API server merges the values of these keys into the selectors of a pod when the pod is created, from the labels that it
has then, and never again (``podStrategy.PrepareForCreate``, KEP-3633 and KEP-3243). A pod that gets ``pod-template-hash``
later would keep selectors that match other pods than those of its siblings. So the values are merged here, with the labels
that the pod will have, and the keys are left out: what is merged once must not be merged by other labels again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_OPERATORS = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def with_merged_label_keys(spec: Json, labels: Mapping[str, str]) -> Json:
    """A pod's spec with the selectors that a pod with these labels gets; the one that is given is not changed."""
    found = dict(spec)
    if spec.get("topologySpreadConstraints"):
        found["topologySpreadConstraints"] = [
            _merged(constraint, labels) for constraint in spec["topologySpreadConstraints"]
        ]
    if spec.get("affinity"):
        found["affinity"] = {
            kind: _affinity(rules, labels) if kind in ("podAffinity", "podAntiAffinity") and rules else rules
            for kind, rules in spec["affinity"].items()
        }
    return found


def _affinity(rules: Json, labels: Mapping[str, str]) -> Json:
    found = dict(rules)
    if rules.get(_REQUIRED):
        found[_REQUIRED] = [_merged(term, labels) for term in rules[_REQUIRED]]
    if rules.get(_PREFERRED):
        found[_PREFERRED] = [
            {**wish, "podAffinityTerm": _merged(wish["podAffinityTerm"], labels)}
            for wish in rules[_PREFERRED]
        ]
    return found


def _merged(rule: Json, labels: Mapping[str, str]) -> Json:
    """A term or constraint. Without a selector it has no such keys, and matches no pod."""
    selector = rule.get("labelSelector")
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in _OPERATORS.items()
        for key in rule.get(field) or ()
        if key in labels
    ]
    found = {field: value for field, value in rule.items() if field not in _OPERATORS}
    if selector is not None and added:
        expressions = [*(selector.get("matchExpressions") or ()), *added]
        found["labelSelector"] = {**selector, "matchExpressions": expressions}
    return found
