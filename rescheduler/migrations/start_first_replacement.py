"""The replacement of mode StartFirst: a pod from its ReplicaSet's template that the ReplicaSet does not select yet.

Pure. Until the old pod is evicted it has the template's labels without ``pod-template-hash`` (so that budgets and Services
select it, and the ReplicaSet does not), one label of our own, and is pinned to its node. For a ReplicaSet without
Deployment it has our label only: any label of the template could make the ReplicaSet adopt it. Its selectors are those of a
pod with all labels of the template, because it keeps them after its adoption.

Admission of others changes pods when they are created, a resize later. What all pods of the workload get is as asked: the
replacement is compared with the template, with the pod that it takes the place of, and with a dry-run creation where one is
known. What is worse than in all of them ends the move before anybody is evicted: less resources, another node, scheduler
or priority, a rule that keeps it off its node, an end. A finalizer passes: nobody waits for the end of this pod.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from rescheduler.calls.call import AnyCall
from rescheduler.calls.pods import label_replacement, remove_replacement
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.model import names
from rescheduler.model.migration import PodMigration
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import Node, ObjectKey, Pod, PodSpec, Workload
from rescheduler.model.selectors import LabelSet
from rescheduler.replacements.siblings import PodsOf
from rescheduler.reservations.differences import (
    SPEC,
    Difference,
    held_by,
    not_as_asked,
    of_amount,
    taint_of,
)
from rescheduler.reservations.placeholder import pinned_nodes
from rescheduler.scheduling.node_affinity import selects

Json = dict[str, Any]

_NAME: Final = 57
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}


def replacement_name(owner: str, migration_uid: str) -> str:
    """A name like those of the ReplicaSet's own pods: the same after a crash, a different one for a later move."""
    digest = hashlib.blake2b(migration_uid.encode(), digest_size=3).hexdigest()
    return f"{owner[:_NAME].rstrip('-.')}-{digest}"


def replaces(controller_uid: str, pod_uid: str) -> str:
    """The value of annotation ``names.ANNOTATION_REPLACES``."""
    return f"{controller_uid}/{pod_uid}"


def replaced_by(replacement: Pod) -> tuple[str, str]:
    """(uid of the ReplicaSet, uid of the old pod) of a replacement; "" if the annotation is missing."""
    controller, _, pod = (replacement.annotations.get(names.ANNOTATION_REPLACES) or "").partition("/")
    return controller, pod


def replica_set_of(replacement: Pod, workloads: Mapping[str, Workload]) -> Workload | None:
    """The ReplicaSet that it is for. One of another namespace is none: anybody may write any uid into a pod of his own."""
    found = workloads.get(replaced_by(replacement)[0])
    return found if found is not None and found.namespace == replacement.namespace else None


def is_unadopted(pod: Pod) -> bool:
    """True for a replacement that no ReplicaSet has adopted."""
    return pod.controller is None and pod.labels.get(names.LABEL_START_FIRST) is not None


def labelled_fully(pod: Pod, owner: Workload) -> bool:
    """True if the pod has every label of the template, so that the ReplicaSet adopts it."""
    return all(pod.labels.get(key) == value for key, value in owner.template_labels.items())


def missing_labels(pod: Pod, owner: Workload) -> LabelSet:
    """The labels of the template that the pod lacks."""
    return LabelSet({k: v for k, v in owner.template_labels.items() if pod.labels.get(k) != v})


def replacement_manifest(
    template: Json, *, key: ObjectKey, migration: ObjectKey, labels: Mapping[str, str], says: str, node: str
) -> Json:
    """The pod to create. ``template``: the owner's ``spec.template`` as stored, of which all rules are kept.

    ``labels``: of birth. ``says``: of whom it takes the place. A node named by the template is left out: a
    pod that is bound at birth would pass by the scheduler.
    """
    given: Json = template.get("metadata") or {}
    spec: Json = {k: v for k, v in (template.get("spec") or {}).items() if k != "nodeName"}
    spec = with_merged_label_keys(spec, given.get("labels") or {})
    annotations = {
        **(given.get("annotations") or {}),
        names.ANNOTATION_MIGRATION: str(migration),
        names.ANNOTATION_REPLACES: says,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": key.namespace,
            "name": key.name,
            "labels": dict(labels),
            "annotations": annotations,
            "finalizers": list(given.get("finalizers") or ()),
        },
        "spec": {**spec, "affinity": _pinned(spec.get("affinity") or {}, node)},
    }


def _pinned(affinity: Json, node: str) -> Json:
    """The affinity with the node added to each of its terms (terms are ORed)."""
    demand = {"key": "metadata.name", "operator": "In", "values": [node]}
    node_affinity: Json = affinity.get("nodeAffinity") or {}
    terms: list[Json] = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": [*(term.get("matchFields") or ()), demand]} for term in terms]
    return {**affinity, "nodeAffinity": {**node_affinity, _REQUIRED: {"nodeSelectorTerms": pinned}}}


def with_merged_label_keys(spec: Json, labels: Mapping[str, str]) -> Json:
    """A pod's spec with the selectors that a pod with these labels gets; the one that is given is not changed.

    The API server merges the values of matchLabelKeys and mismatchLabelKeys into the selectors of a pod when the pod is created,
    from the labels that it has then, and never again (``podStrategy.PrepareForCreate``, KEP-3633 and KEP-3243). A pod that gets
    ``pod-template-hash`` later would keep selectors that match other pods than those of its siblings. So the values are merged
    here, and the keys are left out: what is merged once must not be merged by other labels again.
    """
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


# Replacements whose move has ended or vanished


def orphan_calls(
    orphans: Iterable[Pod],
    migrations: Mapping[ObjectKey, PodMigration],
    workloads: Mapping[str, Workload],
    pods_of: PodsOf,
) -> tuple[tuple[Pod, AnyCall], ...]:
    """The call for each replacement that no live move refers to; no call for the others.

    Level-triggered, so that neither a crash nor a deleted PodMigration leaves anything behind. If the old pod is gone and its
    ReplicaSet lacks a pod, the replacement, which is Ready already, is better than a new pod.
    """
    alone = [pod for pod in orphans if is_unadopted(pod) and not pod.deleting]
    if not alone:
        return ()
    live = {
        (m.namespace, m.uid) for m in migrations.values() if m.status.phase not in FINISHED and not m.deleting
    }
    dead = (pod for pod in alone if (pod.namespace, pod.labels.get(names.LABEL_START_FIRST)) not in live)
    return tuple((pod, call) for pod in dead if (call := _fate(pod, workloads, pods_of)) is not None)


def _fate(replacement: Pod, workloads: Mapping[str, Workload], pods_of: PodsOf) -> AnyCall | None:
    old_uid = replaced_by(replacement)[1]
    owner = replica_set_of(replacement, workloads)
    if owner is None or owner.deleting or replacement.terminal:
        return remove_replacement(replacement)
    if labelled_fully(replacement, owner):
        return None  # its ReplicaSet adopts it
    # Adopted only if the ReplicaSet lacks a pod that runs; it then deletes its own gated one. Otherwise it would delete a
    # pod that runs.
    alive = [p for p in pods_of(owner.uid) if not p.deleting and not p.terminal]
    running = [p for p in alive if not holds_gate(p)]
    replaced = all(p.uid != old_uid for p in alive)
    if replacement.ready and replaced and len(running) < owner.replicas:
        return label_replacement(replacement, missing_labels(replacement, owner))
    return remove_replacement(replacement)


class AskedSurgePod(NamedTuple):
    """What a replacement is compared with."""

    specs: tuple[PodSpec, ...]
    """Each of them is good enough."""
    priority: int
    """That of the pod that it takes the place of."""
    node: str
    """Where it is to run."""
    node_record: Node | None


def unlike_asked(replacement: Pod, asked: AskedSurgePod) -> str:
    """What makes the replacement less than the pod that it takes the place of; "": nothing does."""
    found, remedy = (
        _differences(replacement, asked),
        "let what changes new pods treat it as the other pods of its workload",
    )
    return not_as_asked(f"the replacement {replacement.key}", found, replacement.writers, remedy)


def _differences(replacement: Pod, asked: AskedSurgePod) -> Iterator[Difference]:
    yield from _amounts(replacement, asked.specs)
    yield from _place(replacement, asked)
    stored = replacement.spec
    schedulers = [spec.scheduler_name for spec in asked.specs]
    if stored.scheduler_name not in schedulers:
        yield Difference(
            "spec.schedulerName", schedulers[0], stored.scheduler_name, (SPEC, "f:schedulerName")
        )
    classes = [spec.priority_class for spec in asked.specs]
    if stored.priority < asked.priority and stored.priority_class not in classes:
        path = (SPEC, "f:priorityClassName")
        yield Difference("spec.priority", str(asked.priority), str(stored.priority), path)
    deadlines = [spec.deadline_s for spec in asked.specs]
    if stored.deadline_s is not None and stored.deadline_s not in deadlines:
        path = (SPEC, "f:activeDeadlineSeconds")
        yield Difference("spec.activeDeadlineSeconds", "none", f"{stored.deadline_s} s", path)


def _amounts(replacement: Pod, specs: Iterable[PodSpec]) -> Iterator[Difference]:
    wanted = [spec.requests for spec in specs]
    stored, path = replacement.spec.requests, (SPEC, "f:containers")
    held = held_by(replacement)
    for name in sorted({name for amounts in wanted for name, _ in amounts.items()}):
        want = min(amounts.amount(name) for amounts in wanted)
        yield from of_amount(name, want, stored.amount(name), held.amount(name), path)


def _place(replacement: Pod, asked: AskedSurgePod) -> Iterator[Difference]:
    pins, path = pinned_nodes(replacement), (SPEC, "f:affinity")
    if replacement.node:  # its scheduler has judged the rest
        if replacement.node != asked.node:
            yield Difference("spec.nodeName", asked.node, replacement.node, (SPEC, "f:nodeName"))
        return
    if pins != {asked.node}:
        stored = ", ".join(sorted(pins)) or "no node"
        yield Difference("spec.affinity.nodeAffinity", f"node/{asked.node}", stored, path)
        return
    node = asked.node_record
    if (
        node is not None
        and not _selected(replacement.spec, node)
        and all(_selected(s, node) for s in asked.specs)
    ):
        stored = ", ".join(f"{key}={value}" for key, value in replacement.spec.node_selector)
        words = f"what node/{node.name} matches"
        yield Difference("spec.nodeSelector", words, stored, (SPEC, "f:nodeSelector"))
    shared = set.intersection(*({*spec.tolerations} for spec in asked.specs))
    missing = shared - {*replacement.spec.tolerations}
    if missing:
        words = ", ".join(sorted(map(taint_of, missing)))
        yield Difference("spec.tolerations", words, "none of these", (SPEC, "f:tolerations"))


def _selected(spec: PodSpec, node: Node) -> bool:
    """By its nodeSelector alone: the affinity of an earlier replacement names the node of an earlier move."""
    return selects(PodSpec(node_selector=spec.node_selector), node)
