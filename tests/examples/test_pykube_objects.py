"""The pykube objects: what they write, what they read, and how they wait."""

import pytest

pytest.importorskip("pykube")

from pykube import Deployment, Pod
from pykube.exceptions import HTTPError

from rescheduler import pykube
from rescheduler.model.migration import MoveMode
from rescheduler.pykube import FailedError, PodMigration, Reservation


@pytest.fixture
def web():
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web"}]}}
    return Deployment(
        None, {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": template}}
    )


@pytest.fixture
def pod():
    return Pod(None, {"metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"}})


@pytest.fixture
def reading(mocker):
    """reading(object, status or error, ...): what the object reads, one after the other; nobody sleeps meanwhile."""
    mocker.patch.object(pykube, "POLL_S", 0.0)

    def answers(thing, *given):
        left = list(given)

        def reload():
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            thing.obj["status"] = answer

        return mocker.patch.object(thing, "reload", side_effect=reload)

    return answers


def condition(kind, reason, message):
    return {"type": kind, "status": "False", "reason": reason, "message": message}


def test_a_reservation_holds_what_the_template_of_the_workload_asks_for(web):
    reservation = Reservation.for_workload(web, "peak", ttl="1h", node="n1")
    spec = reservation.obj["spec"]
    assert reservation.namespace is None
    assert spec["template"]["spec"] == {"containers": [{"name": "web"}], "nodeName": "n1"}
    assert spec["owners"] == [
        {"controller": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}}
    ]
    assert spec["ttl"] == "1h"
    assert "nodeName" not in web.obj["spec"]["template"]["spec"]


def test_a_move_names_the_pod_by_its_uid(pod):
    move = PodMigration.of_pod(pod, target="n2", reservation="peak", mode=MoveMode.START_FIRST, ttl="5m")
    assert move.namespace == "shop"
    assert move.obj["spec"] == {
        "podRef": {"name": "web-1", "uid": "u1"},
        "mode": "StartFirst",
        "target": {"nodeName": "n2"},
        "reservationRef": {"name": "peak"},
        "ttl": "5m",
    }


def test_what_passes_by_itself_is_waited_for(web, reading):
    reservation = Reservation.for_workload(web, "peak")
    reload = reading(
        reservation,
        {},
        ConnectionError("refused"),
        HTTPError(503, "starting"),
        {"phase": "Available", "nodeName": "n1"},
    )
    assert reservation.wait_until_available(timeout_s=10).node == "n1"
    assert reload.call_count == 4


def test_a_refusal_is_the_callers(web, reading):
    reservation = Reservation.for_workload(web, "peak")
    reload = reading(reservation, HTTPError(404, "not found"))
    with pytest.raises(HTTPError, match="not found"):
        reservation.wait_until_available(timeout_s=10)
    assert reload.call_count == 1


def test_a_pending_reservation_ends_the_wait_with_the_words_of_the_scheduler(web, reading):
    reservation = Reservation.for_workload(web, "peak")
    pending = [condition("Ready", "", ""), condition("Scheduled", "Unschedulable", "0/3 nodes are available")]
    reading(reservation, {"phase": "Pending", "conditions": pending})
    with pytest.raises(TimeoutError, match=r"Pending after 0\.1 s: Unschedulable: 0/3 nodes are available"):
        reservation.wait_until_available(timeout_s=0.1)


def test_a_failed_reservation_is_an_error_with_its_reason(web, reading):
    reservation = Reservation.for_workload(web, "peak")
    reading(
        reservation, {"phase": "Failed", "conditions": [condition("Ready", "Expired", "its time is over")]}
    )
    with pytest.raises(FailedError, match="its time is over") as failed:
        reservation.wait_until_used(timeout_s=10)
    assert failed.value.reason == "Expired"


def test_a_used_reservation_says_which_pods_use_it(web, reading):
    reservation = Reservation.for_workload(web, "peak")
    reading(
        reservation,
        {"phase": "Succeeded", "currentOwners": [{"namespace": "shop", "name": "web-2", "uid": "u2"}]},
    )
    assert reservation.wait_until_used(timeout_s=10).pods == ["shop/web-2"]


def test_a_move_is_waited_for_until_its_replacement_landed(pod, reading):
    move = PodMigration.of_pod(pod)
    landed = {"phase": "Succeeded", "sourceNode": "n1", "nodeName": "n2", "replacement": {"name": "web-2"}}
    reading(move, {"phase": "Reserving"}, {"phase": "HandingOver"}, landed)
    move.obj["metadata"]["name"] = "web-1-abcde"
    assert move.wait_until_landed(timeout_s=10) is move
    assert (move.source, move.node, move.replacement) == ("n1", "n2", "web-2")


def test_a_failed_move_is_an_error_with_its_reason(pod, reading):
    move = PodMigration.of_pod(pod)
    move.obj["metadata"]["name"] = "web-1-abcde"
    reading(move, {"phase": "Failed", "reason": "NotMovable", "message": "its controller is a DaemonSet"})
    with pytest.raises(FailedError, match=r"shop/web-1-abcde failed: NotMovable") as failed:
        move.wait_until_landed(timeout_s=10)
    assert failed.value.message == "its controller is a DaemonSet"
