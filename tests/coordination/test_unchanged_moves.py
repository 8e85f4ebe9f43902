"""A move under way takes a step when something of its own has changed or is due, and not because of the events of others."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from rescheduler.calls.objects import delete_migration
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.memory import Memory
from rescheduler.coordination.unchanged_moves import LONGEST_REST_S, MoveMarks, UnchangedMoves
from rescheduler.migrations.migration_machine import MigrationStep
from rescheduler.migrations.observed_migration import RECORDED, MigrationSettings
from rescheduler.model.cluster import ClusterState
from rescheduler.model.controller_key import controller_key
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode, PodMigration
from rescheduler.model.names import ANNOTATION_MIGRATION, ANNOTATION_MIGRATION_UID
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.records import DisruptionBudget, Node, ObjectKey, OwnerRef, PodSpec, Workload
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.template import reservation_name
from tests.records import pod_record

WEB = OwnerRef("apps/v1", "ReplicaSet", "web", "rs")
OTHER = OwnerRef("apps/v1", "ReplicaSet", "other", "other")
STATUS = MigrationStatus(phase=MigrationPhase.EVICTING, source_node="n1", node_name="n2")
MOVE = PodMigration(namespace="shop", name="m", uid="m", pod_name="web-0", pod_uid="u0", status=STATUS)
NAME = reservation_name(MOVE.key, MOVE.uid)
CLAIMED = ReservationStatus(current_owners=(ObjectRef("shop", "p", "p"),))
ROOM = Reservation(
    name=NAME,
    uid="room",
    annotations=LabelSet({ANNOTATION_MIGRATION: "shop/m", ANNOTATION_MIGRATION_UID: "m"}),
    status=ReservationStatus(phase=ReservationPhase.AVAILABLE, node_name="n2"),
)


def pod(name, owner, **fields):
    fields = {"namespace": "shop", "uid": name, "node": "n1", **fields}
    return pod_record(name=name, spec=PodSpec(), controller=owner, **fields)


class Cluster:
    """A cluster with one move, and its mark after each change."""

    def __init__(self, move=MOVE):
        self.state, self.memory, self.move, self.kept = ClusterState(), Memory(), move, None
        self.add(Kind.REPLICA_SET, Workload(kind="ReplicaSet", namespace="shop", name="web", uid="rs"))
        for one in (pod("web-0", WEB, uid="u0"), pod("web-1", WEB), pod("other-0", OTHER)):
            self.add(Kind.POD, one)
        self.add(Kind.POD, pod("holder", OwnerRef("v1", "Reservation", NAME, "room")))
        for name in ("n1", "n2", "n3"):
            self.add(Kind.NODE, Node(name=name))
        self.add(Kind.RESERVATION, ROOM)
        self.add(Kind.POD_MIGRATION, move)

    def add(self, kind, record):
        self.state.apply(kind, record)

    def touch(self, kind, key):
        """A new version of an object."""
        self.add(kind, msgspec.structs.replace(self.state.get(kind, key), resource_version="9"))

    def mark(self, recorded=RECORDED, now_s=0.0):
        snapshot = self.state.snapshot(now_s)
        index = RoundIndex.of(snapshot, self.kept)
        self.kept = index.kept
        move = snapshot.migrations[self.move.key]
        return MoveMarks(index=index, memory=self.memory, now_s=now_s).of(move, recorded)


def rests(quiet, mark, now_s=0.0):
    return quiet.until_s(MOVE.key, mark, now_s) is not None


def rested(cluster, **fields):
    quiet = UnchangedMoves()
    step = MigrationStep(status=STATUS, **fields)
    quiet.stepped(MOVE.key, cluster.mark(), step, 0.0)
    return quiet


def proven(cluster):
    keys = {controller_key("shop", "rs"): NAME}
    cluster.memory.proofs.follow(keys, keys, ends=False)
    cluster.memory.proofs.asks(WEB, "shop", 0.0)
    cluster.memory.proofs.answered(WEB, "shop", 0.0, proven=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.touch(Kind.POD_MIGRATION, MOVE.key),
        lambda c: c.touch(Kind.POD, pod("web-0", WEB).key),
        lambda c: c.state.delete(Kind.POD, pod("web-0", WEB).key),
        lambda c: c.touch(Kind.POD, pod("web-1", WEB).key),
        lambda c: c.add(Kind.POD, pod("web-2", WEB)),
        lambda c: c.touch(Kind.POD, pod("holder", WEB).key),
        lambda c: c.touch(Kind.RESERVATION, NAME),
        lambda c: c.state.delete(Kind.RESERVATION, NAME),
        lambda c: c.touch(Kind.NODE, "n1"),
        lambda c: c.touch(Kind.NODE, "n2"),
        lambda c: c.touch(Kind.REPLICA_SET, "rs"),
        lambda c: c.add(Kind.POD_DISRUPTION_BUDGET, DisruptionBudget(namespace="shop", name="web")),
        lambda c: c.memory.answers.dry_run(MOVE.key, EvictionResult(EvictionOutcome.EVICTED), 0.0),
        lambda c: c.memory.expectations.statuses.update({ObjectKey("", NAME): (CLAIMED,)}),
        proven,
    ],
    ids=["itself", "pod", "pod gone", "sibling", "new sibling", "placeholder", "room", "room gone", "source", "target",
         "owner", "budget", "answer", "claim under way", "gate proven"],
)  # fmt: skip
def test_a_change_of_its_own_wakes_it(change):
    cluster = Cluster()
    quiet = rested(cluster)
    assert rests(quiet, cluster.mark())
    change(cluster)
    assert not rests(quiet, cluster.mark())


def test_that_a_step_is_recorded_wakes_it():
    cluster = Cluster()
    quiet = rested(cluster)
    assert not rests(quiet, cluster.mark(dataclasses.replace(RECORDED, ended=False)))


def test_changes_of_others_do_not():
    cluster = Cluster()
    quiet = rested(cluster)
    cluster.touch(Kind.POD, pod("other-0", OTHER).key)
    cluster.add(Kind.POD, pod("other-1", OTHER))
    cluster.touch(Kind.NODE, "n3")
    another = msgspec.structs.replace(MOVE, name="another", uid="another", pod_name="other-0")
    cluster.add(Kind.POD_MIGRATION, another)
    assert rests(quiet, cluster.mark())


@pytest.mark.parametrize("phase", [MigrationPhase.HANDING_OVER, MigrationPhase.SUCCEEDED])
def test_once_its_room_is_claimed_only_its_replacement_wakes_it(phase):
    cluster = Cluster(
        msgspec.structs.replace(MOVE, status=msgspec.structs.replace(STATUS, phase=phase, evicted_at_s=1.0))
    )
    cluster.add(Kind.POD, pod("p", WEB))
    cluster.add(
        Kind.RESERVATION,
        msgspec.structs.replace(
            ROOM, status=msgspec.structs.replace(ROOM.status, current_owners=CLAIMED.current_owners)
        ),
    )
    quiet = rested(cluster)
    cluster.touch(Kind.POD, pod("web-1", WEB).key)
    cluster.state.delete(Kind.POD, pod("web-0", WEB).key)
    cluster.touch(Kind.REPLICA_SET, "rs")
    assert rests(quiet, cluster.mark())
    for kind, key in ((Kind.POD, pod("p", WEB).key), (Kind.RESERVATION, NAME), (Kind.NODE, "n1")):
        quiet = rested(cluster)
        cluster.touch(kind, key)
        assert not rests(quiet, cluster.mark())
    quiet = rested(cluster)
    cluster.state.delete(Kind.POD, pod("p", WEB).key)
    assert not rests(quiet, cluster.mark())


def test_it_rests_until_its_step_is_due_and_never_for_long():
    cluster = Cluster()
    due, late = rested(cluster, wake_at_s=0.5), rested(cluster, wake_at_s=99.0)
    mark = cluster.mark()
    assert (due.until_s(MOVE.key, mark, 0.4), due.until_s(MOVE.key, mark, 0.5)) == (0.5, None)
    assert late.until_s(MOVE.key, mark, 0.5) == LONGEST_REST_S
    assert late.until_s(MOVE.key, mark, LONGEST_REST_S) is None


def test_it_does_not_rest_after_a_step_that_does_something():
    cluster = Cluster()
    busy = rested(cluster, calls=(delete_migration(MOVE),))
    assert not rests(busy, cluster.mark())
    assert not rests(rested(cluster, begins=True), cluster.mark())


@pytest.mark.parametrize("status", [
    MigrationStatus(),
    MigrationStatus(phase=MigrationPhase.FAILED),
    msgspec.structs.replace(STATUS, mode=MoveMode.START_FIRST),
], ids=["waits for its turn", "ended", "mode StartFirst"])  # fmt: skip
def test_some_moves_never_rest(status):
    cluster = Cluster(msgspec.structs.replace(MOVE, status=status))
    assert cluster.mark() is None
    assert not rests(rested(cluster), cluster.mark())


def test_with_other_settings_all_are_looked_at_again():
    cluster = Cluster()
    quiet = UnchangedMoves()
    index = RoundIndex.of(cluster.state.snapshot(0.0))
    quiet.begin_round(index, cluster.memory, MigrationSettings(), 0.0)
    quiet.stepped(MOVE.key, cluster.mark(), MigrationStep(status=STATUS), 0.0)
    quiet.begin_round(index, cluster.memory, MigrationSettings(), 0.0)
    assert rests(quiet, cluster.mark())
    quiet.begin_round(
        index, cluster.memory, MigrationSettings(reservations=ReservationSettings(ttl_s=1.0)), 0.0
    )
    assert not rests(quiet, cluster.mark())
