"""What Koordinator says mapped to what a Reservation is, and what is asked of Koordinator: no cluster needed."""

import itertools
import json

import msgspec
import pytest

from harness.builders import node, pod
from rescheduler.calls.pods import remove_gate
from rescheduler.configuration.document import default_configuration, parse_configuration
from rescheduler.configuration.engines import with_engine
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.coordination.observe_reservations import with_koordinator
from rescheduler.model import names
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.own_objects import Condition, condition
from rescheduler.model.records import Node, PodSpec
from rescheduler.model.reservation import (
    ControllerRef,
    KoordinatorReservation,
    ObjectRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.koordinator import backs, koordinator_manifest
from rescheduler.reservations.koordinator_steps import unsteered
from rescheduler.reservations.observed_reservation import Choice, ObservedReservation
from rescheduler.reservations.placeholder import placeholder_name
from rescheduler.reservations.reservation_machine import step
from rescheduler.reservations.settings import EngineChoice, ReservationSettings
from rescheduler.reservations.waits import HandoverWait, Wait
from rescheduler.scheduling.state import SchedulingState
from tests.records import pod_record

replace = msgspec.structs.replace
NOW = 1_000_000.0
SETTINGS = ReservationSettings(engine=EngineChoice.KOORDINATOR)
ROOM = Resources(cpu_milli=1000)
RS = ControllerRef(api_version="apps/v1", kind="ReplicaSet", name="web", uid="rs")
NODE = Node(name="n2", uid="n2")
MOVE = LabelSet({names.ANNOTATION_MIGRATION: "default/m"})
TEMPLATE = {
    "metadata": {"namespace": "shop", "labels": {"app": "web"}},
    "spec": {"schedulerName": "koord-scheduler", "containers": [{"name": "c", "image": "i"}]},
}


def ours(phase=ReservationPhase.PENDING, *, current=(), **fields):
    status = ReservationStatus(
        phase=phase,
        node_name="" if phase is ReservationPhase.PENDING else "n2",
        allocatable=ROOM,
        current_owners=current,
    )
    base = {
        "template": PodSpec(requests=ROOM, scheduler_name="koord-scheduler"),
        "template_raw": json.dumps(TEMPLATE).encode(),
        "template_namespace": "shop",
        "owners": (ReservationOwner(controller=RS),),
        "created_at_s": NOW - 10,
    }
    return Reservation(name="r", uid="r", resource_version="7", status=status, **{**base, **fields})


def theirs(phase=ReservationPhase.AVAILABLE, *, said="", **fields):
    held = phase is not ReservationPhase.PENDING
    if said:
        fields["conditions"] = (Condition("Ready" if held else "Scheduled", "False", message=said),)
    base = {"node": "n2" if held else "", "pinned_node": "n2", "allocatable": ROOM, "created_at_s": NOW - 9}
    return KoordinatorReservation(name="k", uid="k", phase=phase, **{**base, **fields})


def replacement(*, gated=True, on="", **fields):
    spec = PodSpec(requests=ROOM, gates=(names.GATE,) if gated else (), scheduler_name="koord-scheduler")
    base = {"created_at_s": NOW - 1}
    return pod_record(namespace="shop", name="p", uid="p", node=on, spec=spec, **{**base, **fields})


def look(reservation, held=None, **fields):
    base = {"node": NODE, "choice": Choice(node="n2"), "by_koordinator": True}
    if reservation.annotations.get(names.ANNOTATION_MIGRATION):
        base["migration"] = PodMigration(
            name="m",
            uid="m",
            namespace="default",
            pod_name="",
            status=MigrationStatus(
                phase=MigrationPhase.HANDING_OVER, eviction_requested_at_s=NOW - 3, evicted_at_s=NOW - 2
            ),
        )
    claimant = fields.pop("claimant", None)
    base["owners"] = (claimant,) if claimant else ()
    observed = ObservedReservation(reservation=reservation, koordinator=held, **{**base, **fields})
    return step(observed, NOW, SETTINGS)


def kinds(found):
    """What is done, besides status and events."""
    return [a.does for a in found.calls if a.does not in ("write_status", "record_event")]


def why(found):
    ready = condition(found.status.conditions, "Ready")
    return ready.reason if ready else ""


OWNER = (ObjectRef(namespace="shop", name="p", uid="p"),)


def test_pending_asks_koordinator_and_no_placeholder():
    found = look(ours())
    assert kinds(found) == ["create_koordinator_reservation"]
    assert found.status.phase is ReservationPhase.PENDING


def test_pending_says_the_schedulers_own_words():
    found = look(ours(), theirs(ReservationPhase.PENDING, said="0/3 nodes are available: 3 Insufficient cpu"))
    said = condition(found.status.conditions, "Scheduled")
    assert (said.status, said.reason) == ("False", "Unschedulable")
    assert said.message == "0/3 nodes are available: 3 Insufficient cpu"


def test_available_becomes_available_with_what_is_held():
    found = look(ours(), theirs())
    assert (found.status.phase, found.status.node_name) == (ReservationPhase.AVAILABLE, "n2")
    assert found.status.allocatable == ROOM
    assert kinds(found) == []


def test_waiting_which_koordinator_never_says():
    bad = replace(NODE, unschedulable=True)
    found = look(ours(), theirs(), node=bad)
    assert (found.status.phase, why(found)) == (ReservationPhase.WAITING, "NodeNotReady")
    assert look(ours(ReservationPhase.AVAILABLE), theirs(), node=bad).status.phase is ReservationPhase.WAITING
    again = look(ours(ReservationPhase.WAITING), theirs())
    assert again.status.phase is ReservationPhase.AVAILABLE


@pytest.mark.parametrize(
    "held", [None, theirs(ReservationPhase.FAILED, said="expired"), theirs(deleting=True)]
)
def test_a_room_that_koordinator_gave_up_is_lost(held):
    found = look(ours(ReservationPhase.AVAILABLE), held)
    assert (found.status.phase, why(found)) == (ReservationPhase.FAILED, "PlaceholderLost")


def test_a_missing_node_is_not_called_expired():
    """Koordinator sets Failed with reason Expired for both."""
    found = look(ours(ReservationPhase.AVAILABLE), theirs(ReservationPhase.FAILED, said="expired"), node=None)
    assert (found.status.phase, why(found)) == (ReservationPhase.FAILED, "NodeDeleted")


def test_expiry_gives_koordinators_reservation_back():
    late = ours(ReservationPhase.AVAILABLE, ttl_s=5.0)
    found = look(late, theirs())
    assert (found.status.phase, why(found)) == (ReservationPhase.FAILED, "Expired")
    assert kinds(found) == ["delete_koordinator_reservation"]


def test_a_room_that_was_given_away_does_not_expire():
    late = ours(ReservationPhase.AVAILABLE, ttl_s=5.0)
    found = look(late, theirs(ReservationPhase.SUCCEEDED, current_owners=OWNER, allocated=ROOM))
    assert found.status.phase is ReservationPhase.SUCCEEDED
    assert (found.status.current_owners, found.status.allocated) == (OWNER, ROOM)


def test_a_move_gives_the_room_only_to_its_own_replacement():
    move = ours(ReservationPhase.AVAILABLE, annotations=MOVE)
    found = look(move, theirs(ReservationPhase.SUCCEEDED, current_owners=OWNER))
    assert (found.status.phase, why(found)) == (ReservationPhase.FAILED, "PlaceholderLost")
    claimed = look(move, theirs(), assigned=(replacement(),))
    assert (why(claimed), claimed.status.current_owners) == ("Claimed", OWNER)


def test_the_hand_over_is_one_patch():
    move = ours(ReservationPhase.AVAILABLE, annotations=MOVE, current=OWNER)
    found = look(move, theirs(), claimant=replacement())
    (steer,) = [a for a in found.calls if a.does == "remove_gate"]
    assert steer == remove_gate(replacement(), "r", steered_to="k")
    assert kinds(found) == ["remove_gate"]
    assert kinds(look(move, theirs(), claimant=replacement(gated=False))) == []
    landed = look(move, theirs(), claimant=replacement(gated=False, on="n2"))
    assert landed.status.phase is ReservationPhase.SUCCEEDED
    waits = look(move, theirs(), claimant=replacement(), wait=Wait(reason=HandoverWait.NODE_NOT_USABLE))
    assert kinds(waits) == []


def test_a_claimant_is_not_steered_to_a_room_that_is_lost():
    move = ours(ReservationPhase.AVAILABLE, annotations=MOVE, current=OWNER)
    found = look(move, theirs(ReservationPhase.FAILED), claimant=replacement(), owners=(replacement(),))
    assert found.status.phase is ReservationPhase.FAILED
    assert kinds(found) == ["release", "delete_koordinator_reservation"]


def test_a_steered_pod_is_set_free_before_its_room_goes():
    """The deletion of the room is what wakes the pod in Koordinator's scheduler."""
    move = ours(ReservationPhase.AVAILABLE, annotations=MOVE, current=OWNER)
    steered = replacement(
        gated=False, created_at_s=NOW - 900, annotations=LabelSet({names.KOORDINATOR_AFFINITY: "{}"})
    )
    found = look(move, theirs(), claimant=steered, owners=(steered,))
    assert (found.status.phase, why(found)) == (ReservationPhase.FAILED, "Expired")
    assert kinds(found) == ["unsteer", "delete_koordinator_reservation"]


def test_claimants_that_go_away():
    move = ours(ReservationPhase.AVAILABLE, annotations=MOVE, current=OWNER)
    dropped = look(move, theirs())
    assert (dropped.status.phase, dropped.status.current_owners) == (ReservationPhase.AVAILABLE, ())
    lost = look(move, theirs(ReservationPhase.SUCCEEDED, current_owners=OWNER))
    assert (lost.status.phase, why(lost)) == (ReservationPhase.FAILED, "ClaimantLost")


def test_no_look_at_any_combination_breaks():
    """Whatever Koordinator, the node and the claimant are, the step is one that the table knows."""
    pods = (None, replacement(), replacement(gated=False), replacement(on="n2"), replacement(on="n9"))
    helds = (
        None,
        *(theirs(p) for p in ReservationPhase),
        theirs(deleting=True),
        theirs(current_owners=OWNER),
    )
    nodes = (None, NODE, replace(NODE, ready=False))
    notes = (LabelSet({}), MOVE)
    for phase, held, on, claimant, note in itertools.product(ReservationPhase, helds, nodes, pods, notes):
        current = OWNER if claimant is not None and phase is not ReservationPhase.PENDING else ()
        found = look(ours(phase, current=current, annotations=note), held, node=on, claimant=claimant)
        if found.status.phase is ReservationPhase.AVAILABLE and not found.status.current_owners:
            assert held is not None, "nothing holds it"
            assert held.holds or held.phase is ReservationPhase.SUCCEEDED
            assert on is NODE
        assert "create_placeholder" not in kinds(found)


def test_pods_that_wait_for_a_lost_room_are_let_go():
    waiting = replacement(
        gated=False,
        annotations=LabelSet({names.ANNOTATION_RESERVATION: "r", names.KOORDINATOR_AFFINITY: "{}"}),
    )
    assert [action.uid for action in unsteered([waiting], {})] == ["p"]
    live = ours(ReservationPhase.AVAILABLE, annotations=MOVE, current=OWNER)
    assert not list(unsteered([waiting], {"r": live}))


# What is asked of Koordinator ----------------------------------------------------------------------


def manifest(reservation):
    return json.loads(koordinator_manifest(reservation, "n2", SETTINGS))


def test_the_manifest_of_a_room_made_by_hand():
    made = manifest(ours(ttl_s=90.0))
    assert (made["apiVersion"], made["kind"]) == ("scheduling.koordinator.sh/v1alpha1", "Reservation")
    assert made["metadata"]["name"] == placeholder_name(ours())
    assert made["metadata"]["ownerReferences"][0]["uid"] == "r"
    spec = made["spec"]
    assert spec["template"]["spec"]["nodeName"] == "n2"
    assert spec["template"]["metadata"] == TEMPLATE["metadata"]
    assert spec["owners"][0]["controller"]["uid"] == "rs"
    assert (spec["ttl"], spec["allocateOnce"], "unschedulable" in spec) == ("100s", True, False), (
        "ours ends first"
    )
    assert manifest(ours(ttl_s=0.0))["spec"]["ttl"] == "0s"
    assert manifest(ours(expires_at_s=NOW + 50))["spec"]["ttl"] == "70s"


def test_the_room_of_a_move_is_closed_and_does_not_end_by_itself():
    spec = manifest(ours(annotations=MOVE, ttl_s=90.0))["spec"]
    assert (spec["unschedulable"], spec["ttl"]) == (True, "0s")


@pytest.mark.parametrize(("change", "expected"), [
    ({}, True),
    ({"template": PodSpec(requests=ROOM)}, False),
    ({"allocate_once": False}, False),
    ({"pre_allocation": True}, False),
    ({"annotations": LabelSet({names.ANNOTATION_MODE: "Soft"})}, False),
    ({"owners": (ReservationOwner(controller=replace(RS, kind="Deployment")),)}, False),
    ({"owners": (ReservationOwner(controller=ControllerRef(uid="rs")),)}, False),
    ({"owners": (ReservationOwner(object=OWNER[0]),)}, True),
])  # fmt: skip
def test_which_reservations_koordinator_holds(change, expected):
    assert backs(ours(**change), "koord-scheduler") is expected
    assert not backs(ours(**change), "")


def test_what_exists_decides_before_the_configuration():
    reservation = ours()
    name = placeholder_name(reservation)
    state = ClusterState()
    body = {
        "metadata": {
            "name": name,
            "uid": "k",
            "ownerReferences": [
                {
                    "apiVersion": names.API_VERSION,
                    "kind": "Reservation",
                    "name": "r",
                    "uid": "r",
                    "controller": True,
                }
            ],
        },
        "spec": {},
    }
    seen = ObservedReservation(reservation=reservation)
    assert with_koordinator(seen, state.snapshot(NOW), "koord-scheduler").by_koordinator
    assert not with_koordinator(seen, state.snapshot(NOW), "").by_koordinator
    placed = ObservedReservation(reservation=reservation, placeholders=(replacement(on="n2"),))
    assert not with_koordinator(placed, state.snapshot(NOW), "koord-scheduler").by_koordinator
    state.apply(Kind.KOORDINATOR_RESERVATION, read(body))
    assert with_koordinator(seen, state.snapshot(NOW), "").by_koordinator


# Reading -------------------------------------------------------------------------------------------


def read(body):
    return Decoder().record(Kind.KOORDINATOR_RESERVATION, json.dumps(body).encode())


def held_on(where, cpu, **status):
    return {
        "metadata": {"name": f"room-on-{where}", "uid": f"room-on-{where}", "resourceVersion": "5"},
        "spec": {"template": {"spec": {"nodeName": where}}},
        "status": {"phase": "Available", "nodeName": where, "allocatable": {"cpu": cpu}, **status},
    }


def test_decoding():
    found = read(held_on("n1", "3", allocated={"cpu": "1"}))
    assert (found.phase, found.node, found.pinned_node) == (ReservationPhase.AVAILABLE, "n1", "n1")
    assert found.room.held.cpu_milli == 2000
    assert found.reservation is None
    assert read({"metadata": {"name": "k"}, "status": {"phase": "New"}}).phase is ReservationPhase.FAILED
    refused = {
        "conditions": [{"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]
    }
    assert read({"metadata": {"name": "k"}, "status": refused}).refusal == "no"
    assert read(held_on("n1", "3", phase="Succeeded")).room is None


def test_room_that_koordinator_holds_is_taken_for_planning():
    """With the stock profile as well: nobody else may plan with it, whoever made it."""
    state = ClusterState()
    for name in ("n1", "n2"):
        state.apply(Kind.NODE, node(name).allocatable(cpu="4").build())
    asks = pod("asks").requests(cpu="2").build()
    before = SchedulingState(state.snapshot(NOW))
    assert before.filter(asks).feasible.tolist() == [True, True]
    state.apply(Kind.KOORDINATOR_RESERVATION, read(held_on("n1", "3")))
    held = state.snapshot(NOW)
    before.sync(held)
    assert before.filter(asks).feasible.tolist() == [False, True]
    assert SchedulingState(held).filter(asks).feasible.tolist() == [False, True]
    state.delete(Kind.KOORDINATOR_RESERVATION, "room-on-n1")
    before.sync(state.snapshot(NOW))
    assert before.filter(asks).feasible.tolist() == [True, True]


# The choice of the engine --------------------------------------------------------------------------


@pytest.mark.parametrize(("engine", "there", "expected"), [
    ("Auto", True, EngineChoice.KOORDINATOR),
    ("Auto", False, EngineChoice.PLACEHOLDER),
    ("Placeholder", True, EngineChoice.PLACEHOLDER),
    ("Koordinator", True, EngineChoice.KOORDINATOR),
])  # fmt: skip
def test_discovery_and_configuration_choose(engine, there, expected):
    text = f"apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\nreservations: {{engine: {engine}}}\n"
    found = with_engine(parse_configuration(text, "f"), koordinator_served=there)
    assert with_engine(found, koordinator_served=there) == found
    assert found.reservations.engine is expected
    assert found.profile.judges("koord-scheduler") is (expected is EngineChoice.KOORDINATOR)
    assert found.profile.judges("default-scheduler")


def test_demanding_what_is_not_there_is_refused():
    configuration = default_configuration()
    wanted = replace(configuration.reservations, engine=EngineChoice.KOORDINATOR)
    with pytest.raises(ConfigurationError, match="does not serve"):
        with_engine(replace(configuration, reservations=wanted), koordinator_served=False)
