"""Pods that pose as replacements of mode StartFirst for moves and ReplicaSets of another namespace have no say in those."""

import pytest

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.observe_start_first import StartFirstObserver
from rescheduler.migrations.start_first_replacement import orphan_calls
from rescheduler.model import names
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.records import OwnerRef, PodSpec, Workload
from rescheduler.model.reservation import ObjectRef
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from tests import records
from tests.records import pod_record

RS = Workload(
    kind="ReplicaSet",
    namespace="shop",
    name="web",
    uid="rs",
    replicas=1,
    template=PodSpec(),
    template_labels=LabelSet({"app": "web"}),
)
OLD = pod_record(
    namespace="shop",
    name="web-a",
    uid="old",
    node="n1",
    spec=PodSpec(),
    controller=OwnerRef("apps/v1", "ReplicaSet", "web", "rs"),
)


def move(namespace="shop", uid="m", phase=MigrationPhase.RESERVING, **status):
    named = {"pod_name": "web-a", "pod_uid": "old", "mode": MoveMode.START_FIRST}
    return records.move(uid, phase, namespace=namespace, **named | status)


def replacement(namespace, *, of="m", said="rs/old"):
    return pod_record(
        namespace=namespace,
        name="x",
        uid="x",
        spec=PodSpec(),
        labels=LabelSet({names.LABEL_START_FIRST: of}),
        annotations=LabelSet({names.ANNOTATION_REPLACES: said}),
    )


def observer(*pods, moves):
    snapshot = Snapshot(
        taken_at_s=0.0,
        pods={p.key: p for p in (OLD, *pods)},
        workloads={"rs": RS},
        migrations={m.key: m for m in moves},
    )
    return StartFirstObserver(index=RoundIndex.of(snapshot), begun=lambda _: False, by_default=True)


@pytest.mark.parametrize(("namespace", "name"), [("shop", "x"), ("evil", None)])
def test_the_replacement_of_a_move_is_a_pod_of_its_namespace(namespace, name):
    found = observer(replacement(namespace), moves=[move()]).observe(move(), OLD).replacement
    assert (found.name if found else None) == name


@pytest.mark.parametrize(("namespace", "busy"), [("shop", True), ("evil", False)])
def test_nobody_keeps_a_workload_of_others_busy_by_a_pod(namespace, busy):
    pod = replacement(namespace, of="another")
    assert bool(observer(pod, moves=[move()]).observe(move(), OLD).busy) is busy


def test_nor_by_the_annotation_of_the_replacement_of_a_move_of_ones_own():
    theirs = move("evil", "theirs", MigrationPhase.EVICTING, replacement=ObjectRef("evil", "x", "x"))
    pod = replacement("evil", of="theirs")
    assert not observer(pod, moves=[move(), theirs]).observe(move(), OLD).busy


def test_the_move_of_another_namespace_keeps_no_orphan_alive():
    orphan, theirs = replacement("shop"), move("evil")
    found = orphan_calls([orphan], {theirs.key: theirs}, {"rs": RS}, lambda _: [OLD])
    assert [action.does for _, action in found] == ["remove_replacement"]
