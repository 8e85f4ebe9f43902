"""What is sent for a call, and what each class of answers comes to."""

import msgspec
import pytest

from harness import builders as b
from rescheduler.calls.call import GateProbe
from rescheduler.calls.nodes import taint_node
from rescheduler.calls.objects import create_reservation, delete_reservation, write_status
from rescheduler.calls.pods import delete_placeholder, evict, nominate, release, take_back_nomination
from rescheduler.controller.effects import NO_EFFECT, Effect, NotLeaderError
from rescheduler.controller.sender import ApiSender, CallLog, DryRunSender
from rescheduler.coordination.expectations import Touched
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
    TryLaterError,
)
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Response, Transport, TransportError
from rescheduler.migrations.creations import start_replacement
from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.kinds import Kind
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.records import ObjectKey, OwnerRef
from rescheduler.model.reservation import Reservation, ReservationPhase, ReservationStatus
from rescheduler.reservations.handover import hand_over_taint

WEB = b.pod("web-0", "shop").uid("u").build()
HOLDER = b.pod("room-x", "rescheduler").uid("h").build()
MOVE = ObjectKey("shop", "move-1")
REPLICA_SET = OwnerRef("apps/v1", "ReplicaSet", "web", "rs-uid")
STORED = {"metadata": {"resourceVersion": "42"}}
OWNER = {"metadata": {"uid": "rs-uid"}, "spec": {"template": {"spec": {"containers": []}}}}

NOMINATE = nominate(WEB, "n1")
RELEASE = release(WEB, "held for 60 s")
ROOM = Reservation(name="room", uid="r", resource_version="7", status=ReservationStatus())
CLAIM = write_status(ROOM, ReservationStatus(phase=ReservationPhase.AVAILABLE))
DELETE = delete_placeholder(HOLDER)
CREATE = create_reservation("room", b"{}")
TAINT = taint_node(b.node("n1").build(), hand_over_taint("n1"))
TAKE_BACK = take_back_nomination(WEB, HOLDER)
START = start_replacement(
    ObjectKey("shop", "web-new"), REPLICA_SET, MOVE, node="n1", labels={}, replaces="rs-uid/u"
)
EVICT = evict(WEB)
DRY_RUN_EVICT = evict(WEB, dry_run=True)


def refusal(code, reason="", message="no"):
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    status |= {"details": {"name": "p", "kind": "pods"}}
    return Response(code, msgspec.json.encode(status))


def stored(body=STORED):
    return Response(200, msgspec.json.encode(body))


@pytest.fixture
def transport(mocker):
    return mocker.create_autospec(Transport, instance=True)


@pytest.fixture
def carry_out(transport, mocker):
    """Carry an action out on a server that gives these answers in turn."""

    def run(action, *answers, leader=True, gate=None, **ports):
        transport.send.side_effect = answers
        sender = ApiSender(
            api=KubeApi(transport, NO_RETRY), gate=gate or mocker.Mock(), still_leader=lambda: leader, **ports
        )
        return sender.send(action)

    return run


def sent(transport):
    return [call.args[0] for call in transport.send.call_args_list]


@pytest.mark.parametrize(("action", "kind", "key", "deleted"), [
    (NOMINATE, Kind.POD, WEB.key, False),
    (RELEASE, Kind.POD, WEB.key, False),
    (CLAIM, Kind.RESERVATION, ObjectKey("", "room"), False),
    (CREATE, Kind.RESERVATION, ObjectKey("", "room"), False),
    (TAINT, Kind.NODE, ObjectKey("", "n1"), False),
    (DELETE, Kind.POD, HOLDER.key, True),
])  # fmt: skip
def test_the_cache_must_show_what_was_written(carry_out, action, kind, key, deleted):
    version = "" if deleted else "42"
    expected = Effect(touched=(Touched(kind=kind, key=key, version=version, deleted=deleted),))
    assert carry_out(action, stored()) == expected


@pytest.mark.parametrize(("action", "method", "content_type"), [
    (NOMINATE, "PATCH", "application/merge-patch+json"),
    (RELEASE, "PATCH", "application/strategic-merge-patch+json"),
    (TAINT, "PATCH", "application/json-patch+json"),
    (CLAIM, "PUT", "application/json"),
    (CREATE, "POST", "application/json"),
    (DELETE, "DELETE", "application/json"),
    (EVICT, "POST", "application/json"),
])  # fmt: skip
def test_what_is_sent_is_the_call_of_the_table(carry_out, transport, action, method, content_type):
    carry_out(action, stored())
    (request,) = sent(transport)
    call = action
    assert (request.method, request.path, request.content_type) == (method, call.path, content_type)
    if call.body:
        assert request.body == call.body


def test_preconditions_and_grace_go_into_the_request(carry_out, transport):
    carry_out(DELETE, stored())
    carry_out(delete_reservation(ROOM, unchanged=True), stored())
    carry_out(evict(WEB, 5), stored())
    with_grace, with_version, eviction = (msgspec.json.decode(request.body) for request in sent(transport))
    assert (with_grace["preconditions"], with_grace["gracePeriodSeconds"]) == ({"uid": "h"}, 1)
    assert with_version["preconditions"] == {"uid": "r", "resourceVersion": "7"}
    assert eviction["deleteOptions"] == {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 5}


@pytest.mark.parametrize(("action", "answer"), [
    (CREATE, refusal(409, "AlreadyExists")),
    (DELETE, refusal(404)),
    (RELEASE, refusal(404)),
    (TAKE_BACK, refusal(404)),
], ids=["our own earlier try", "deleted already", "the pod is gone", "the placeholder is gone"])  # fmt: skip
def test_some_refusals_mean_that_nothing_is_left_to_do(carry_out, transport, action, answer):
    assert carry_out(action, answer) == NO_EFFECT
    assert len(sent(transport)) == 1


@pytest.mark.parametrize(("action", "answer", "error"), [
    (NOMINATE, refusal(404), NotFoundError),
    (NOMINATE, refusal(422), RejectedError),
    (CLAIM, refusal(409, "Conflict"), ConflictError),
    (CLAIM, refusal(409, "AlreadyExists"), AlreadyExistsError),
    (CREATE, refusal(409, "Conflict"), ConflictError),
    (CREATE, refusal(404), NotFoundError),
    (CREATE, refusal(403), ForbiddenError),
    (DELETE, refusal(409, "Conflict"), ConflictError),
    (DELETE, refusal(503), TryLaterError),
    (RELEASE, TransportError("reset"), TransportError),
    (START, refusal(404), NotFoundError),
])  # fmt: skip
def test_all_others_are_raised(carry_out, action, answer, error):
    with pytest.raises(error):
        carry_out(action, answer)


@pytest.mark.parametrize(("code", "refused"), [(403, "no"), (422, "no"), (409, "")])
def test_a_replacement_that_the_server_refuses_is_an_answer(carry_out, transport, code, refused):
    answers = stored(OWNER), refusal(code, "AlreadyExists" if code == 409 else "", "no")
    assert carry_out(START, *answers) == Effect(refused=refused)
    assert [request.method for request in sent(transport)] == ["GET", "POST"]


def test_a_replacement_that_is_created_must_show_in_the_cache(carry_out):
    effect = carry_out(START, stored(OWNER), stored())
    assert effect.touched == (Touched(kind=Kind.POD, key=ObjectKey("shop", "web-new"), version="42"),)


def test_a_nomination_is_taken_back_after_the_server_was_asked(carry_out, transport):
    assert carry_out(TAKE_BACK, stored({"metadata": {"uid": "h"}}), stored()).touched
    read, patch = sent(transport)
    assert (read.method, read.path) == ("GET", "/api/v1/namespaces/rescheduler/pods/room-x")
    assert (patch.method, patch.path) == ("PATCH", "/api/v1/namespaces/shop/pods/web-0/status")


WEB_1 = b.pod("web-1", "shop").uid("u1").build()
HAND_OVER = delete_placeholder(HOLDER, (WEB, WEB_1), "n1")
"""The placeholder of a room for two claimants."""


def nominated(uid, node="n1"):
    return stored({"metadata": {"uid": uid}, "status": {"nominatedNodeName": node} if node else {}})


def test_a_placeholder_is_deleted_after_the_server_was_asked_for_each_nomination(carry_out, transport):
    effect = carry_out(HAND_OVER, nominated("u"), nominated("u1"), stored())
    assert effect == Effect(touched=(Touched(kind=Kind.POD, key=HOLDER.key, deleted=True),))
    assert [(request.method, request.path) for request in sent(transport)] == [
        ("GET", "/api/v1/namespaces/shop/pods/web-0"),
        ("GET", "/api/v1/namespaces/shop/pods/web-1"),
        ("DELETE", "/api/v1/namespaces/rescheduler/pods/room-x"),
    ]


@pytest.mark.parametrize("node", [None, "n2"])
def test_a_claimant_that_lost_its_nomination_is_nominated_again_and_no_placeholder_is_deleted(
    carry_out, transport, node
):
    effect = carry_out(HAND_OVER, nominated("u"), nominated("u1", node), stored())
    assert [touched.key for touched in effect.touched] == [WEB_1.key]
    *_, write = sent(transport)
    assert (write.method, write.path) == ("PATCH", "/api/v1/namespaces/shop/pods/web-1/status")
    assert msgspec.json.decode(write.body)["status"] == {"nominatedNodeName": "n1"}


@pytest.mark.parametrize("answer", [refusal(404), nominated("another")], ids=["gone", "replaced"])
def test_no_placeholder_is_deleted_for_a_claimant_that_is_gone(carry_out, transport, answer):
    assert carry_out(HAND_OVER, answer) == Effect()
    assert [request.method for request in sent(transport)] == ["GET"]


def test_an_eviction_is_a_value_whatever_the_answer(carry_out):
    gone = Touched(kind=Kind.POD, key=WEB.key, deleted=True)
    evicted = EvictionResult(EvictionOutcome.EVICTED)
    assert carry_out(EVICT, stored()) == Effect(eviction=evicted, touched=(gone,))
    assert carry_out(EVICT, refusal(404, "NotFound")).eviction.outcome is EvictionOutcome.GONE
    assert carry_out(EVICT, TransportError("reset")).eviction.outcome is EvictionOutcome.UNKNOWN
    assert not carry_out(EVICT, refusal(404)).touched


def test_a_dry_run_of_an_eviction_changes_nothing(carry_out, transport):
    effect = carry_out(DRY_RUN_EVICT, stored(), leader=False)
    assert effect == Effect(eviction=EvictionResult(EvictionOutcome.EVICTED))
    assert sent(transport)[0].query == {"dryRun": "All"}


def test_nothing_is_evicted_without_leadership(carry_out, transport):
    with pytest.raises(NotLeaderError):
        carry_out(EVICT, stored(), leader=False)
    assert sent(transport) == []


def test_nothing_is_written_without_leadership(carry_out, transport):
    with pytest.raises(NotLeaderError):
        carry_out(NOMINATE, stored(), leader=False)
    assert sent(transport) == []


@pytest.mark.parametrize("proven", [True, False])
def test_a_proof_of_the_gate_is_a_value(carry_out, transport, mocker, proven):
    gate = mocker.Mock()
    gate.proves.return_value = proven
    assert carry_out(GateProbe(REPLICA_SET, "shop"), gate=gate) == Effect(gate_proven=proven)
    gate.proves.assert_called_once_with(REPLICA_SET, "shop")


@pytest.mark.parametrize("proven", [True, False])
def test_api_servers_are_counted_after_a_proof(carry_out, mocker, proven):
    gate, single = mocker.Mock(), mocker.Mock(return_value=True)
    gate.proves.return_value = proven
    effect = carry_out(GateProbe(REPLICA_SET, "shop"), gate=gate, single_api_server=single)
    assert effect == Effect(gate_proven=proven, single_api_server=proven)
    assert single.called is proven


def test_an_event_goes_to_the_recorder(transport, mocker):
    record = mocker.Mock()
    event = Event(ObjectReference("Pod", "web-0", "shop", "u"), "Moved", "to n1")
    sender = ApiSender(
        api=KubeApi(transport), gate=mocker.Mock(), still_leader=lambda: True, record_event=record
    )
    assert sender.send(event) == NO_EFFECT
    record.assert_called_once_with(event)
    assert sent(transport) == []


def test_a_dry_run_shows_each_call_once(mocker):
    log = mocker.Mock()
    sender = DryRunSender(CallLog(log))
    for _ in range(2):
        assert sender.send(EVICT) == sender.send(DELETE) == NO_EFFECT
    assert [call.kwargs["call"] for call in log.info.call_args_list] == [
        "EVICT /api/v1/namespaces/shop/pods/web-0/eviction uid=u",
        "DELETE /api/v1/namespaces/rescheduler/pods/room-x uid=h gracePeriodSeconds=1",
    ]
