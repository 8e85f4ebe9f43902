"""Which changes bring a round of the moves under way: everything but a new version of the same."""

import msgspec
import pytest

from rescheduler.controller.wakeups import concerns_moves
from rescheduler.model.cluster import RecordChange
from rescheduler.model.kinds import Kind
from rescheduler.model.names import GATE
from rescheduler.model.records import Node, PodPhase, PodSpec, Taint
from rescheduler.model.selectors import LabelSet
from tests.records import changed, pod_record

POD = pod_record(
    namespace="a", name="p", uid="u", resource_version="1", spec=PodSpec(), phase=PodPhase.RUNNING
)
NODE = Node(name="n", resource_version="1")


@pytest.mark.parametrize(("kind", "record"), [(Kind.POD, POD), (Kind.NODE, NODE)])
def test_a_heartbeat_does_not(kind, record):
    later = msgspec.structs.replace(record, resource_version="2")
    assert not concerns_moves(kind, RecordChange(record, later))


@pytest.mark.parametrize("change", [
    {"node": "n"},
    {"ready": True},
    {"deleting": True},
    {"nominated_node": "n"},
    {"phase": PodPhase.FAILED},
    {"labels": LabelSet({"a": "b"})},
    {"spec": PodSpec(gates=(GATE,))},
    {"uid": "another"},
])  # fmt: skip
def test_every_other_change_of_a_pod_does(change):
    later = changed(POD, resource_version="2", **change)
    assert concerns_moves(Kind.POD, RecordChange(POD, later))


def test_new_and_deleted_objects_do():
    assert concerns_moves(Kind.POD, RecordChange(None, POD))
    assert concerns_moves(Kind.POD, RecordChange(POD, None))
    assert concerns_moves(Kind.NODE, RecordChange(NODE, msgspec.structs.replace(NODE, taints=(Taint("t"),))))
