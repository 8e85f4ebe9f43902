"""How large a template may be: refused at admission, and what was stored before can still be marked, finished and deleted."""

import json
import secrets

import pytest

from harness import documents
from harness.controlplane import manifests
from harness.controlplane.api import MERGE
from harness.controlplane.world import RESERVATIONS
from rescheduler.model.bounds import MOST_TEMPLATE_BYTES

POLICY = "reservation-template.rescheduler.dev"
OWNERS = [{"controller": {"kind": "Deployment", "name": "web", "namespace": "default"}}]
WINDOW = {"cron": "0 8 * * *", "timeZone": "Etc/UTC", "duration": "1h", "podNumToReserve": 1}
KINDS = {"Reservation": {"ttl": "5m"}, "ReservationWindow": WINDOW, "HeadRoom": {"rooms": 1}}
FILLED = {
    "one long text": {"command": ["x" * 900_000]},
    "many short texts": {"command": ["x"] * 16_000},
    "many objects": {"env": [{"name": "A", "value": "b"} for _ in range(2_500)]},
    "many keys": {"resources": {"requests": {f"example.com/{number}": "0" for number in range(3_500)}}},
    "letters of several bytes": {"command": ["é" * 33_000]},
}


def template(container):
    return {"spec": {"containers": [{"name": "c", **container}]}}


def body(kind, container, name="large"):
    spec = {**KINDS[kind], "owners": OWNERS, "template": template(container)}
    return documents.own(kind, name, spec)


def path(kind):
    return f"/apis/rescheduler.dev/v1alpha1/{kind.lower()}s"


@pytest.mark.parametrize("container", FILLED.values(), ids=FILLED)
def test_a_template_above_the_bound_is_refused_with_what_to_leave_out(api, container):
    words = api.create(path("Reservation"), body("Reservation", container), dryRun="All").expect(422).body
    assert "spec.template is larger than 64 KiB; leave out what holds no room" in words["message"]


@pytest.mark.parametrize("kind", ["ReservationWindow", "HeadRoom"])
def test_that_of_other_kinds_is_refused_too(api, kind):
    large, small = ({"command": ["x" * size]} for size in (900_000, 60_000))
    words = api.create(path(kind), body(kind, large), dryRun="All").expect(422).body
    assert "larger than 64 KiB" in words["message"]
    api.create(path(kind), body(kind, small), dryRun="All").expect(201)


def test_nothing_is_admitted_that_the_program_does_not_keep(api):
    """The bound of admission is one of the text, which is longer than JSON without white space."""
    size = MOST_TEMPLATE_BYTES - len(json.dumps(template({"command": [""]}), separators=(",", ":")))
    api.create(
        path("Reservation"), body("Reservation", {"command": ["x" * (size - 99)]}), dryRun="All"
    ).expect(201)
    api.create(
        path("Reservation"), body("Reservation", {"command": ["x" * (size + 1)]}), dryRun="All"
    ).expect(422)


def test_what_was_stored_before_can_be_marked_finished_and_deleted(api, world):
    """An older version has admitted it; its template cannot be changed, so no other rule stands in the way either."""
    name = f"large-{secrets.token_hex(4)}"
    (binding,) = (
        obj
        for obj in manifests.load()
        if obj["kind"] == "ValidatingAdmissionPolicyBinding" and obj["metadata"]["name"] == POLICY
    )
    large = body("Reservation", {"command": ["x" * 900_000]}, name)
    large["metadata"]["finalizers"] = ["example.com/kept"]
    api.delete(manifests.path_of(binding)).expect()
    try:
        world.wait(lambda: api.create(RESERVATIONS, large).ok)
    finally:
        manifests.apply(api, [binding])
    again = body("Reservation", {"command": ["x" * 900_000]}, f"{name}-2")
    world.wait(lambda: api.create(RESERVATIONS, again, dryRun="All").status == 422)
    its = f"{RESERVATIONS}/{name}"
    api.patch(its, {"metadata": {"labels": {"team": "a"}}}, MERGE).expect()
    api.patch(its, {"spec": {"ttl": "1m"}}, MERGE).expect()
    api.patch(f"{its}/status", {"status": {"phase": "Failed", "layout": 1}}, MERGE).expect()
    api.delete(its).expect()
    api.patch(its, {"metadata": {"finalizers": None}}, MERGE).expect()
    api.get(its).expect(404)
