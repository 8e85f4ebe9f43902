"""Nobody steers, takes over or poses as what is not theirs: refused by the API server itself, metadata as well as spec."""

import pytest
from tenants import room

from harness import documents
from harness.controlplane.world import RESERVATIONS
from rescheduler.model import names

pytestmark = pytest.mark.realcluster
MOVES = "rescheduler.dev/v1alpha1"
STEERING = [
    {"annotations": {names.ANNOTATION_ORDER: "-5"}},
    {"annotations": {names.ANNOTATION_MODE: "Soft"}},
    {"annotations": {names.ANNOTATION_MIGRATION: "no/such"}},
    {"annotations": {"example.com/note": "x"}},
    {"labels": {names.LABEL_GROUP: "mine"}},
    {"finalizers": ["example.com/never"]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}]},
]


@pytest.fixture
def theirs(control_plane):
    """Path of a room for pods of a namespace that is not the team's."""
    admin = control_plane.api()
    body = room([{"controller": {"name": "web", "namespace": "default"}}])
    body["metadata"]["annotations"] = {names.ANNOTATION_ORDER: "1"}
    admin.create(RESERVATIONS, body).expect(201)
    path = f"{RESERVATIONS}/{body['metadata']['name']}"
    yield path
    admin.delete(path)


def own(mine):
    return room([{"controller": {"name": "web", "namespace": mine.namespace}}])


@pytest.mark.parametrize("metadata", STEERING)
def test_the_metadata_of_a_room_of_others_is_as_safe_as_its_spec(team, theirs, metadata):
    answer = team.patch(theirs, {"metadata": metadata}).expect(403)
    # Marks are refused by two rules, and the API server names either of them.
    marked = names.ANNOTATION_MIGRATION in metadata.get("annotations", {})
    rules = ("reservation-owners", "reservation-marks") if marked else ("reservation-owners",)
    assert any(rule in answer.body["message"] for rule in rules)


def test_what_steers_a_room_cannot_be_taken_off_it_either(team, theirs):
    team.patch(theirs, {"metadata": {"annotations": None}}).expect(403)


@pytest.mark.parametrize("metadata", [STEERING[0], STEERING[1], STEERING[4], STEERING[5]])
def test_the_metadata_of_an_own_room_may_be_changed(team, mine, metadata):
    body = own(mine)
    path = f"{RESERVATIONS}/{body['metadata']['name']}"
    team.create(RESERVATIONS, body).expect(201)
    team.patch(path, {"metadata": metadata}).expect(200)
    team.patch(path, {"metadata": {"finalizers": None}}).expect(200)
    team.delete(path).expect(200)


@pytest.mark.parametrize("key", [names.ANNOTATION_MIGRATION, names.ANNOTATION_MIGRATION_UID])
def test_nobody_makes_a_room_in_the_name_of_a_move(team, mine, key):
    body = own(mine)
    body["metadata"]["annotations"] = {key: f"{mine.namespace}/move"}
    answer = team.create(RESERVATIONS, body).expect(403)
    assert "only the controller may say for which PodMigration" in answer.body["message"]
    del body["metadata"]["annotations"]
    team.create(RESERVATIONS, body).expect(201)
    path = f"{RESERVATIONS}/{body['metadata']['name']}"
    team.patch(path, {"metadata": {"annotations": {key: "x"}}}).expect(403)
    team.delete(path).expect(200)


def test_nobody_takes_a_name_that_a_move_will_use(team, mine):
    body = own(mine)
    body["metadata"]["name"] += names.MOVE_SUFFIX
    assert "choose another name" in team.create(RESERVATIONS, body).expect(403).body["message"]


def migration(**labels):
    wish = {"paused": True, "policy": "LowNodeUtilization"}
    return documents.migration("m", "web-0", meta={"labels": labels}, **wish)


@pytest.mark.parametrize(
    "labels", [{names.LABEL_CREATED_BY: names.CREATED_BY}, {names.LABEL_WORKLOAD_UID: "of-somebody"}]
)
def test_no_move_that_people_ask_for_poses_as_a_planned_one(control_plane, team, mine, labels):
    path = mine.path("podmigrations", group=MOVES)
    assert "only the controller" in team.create(path, migration(**labels)).expect(403).body["message"]
    team.create(path, migration(**{names.LABEL_CREATED_BY: "helm"})).expect(201)
    team.patch(f"{path}/m", {"metadata": {"labels": labels}}).expect(403)
    team.delete(f"{path}/m").expect(200)
    control_plane.api().create(path, migration(**labels)).expect(201)
    taken_off = {"metadata": {"labels": dict.fromkeys(labels)}}
    team.patch(f"{path}/m", taken_off).expect(403)
    team.patch(f"{path}/m", {"spec": {"ttl": "1m"}}).expect(200)
    team.delete(f"{path}/m").expect(200)


def test_nobody_has_a_pod_step_aside_for_another_room_than_was_planned(control_plane, team, mine):
    """A move that fails gives up the room that it makes: a planned one of its own namespace is no lever on others' rooms."""
    path, key = mine.path("podmigrations", group=MOVES), names.ANNOTATION_MAKES_ROOM
    body = migration()
    body["metadata"]["annotations"] = {key: "big.pending"}
    assert "steps aside" in team.create(path, body).expect(403).body["message"]
    planned = migration(**{names.LABEL_CREATED_BY: names.CREATED_BY})
    planned["metadata"]["annotations"] = {key: "own.pending"}
    control_plane.api().create(path, planned).expect(201)
    for value in ("big.pending", None):
        team.patch(f"{path}/m", {"metadata": {"annotations": {key: value}}}).expect(403)
    team.patch(f"{path}/m", {"metadata": {"annotations": {"example.com/note": "x"}}}).expect(200)
    team.delete(f"{path}/m").expect(200)


def test_only_the_controller_says_after_which_moves_another_begins(control_plane, team, mine):
    path, body = mine.path("podmigrations", group=MOVES), migration()
    body["spec"]["after"] = ["default/a", "kube-system/b"]
    assert "only the controller" in team.create(path, body).expect(403).body["message"]
    team.create(path, migration()).expect(201)
    added = team.patch(f"{path}/m", {"spec": {"after": ["default/a"]}})
    assert "after is immutable" in added.expect(422).body["message"]
    team.delete(f"{path}/m").expect(200)
    admin = control_plane.api()
    for damaged in (["a"], ["a/b/c"], ["/a"], ["a/b"] * 9):
        admin.create(path, {**body, "spec": {**body["spec"], "after": damaged}}).expect(422)
    admin.create(path, body).expect(201)
    team.patch(f"{path}/m", {"spec": {"after": None}}).expect(422)
    team.patch(f"{path}/m", {"spec": {"after": ["default/c"]}}).expect(422)
    team.patch(f"{path}/m", {"spec": {"ttl": "1m"}}).expect(200)
    team.delete(f"{path}/m").expect(200)


def test_the_status_is_written_by_the_controller_only(team, mine, theirs):
    path = mine.path("podmigrations", group=MOVES)
    team.create(path, migration()).expect(201)
    team.patch(f"{path}/m/status", {"status": {"reservationUid": "of-somebody"}}).expect(403)
    team.patch(f"{theirs}/status", {"status": {"phase": "Available"}}).expect(403)
    team.delete(f"{path}/m").expect(200)


@pytest.mark.parametrize("forged", [{}, {names.ANNOTATION_REQUESTED_BY: "kubernetes-admin"}])
def test_nobody_asks_for_a_move_in_the_name_of_somebody_else(control_plane, team, mine, forged):
    path, body = mine.path("podmigrations", group=MOVES), migration()
    body["metadata"]["annotations"] = {**forged, "example.com/note": "x"}
    made = team.create(path, body).expect(201).body
    who = f"system:serviceaccount:{mine.namespace}:team"
    assert made["metadata"]["annotations"][names.ANNOTATION_REQUESTED_BY] == who
    # An administrator changes it no more than the team does: it is put back, or the change is refused.
    for client in (team, control_plane.api()):
        for other in ("kubernetes-admin", None):
            client.patch(f"{path}/m", {"metadata": {"annotations": {names.ANNOTATION_REQUESTED_BY: other}}})
            kept = team.get(f"{path}/m").expect(200).body["metadata"]["annotations"]
            assert kept[names.ANNOTATION_REQUESTED_BY] == who
    team.patch(f"{path}/m", {"spec": {"ttl": "1m"}}).expect(200)
    team.delete(f"{path}/m").expect(200)


def test_a_room_has_the_name_of_its_author(team, mine):
    body = own(mine)
    path = f"{RESERVATIONS}/{body['metadata']['name']}"
    made = team.create(RESERVATIONS, body).expect(201).body
    assert made["metadata"]["annotations"][names.ANNOTATION_REQUESTED_BY].endswith(":team")
    replaced = team.update(path, {**made, "metadata": {**made["metadata"], "annotations": {}}})
    assert replaced.expect(200).body["metadata"]["annotations"] == made["metadata"]["annotations"]
    team.delete(path).expect(200)


@pytest.mark.parametrize("name", [names.PRIORITY_CLASS, names.PRIORITY_CLASS_SOFT])
def test_the_priority_of_placeholders_is_for_placeholders(control_plane, team, mine, name):
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "first"},
        "spec": {**mine.spec(), "priorityClassName": name},
    }
    answer = team.create(mine.path("pods"), body).expect(403)
    assert "is for placeholders in namespace rescheduler only" in answer.body["message"]
    control_plane.api().create(mine.path("pods"), body).expect(403)
    del body["spec"]["priorityClassName"]
    team.create(mine.path("pods"), body, dryRun="All").expect(201)
