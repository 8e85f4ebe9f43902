"""The project's own kinds: schemas, defaults, CEL rules, status, columns."""

import pytest

from harness import documents
from harness.controlplane.world import RESERVATIONS
from tests.conformance.conftest import REAL_ONLY

ONE_POD = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}


@pytest.fixture
def reserve(world):
    made = []

    def create(name="r", *, dry_run=False, **spec):
        spec = {"template": ONE_POD, "owners": [{"object": {"name": "x"}}], **spec}
        body = documents.own("Reservation", f"{world.namespace}-{name}", spec)
        answer = world.api.create(RESERVATIONS, body, **({"dryRun": "All"} if dry_run else {}))
        if answer.ok and not dry_run:
            made.append(f"{RESERVATIONS}/{world.namespace}-{name}")
        return answer

    yield create
    for path in made:
        world.api.delete(path)


def migrate(world, **spec):
    body = documents.own("PodMigration", "m", {"podRef": {"name": "p"}, **spec})
    return world.api.create(world.path("podmigrations", group="rescheduler.dev/v1alpha1"), body)


def listed(*sizes):
    """Owners by labels that list so many values each."""
    return [
        {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["v"] * size}]}}
        for size in sizes
    ]


def test_defaults_are_filled_in(reserve):
    spec = reserve().expect(201).body["spec"]
    assert (spec["allocateOnce"], spec["preAllocation"]) == (True, False)
    assert "ttl" not in spec


def test_the_template_is_kept_as_it_is(reserve, world):
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {**ONE_POD["spec"], "overhead": {"cpu": "10m"}, "tolerations": [{"operator": "Exists"}]},
    }
    assert reserve(template=template).expect(201).body["spec"]["template"] == template


def refused(answer, message):
    return (answer.status, answer.body["reason"], message in answer.body["message"]) == (422, "Invalid", True)


@REAL_ONLY
@pytest.mark.parametrize(("spec", "message"), [
    ({"ttl": "5m", "expires": "2040-01-01T00:00:00Z"}, "ttl and expires exclude each other"),
    ({"ttl": "-5m"}, "ttl is a duration that is not negative"),
    ({"ttl": "5 minutes"}, "ttl is a duration that is not negative"),
    ({"ttl": 5}, "spec.ttl"),
    ({"ttl": "8761h"}, "ttl is at most 8760h"),
    ({"ttl": "99999999999999999999h"}, "spec.ttl"),
    ({"owners": [{}]}, "an owner names an object, a controller or a labelSelector"),
    ({"owners": [{"object": {"namespace": "default"}}]}, "object needs a name or a uid"),
    ({"owners": [{"controller": {"kind": "ReplicaSet"}}]}, "controller needs a name or a uid"),
    ({"owners": [{"labelSelector": {}}]}, "an empty labelSelector would match every pod"),
    ({"owners": [{"object": {"uid": "u"}}]}, "nothing here finds a pod"),
    ({"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}]}, "nothing here finds a pod"),
    ({"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]}, "In and NotIn need values"),
])  # fmt: skip
def test_bad_reservations_are_refused_by_rules(reserve, spec, message):
    assert refused(reserve(**spec), message)


@REAL_ONLY
@pytest.mark.parametrize(("spec", "message"), [
    ({"expires": "tomorrow"}, "spec.expires"),
    ({"owners": []}, "spec.owners"),
    ({"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]}, "Unsupported value"),
    ({"owners": listed(49)}, "Too many: 49: must have at most 48 items"),
    ({"owners": listed(*[4] * 16)}, "may list at most 48 values (operator In); use a label that the pods share"),
    ({"owners": listed(*[1] * 17)}, "Too many: 17: must have at most 16 items"),
    ({"owners": [{"labelSelector": {"matchLabels": {"k" * 318: "v"}}}]}, "has at most 317 characters"),
    ({"owners": [{"labelSelector": {"matchLabels": {f"k{i}": "v" for i in range(17)}}}]}, "Too many: 17"),
    ({"template": {"spec": {}}}, "spec.template.spec.containers"),
    ({"template": {"spec": {"containers": []}}}, "spec.template.spec.containers"),
    ({"allocateOnce": "yes"}, "spec.allocateOnce"),
])  # fmt: skip
def test_bad_reservations_are_refused_by_the_schema(reserve, spec, message):
    assert refused(reserve(**spec), message)


@REAL_ONLY
@pytest.mark.parametrize("spec", [
    {"ttl": "0"},
    {"ttl": "0s"},
    {"ttl": "8760h"},
    {"ttl": "+5m"},
    {"ttl": "500ms"},
    {"ttl": "1h30m"},
    {"ttl": "1.5s"},
    {"expires": "2040-01-01T00:00:00Z"},
    {"owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}, {"controller": {"uid": "u", "namespace": "n"}}]},
    {"template": {"spec": {**ONE_POD["spec"], "nodeName": "n1"}}},
    {"owners": listed(48)},
    {"owners": listed(*[3] * 16)},
])  # fmt: skip
def test_good_reservations_are_taken(reserve, spec):
    assert reserve(dry_run=True, **spec).status == 201


@REAL_ONLY
def test_what_is_held_cannot_be_changed(reserve, world):
    body = reserve().expect(201).body
    path = f"{RESERVATIONS}/{body['metadata']['name']}"
    body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    answer = world.api.update(path, body)
    assert (answer.status, "the template is immutable" in answer.body["message"]) == (422, True)
    for change in ({"allocateOnce": False}, {"preAllocation": True}):
        assert world.api.patch(path, {"spec": change}).status == 422
    assert world.api.patch(path, {"spec": {"ttl": "1h"}}).status == 200


def test_status_is_apart_and_checked(reserve, world):
    made = reserve().expect(201)
    path = f"{RESERVATIONS}/{made.body['metadata']['name']}"
    assert "status" not in made.body
    status = {
        "phase": "Available",
        "nodeName": "n1",
        "allocatable": {"cpu": "1", "memory": 1024},
        "expires": "2040-01-01T00:00:00.123456Z",
        "conditions": [{"type": "Ready", "status": "True", "reason": "Available", "message": ""}],
        "currentOwners": [{"namespace": "a", "name": "b", "uid": "c"}],
    }
    assert world.api.patch(path, {"status": status}).expect(200).body.get("status") is None
    stored = world.api.patch(f"{path}/status", {"status": status, "spec": {"ttl": "9h"}}).expect(200).body
    assert stored["status"] == status
    assert "ttl" not in stored["spec"]
    assert stored["metadata"]["generation"] == 1


@REAL_ONLY
def test_a_phase_is_one_of_those_that_are_known(reserve, world):
    path = f"{RESERVATIONS}/{reserve().expect(201).body['metadata']['name']}/status"
    assert world.api.patch(path, {"status": {"phase": "Lost"}}).status == 422


def test_a_claim_is_a_compare_and_swap(reserve, world):
    made = reserve().expect(201).body
    path = f"{RESERVATIONS}/{made['metadata']['name']}/status"

    def claim(uid):
        return world.api.update(
            path, {**made, "status": {"phase": "Available", "currentOwners": [{"uid": uid}]}}
        )

    assert (claim("first").status, claim("second").status) == (200, 409)


def test_unknown_fields_are_dropped_or_refused(reserve, world):
    spec = {"template": ONE_POD, "owners": [{"object": {"name": "x"}}], "colour": "red"}
    body = documents.own("Reservation", "unknown", spec)
    dropped = world.api.create(RESERVATIONS, body, dryRun="All").expect(201)
    assert "colour" not in dropped.body["spec"]
    assert world.api.create(RESERVATIONS, body, dryRun="All", fieldValidation="Strict").status == 400


@REAL_ONLY
@pytest.mark.parametrize(("spec", "message"), [
    ({"podRef": {}}, "spec.podRef.name"),
    ({"mode": "Sideways"}, "spec.mode"),
    ({"target": {"nodeName": ""}}, "spec.target.nodeName"),
    ({"deleteOptions": {"gracePeriodSeconds": -1}}, "spec.deleteOptions.gracePeriodSeconds"),
])  # fmt: skip
def test_bad_migrations_are_refused_by_the_schema(world, spec, message):
    assert refused(migrate(world, **spec), message)


@REAL_ONLY
@pytest.mark.parametrize("field", ["ttl", "hint"])
def test_a_migration_takes_durations(world, field):
    assert refused(migrate(world, **{field: "soon"}), f"{field} is a duration")
    assert refused(migrate(world, **{field: "169h"}), "at most 168h")
    assert refused(migrate(world, **{field: "2000000h"}), "at most 168h")
    assert migrate(world, **{field: "168h"}).status == 201


@REAL_ONLY
def test_what_a_migration_moves_cannot_be_changed(world):
    assert migrate(world).expect(201).body["spec"]["mode"] == "Auto"
    path = world.path("podmigrations", "m", group="rescheduler.dev/v1alpha1")
    patch = world.api.patch
    assert patch(path, {"spec": {"podRef": {"name": "other"}}}).status == 422
    assert patch(path, {"spec": {"podRef": {"uid": "u1"}}}).status == 200
    assert patch(path, {"spec": {"podRef": {"uid": "u2"}}}).status == 422
    assert patch(path, {"spec": {"target": {"nodeName": "n1"}}}).status == 200
    assert patch(path, {"spec": {"target": {"nodeName": "n2"}}}).status == 422
    assert patch(path, {"spec": {"paused": True}}).status == 200
    assert patch(path, {"spec": {"mode": "Soft"}}).status == 422


def test_the_kinds_are_discovered(api):
    resources = api.get("/apis/rescheduler.dev/v1alpha1").expect(200).body["resources"]
    found = {resource["name"]: resource for resource in resources}
    assert found["reservations"]["shortNames"] == ["rsv"]
    assert found["podmigrations"]["shortNames"] == ["pmig"]
    assert found["podmigrations"]["namespaced"] is True
    assert found["reservations"]["categories"] == ["rescheduler"]
    assert {"reservations/status", "podmigrations/status"} <= found.keys()
