"""What no machine takes care of: placeholders that a silent kubelet never ends, and those that have lost their owner."""

import msgspec
import pytest

from harness import builders as b
from rescheduler.calls.pods import delete_placeholder, remove_placeholder
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.leftovers import leftovers
from rescheduler.coordination.memory import Sightings
from rescheduler.model.names import API_VERSION, LABEL_PLACEHOLDER, SCHEDULER_PROBE
from rescheduler.model.records import ObjectKey, OwnerRef
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.settings import ReservationSettings

SETTINGS = ReservationSettings(node_grace_s=60.0)
READY = b.node("n1").build()
SILENT = msgspec.structs.replace(READY, ready=False)
HOLDER = msgspec.structs.replace(
    b.pod("room", "rescheduler").label({LABEL_PLACEHOLDER: "room"}).on("n1").build(), uid="h"
).with_state(deleting=True)


OWNER = OwnerRef(API_VERSION, "Reservation", "room", "r")


class Rounds:
    """Rounds that share what was sighted."""

    def __init__(self):
        self.sightings = Sightings()

    def at(self, now_s, pod=HOLDER, node=SILENT):
        snapshot = Snapshot(
            taken_at_s=now_s, pods={pod.key: pod}, nodes={"n1": node} if node is not None else {}
        )
        return leftovers(RoundIndex.of(snapshot), self.sightings, SETTINGS, now_s)


@pytest.mark.parametrize("node", [SILENT, None], ids=["NotReady", "gone"])
def test_a_terminating_placeholder_is_removed_after_the_time_that_its_node_is_given(node):
    rounds = Rounds()
    for now_s in (100.0, 130.0):
        (found,) = rounds.at(now_s, node=node)
        assert (found.due_s, found.machine) == (160.0, ObjectKey("placeholder", "h"))
        assert found.calls == (remove_placeholder(HOLDER),)


def test_a_node_that_comes_back_ends_it_itself_and_the_time_begins_again():
    rounds = Rounds()
    assert rounds.at(100.0)
    assert rounds.at(120.0, node=READY) == ()
    assert rounds.at(140.0)[0].due_s == 200.0


OWNERLESS = HOLDER.with_state(deleting=False)


def test_a_placeholder_that_lost_its_owner_is_deleted_wherever_it_stands():
    rounds = Rounds()
    for pod in (OWNERLESS, msgspec.structs.replace(OWNERLESS, node="")):
        (found,) = rounds.at(100.0, pod)
        assert (found.due_s, found.machine) == (130.0, ObjectKey("placeholder", "h"))
        assert found.calls == (delete_placeholder(HOLDER),)


@pytest.mark.parametrize("pod", [
    msgspec.structs.replace(OWNERLESS, controller=OWNER),
    msgspec.structs.replace(OWNERLESS, namespace="shop"),
    msgspec.structs.replace(OWNERLESS, labels=READY.labels),
    msgspec.structs.replace(OWNERLESS, labels=LabelSet({LABEL_PLACEHOLDER: SCHEDULER_PROBE})),
    msgspec.structs.replace(HOLDER, controller=OWNER).with_state(deleting=False),
    msgspec.structs.replace(HOLDER, namespace="shop"),
    msgspec.structs.replace(HOLDER, labels=READY.labels),
    msgspec.structs.replace(HOLDER, node=""),
], ids=[
    "has its owner", "ownerless, of somebody else", "ownerless, no placeholder", "a probe",
    "stands", "of somebody else", "no placeholder", "on no node",
])  # fmt: skip
def test_other_pods_are_left_alone(pod):
    assert Rounds().at(100.0, pod) == ()
