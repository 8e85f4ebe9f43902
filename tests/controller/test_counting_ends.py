"""Each move that ends is counted once, however many there are and whoever deletes them."""

from rescheduler.calls.objects import write_status
from rescheduler.controller.effects import NO_EFFECT
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.reporting import MOST_COUNTED, MoveCounter
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration


def ended(uid):
    seen = PodMigration(namespace="shop", name=f"move-{uid}", uid=uid, pod_name="web-0")
    return write_status(seen=seen, status=MigrationStatus(phase=MigrationPhase.SUCCEEDED))


def counted(metrics):
    return sum(
        sample.value for sample in metrics.moves_landed.collect()[0].samples if "_total" in sample.name
    )


def test_moves_that_others_delete_are_not_remembered_for_ever():
    """A namespace that goes takes its PodMigrations along: the controller deletes none of them."""
    metrics = Metrics()
    counter = MoveCounter(metrics)
    for number in range(MOST_COUNTED * 2):
        counter(ended(f"u-{number}"), NO_EFFECT)
        counter(ended(f"u-{number}"), NO_EFFECT)
    assert counted(metrics) == MOST_COUNTED * 2
    assert len(counter.counted) == MOST_COUNTED
