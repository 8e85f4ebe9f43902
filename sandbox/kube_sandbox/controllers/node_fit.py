"""Whether a pod spec in JSON may be on a node: node selector, required node affinity, taints. Pure.

The DaemonSet and taint eviction controllers check single pairs of pod and node, as the real ones do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kube_sandbox.controllers.unstructured import Obj, labels, meta, spec
from rescheduler.model.records import Taint, Toleration
from rescheduler.model.selectors import (
    LabelSet,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)


def node_affinity_allows(pod_spec: Obj, node: Obj) -> bool:
    """The pod's nodeSelector and required node affinity match the node."""
    have = LabelSet(labels(node))
    if any(have.get(k) != v for k, v in (pod_spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    terms = tuple(_term(t) for t in required.get("nodeSelectorTerms") or ())
    return NodeSelector(terms).matches(have, meta(node)["name"])


def tolerates(tolerations: Sequence[Obj], node: Obj, effects: Iterable[str]) -> bool:
    """Every taint of these effects on the node is tolerated."""
    desired = tuple(effects)
    taints = [t for t in spec(node).get("taints") or () if t.get("effect") in desired]
    return all(matching(tolerations, taint) for taint in taints)


def matching(tolerations: Iterable[Obj], taint: Obj) -> list[Obj]:
    """The tolerations that tolerate this taint (Toleration.ToleratesTaint)."""
    record = Taint(taint["key"], taint.get("value") or "", taint.get("effect") or "")
    return [t for t in tolerations if _toleration(t).tolerates(record)]


def _toleration(raw: Obj) -> Toleration:
    return Toleration(
        raw.get("key") or "", raw.get("operator") or "Equal", raw.get("value") or "", raw.get("effect") or ""
    )


def _term(raw: Obj) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        expressions=tuple(_requirement(r) for r in raw.get("matchExpressions") or ()),
        fields=tuple(_requirement(r) for r in raw.get("matchFields") or ()),
    )


def _requirement(raw: Obj) -> Requirement:
    return Requirement(raw["key"], Operator(raw["operator"]), tuple(sorted(raw.get("values") or ())))
