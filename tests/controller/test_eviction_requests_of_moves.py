"""Sending an eviction by EvictionRequest: whose turn it is decides whether the pod is evicted now."""

import msgspec
import pytest

from harness import builders as b
from rescheduler.calls.pods import evict, evict_by_request, withdraw_eviction_request
from rescheduler.controller.effects import Effect
from rescheduler.controller.own_config_maps import OwnConfigMaps
from rescheduler.controller.sender import ApiSender
from rescheduler.coordination.gate_proofs import GateProofs
from rescheduler.coordination.memory import Backoff
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ConflictError
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Response, Transport
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import EVICTOR, REQUESTER_OF_MOVES, RESPONDER
from rescheduler.model.outcomes import EvictionOutcome

POD = b.pod("web-1", namespace="shop").on("node-1").owner("ReplicaSet", "web", "u-web", "apps/v1").build()
MOVE = PodMigration(namespace="shop", name="m", uid="m-uid", pod_name="web-1", pod_uid=POD.uid, grace_s=7)
GROUP = "/apis/lifecycle.k8s.io/v1alpha1/namespaces/shop"


class Server:
    """Serves one Eviction per entry of ``evictions``, or no such API at all."""

    def __init__(self, evictions=(), *, served=True, filing=201, deleting=200):
        self.evictions, self.served, self.filing, self.deleting = list(evictions), served, filing, deleting
        self.sent = []

    def send(self, request):
        self.sent.append(request)
        return self._answer(request.method, request.path)

    def _answer(self, method, path):
        if path == "/apis":
            groups = [
                {"name": "lifecycle.k8s.io", "versions": [{"groupVersion": "lifecycle.k8s.io/v1alpha1"}]}
            ]
            return answer({"kind": "APIGroupList", "groups": groups if self.served else []})
        if path.endswith("/evictions"):
            return answer({"kind": "EvictionList", "metadata": {}, "items": self.evictions})
        if method == "DELETE" and self.deleting >= 400:
            return refusal(self.deleting)
        if path.endswith("/evictionrequests"):
            return refusal(self.filing) if self.filing >= 400 else answer({"kind": "EvictionRequest"}, 201)
        return answer({"kind": "Status", "status": "Success"}, 201 if method == "POST" else 200)

    def paths(self):
        return [(request.method, request.path) for request in self.sent if request.path != "/apis"]


def answer(body, status=200):
    return Response(status, msgspec.json.encode(body))


def refusal(status):
    reason = {403: "Forbidden", 409: "AlreadyExists"}[status]
    return answer(
        {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": "no"}, status
    )


def eviction(active, uid=POD.uid, message="", ends=()):
    return {
        "metadata": {"name": f"any-{active}", "namespace": "shop", "uid": f"e-{active}"},
        "spec": {"target": {"pod": {"name": "web-1", "uid": uid}}},
        "status": {
            "targetResponders": [
                {"name": "done.io/x", "state": "Completed"},
                {"name": active, "state": "Active"},
            ],
            "responders": [{"name": active, "message": message}],
            "conditions": [{"type": kind, "status": "True"} for kind in ends],
        },
    }


@pytest.fixture
def send(mocker):
    def run(call, server, *, gate_stands=lambda: True):
        transport = mocker.create_autospec(Transport, instance=True)
        transport.send.side_effect = server.send
        sender = ApiSender(
            api=KubeApi(transport, NO_RETRY),
            gate=mocker.Mock(),
            still_leader=lambda: True,
            gate_stands=gate_stands,
        )
        return sender.send(call)

    return run


EVICT = ("POST", "/api/v1/namespaces/shop/pods/web-1/eviction")


@pytest.mark.parametrize(("evictions", "says"), [
    ([], "waits for the evictionrequest-controller"),
    ([eviction("acme.io/x", uid="another")], "waits for the evictionrequest-controller"),
    ([eviction(RESPONDER, ends=["Failed"])], "waits for the evictionrequest-controller"),
    ([eviction("acme.io/x")], "responder acme.io/x goes first"),
    ([eviction("acme.io/x", message="40 %")], "responder acme.io/x goes first: 40 %"),
])  # fmt: skip
def test_while_another_responder_is_at_work_nobody_is_evicted(send, evictions, says):
    server = Server(evictions)
    result = send(evict_by_request(POD, MOVE), server).eviction
    assert result.outcome is EvictionOutcome.AWAITED
    assert says in result.message
    assert EVICT not in server.paths()


@pytest.mark.crossed
@pytest.mark.parametrize("active", [RESPONDER, EVICTOR])
@pytest.mark.parametrize("filing", [201, 409])
def test_in_the_turn_of_ours_or_of_the_last_one_the_pod_is_evicted(send, active, filing):
    server = Server([eviction(active)], filing=filing)
    assert send(evict_by_request(POD, MOVE), server).eviction.outcome is EvictionOutcome.EVICTED
    assert server.paths()[-1] == EVICT
    body = msgspec.json.decode(server.sent[-1].body)
    assert body["deleteOptions"] == {"preconditions": {"uid": POD.uid}, "gracePeriodSeconds": 7}


def test_the_request_names_pod_and_requester_and_ends_with_the_move(send):
    server = Server()
    send(evict_by_request(POD, MOVE), server)
    body = next(msgspec.json.decode(r.body) for r in server.sent if r.path == f"{GROUP}/evictionrequests")
    assert body["spec"] == {
        "target": {"pod": {"name": "web-1", "uid": POD.uid}},
        "requester": REQUESTER_OF_MOVES,
        "intent": "Eviction",
    }
    assert [(o["kind"], o["uid"]) for o in body["metadata"]["ownerReferences"]] == [("PodMigration", "m-uid")]
    send(withdraw_eviction_request(POD, MOVE), server)
    assert server.paths()[-1] == ("DELETE", f"{GROUP}/evictionrequests/{body['metadata']['name']}")


def test_where_the_api_is_not_served_the_pod_is_evicted_as_ever(send):
    server = Server(served=False)
    assert send(evict_by_request(POD, MOVE), server).eviction.outcome is EvictionOutcome.EVICTED
    assert server.paths() == [EVICT]
    assert send(withdraw_eviction_request(POD, MOVE), server) == Effect(request_withdrawn=True)
    assert server.paths() == [EVICT]


def test_without_the_right_to_ask_the_move_is_told_so_and_nobody_is_passed_over(send):
    server = Server([eviction(RESPONDER)], filing=403)
    assert send(evict_by_request(POD, MOVE), server).eviction.outcome is EvictionOutcome.FORBIDDEN
    assert EVICT not in server.paths()


def test_a_request_is_taken_back_even_while_the_gate_is_in_doubt(send):
    taken_back = send(withdraw_eviction_request(POD, MOVE), Server(), gate_stands=lambda: False)
    assert taken_back == Effect(request_withdrawn=True)


def test_who_may_not_delete_requests_has_filed_none_and_does_not_try_for_ever(send):
    server = Server(deleting=403)
    assert send(withdraw_eviction_request(POD, MOVE), server) == Effect(request_withdrawn=True)


def test_what_became_of_the_gate_while_it_was_asked_is_seen_before_the_eviction(send):
    server, answers = Server([eviction(EVICTOR)]), iter([True, False])
    with pytest.raises(ConflictError):
        send(evict_by_request(POD, MOVE), server, gate_stands=lambda: next(answers))
    assert EVICT not in server.paths()


def test_what_may_evict_says_so():
    assert evict(POD).evicts
    assert evict_by_request(POD, MOVE).evicts
    assert not evict(POD, dry_run=True).evicts
    assert not withdraw_eviction_request(POD, MOVE).evicts


@pytest.mark.parametrize("ends", [True, False])
def test_nobody_is_asked_to_go_while_the_gate_keys_are_about_to_end(mocker, ends):
    gate = mocker.Mock(behind=False, ends_before=lambda _: ends)
    maps = OwnConfigMaps(
        gate=gate,
        hints=mocker.Mock(),
        recorder=mocker.Mock(),
        backoff=Backoff(),
        proofs=GateProofs(),
        failed=mocker.Mock(),
        crashed=mocker.Mock(),
    )
    assert maps.gate_is_late([evict_by_request(POD, MOVE)], 0.0) is ends
    assert maps.gate_is_late([evict(POD)], 0.0) is ends
    assert not maps.gate_is_late([evict(POD, dry_run=True), withdraw_eviction_request(POD, MOVE)], 0.0)
