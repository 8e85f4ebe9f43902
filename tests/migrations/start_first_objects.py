"""What the tests of mode StartFirst look at: a Deployment, its ReplicaSet, an old pod, a replacement, a move."""

from rescheduler.migrations.migration_machine import step
from rescheduler.migrations.observed_migration import (
    Calls,
    MigrationSettings,
    ObservedMigration,
    ObservedStartFirst,
)
from rescheduler.migrations.start_first_replacement import replaces
from rescheduler.model import names
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.records import Node, OwnerRef, PodPhase, PodSpec, Workload
from rescheduler.model.reservation import ObjectRef
from rescheduler.model.selectors import (
    LabelSelector,
    LabelSet,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)
from tests import records
from tests.records import pod_record

NOW = 1_000.0
PHASE = MigrationPhase
SETTINGS = MigrationSettings(gate_settle_s=0.0)
RS = OwnerRef("apps/v1", "ReplicaSet", "web-1", "rs")
LABELS = LabelSet({"app": "web", "pod-template-hash": "1"})
REF = ObjectRef("default", "web-1-x", "replacement")
PASSED = Calls(dry_run=EvictionResult(EvictionOutcome.EVICTED), dry_run_at_s=NOW)
PROVEN = Calls(gate_proven_at_s=NOW - 2)


def selector(**labels):
    return LabelSelector(tuple(Requirement(k, Operator.IN, (v,)) for k, v in labels.items()))


def deployment(**fields):
    base = {"replicas": 3, "surge": True, "revision": "1", "selector": selector(app="web")}
    return Workload(kind="Deployment", namespace="default", name="web", uid="d", **{**base, **fields})


def replica_set(**fields):
    base = {
        "replicas": 3,
        "revision": "1",
        "controller": OwnerRef("apps/v1", "Deployment", "web", "d"),
        "selector": selector(app="web", **{"pod-template-hash": "1"}),
        "template": PodSpec(),
        "template_labels": LABELS,
    }
    return Workload(kind="ReplicaSet", namespace="default", name="web-1", uid="rs", **{**base, **fields})


def pod(**fields):
    base = {"uid": "old", "node": "n1", "ready": True, "phase": PodPhase.RUNNING, "labels": LABELS}
    base = {"spec": PodSpec(), "controller": RS, **base}
    return pod_record(namespace="default", name="web-1-a", **{**base, **fields})


def pinned(node, **fields):
    """A spec that only this node takes."""
    term = NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, (node,)),))
    return PodSpec(node_affinity=NodeSelector((term,)), **fields)


def replacement(**fields):
    fields.setdefault("spec", pinned("n2"))
    base = {
        "uid": "replacement",
        "node": "n2",
        "ready": True,
        "ready_since_s": NOW - 100,
        "phase": PodPhase.RUNNING,
        "labels": LabelSet({"app": "web", names.LABEL_START_FIRST: "m"}),
        "annotations": LabelSet({names.ANNOTATION_REPLACES: replaces("rs", "old")}),
    }
    return pod_record(namespace="default", name="web-1-x", **{**base, **fields})


ADOPTED = replacement(controller=RS, labels=LabelSet({**LABELS, names.LABEL_START_FIRST: "m"}))
LABELLED = replacement(labels=ADOPTED.labels)


def seen(**fields):
    base = {
        "declared": True,
        "replica_set": replica_set(),
        "deployment": deployment(),
        "owned": 3,
        "replacement_name": "web-1-x",
    }
    return ObservedStartFirst(**{**base, **fields})


def migration(phase=PHASE.PENDING, *, requested=0.0, started=True, mode=MoveMode.AUTO, **fields):
    base = {
        "resource_version": "3", "pod_name": "web-1-a", "pod_uid": "old", "target_node": "n2",
        "created_at_s": NOW - 10,
    }  # fmt: skip
    begun = {
        "source_node": "n1",
        "node_name": "n2",
        "mode": MoveMode.START_FIRST,
        "replacement": REF if started else None,
        "eviction_requested_at_s": requested,
        "evicted_at_s": NOW - 1 if phase is PHASE.HANDING_OVER else 0.0,
    }
    return records.move(
        "m", phase, spec={"mode": mode}, **base | (begun if phase is not PHASE.PENDING else {}) | fields
    )


def look(m, *, now=NOW, settings=SETTINGS, **fields):
    base = {"pod": pod(), "target": "n2", "target_node": Node(name="n2"), "start_first": seen()}
    return step(
        ObservedMigration(migration=m, reservation_name="r.move", **{**base, **fields}), now, settings
    )


def kinds(outcome):
    return [a.does for a in outcome.calls if a.does != "record_event"]


def said(outcome):
    return outcome.status.phase, outcome.status.reason
