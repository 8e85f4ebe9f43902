"""Which new pods of a workload may be the replacement of an evicted pod."""

import pytest

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.observe_reservations import new_pods
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.names import GATE
from rescheduler.model.records import ObjectKey, OwnerRef, PodSpec
from rescheduler.model.reservation import ControllerRef, ReservationOwner
from rescheduler.model.snapshot import Snapshot
from tests import records
from tests.records import pod_record

INTENT_S = 1000.7


def found(kind, *pods, gates=()):
    """Names of the pods that may replace web-0, which was evicted on an intent of second 1000."""
    mine = [
        pod_record(
            namespace="shop",
            name=name,
            uid=f"uid-{name}-{created_s:g}",
            created_at_s=created_s,
            spec=PodSpec(gates=gates),
            controller=OwnerRef("apps/v1", kind, "web", "uid-web"),
        )
        for name, created_s in pods
    ]
    index = RoundIndex.of(
        Snapshot(taken_at_s=INTENT_S, pods={ObjectKey(p.namespace, p.name): p for p in mine})
    )
    owners = (ReservationOwner(controller=ControllerRef(uid="uid-web")),)
    named = {
        "namespace": "shop",
        "pod_name": "web-0",
        "pod_uid": "uid-evicted",
        "eviction_requested_at_s": INTENT_S,
    }
    reservation = records.room("room", owners=owners)
    migration = records.move("move", MigrationPhase.HANDING_OVER, **named)
    return [pod.name for pod in new_pods(index, reservation, migration)]


def test_a_sibling_of_a_statefulset_is_never_taken_for_the_replacement():
    """Creation times have whole seconds: a scale-up right before the intent looks as new as the replacement."""
    assert found("StatefulSet", ("web-2", 1000.0)) == []
    assert found("StatefulSet", ("web-2", 1000.0), ("web-0", 1003.0)) == ["web-0"]


@pytest.mark.parametrize(("created_s", "new"), [(998.0, False), (999.0, True), (1003.0, True)])
def test_a_pod_of_a_replicaset_is_new_from_the_second_before_the_intent_on(created_s, new):
    """What the controller takes for the API server's time may be ahead of it."""
    assert found("ReplicaSet", ("web-x7k2p", created_s)) == (["web-x7k2p"] if new else [])


def test_a_pod_at_the_gate_is_new_though_another_api_server_created_it_whose_clock_is_behind():
    assert found("ReplicaSet", ("web-x7k2p", 996.0), gates=(GATE,)) == ["web-x7k2p"]
