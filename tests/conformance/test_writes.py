"""Creating, updating and patching: conflicts, preconditions, dry runs, the three kinds of patches."""

import pytest

from harness.controlplane.api import APPLY, JSON_PATCH, MERGE, STRATEGIC


@pytest.fixture
def maps(world):
    return world.path("configmaps")


@pytest.fixture
def stored(world, maps):
    body = {"metadata": {"name": "one", "labels": {"a": "1"}}, "data": {"x": "1", "y": "2"}}
    return world.api.create(maps, body).expect(201).body


def test_a_created_object_has_what_the_server_adds(world, stored):
    metadata = stored["metadata"]
    assert stored["kind"] == "ConfigMap"
    assert metadata["namespace"] == world.namespace
    assert metadata["uid"]
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")


def test_a_name_exists_once(api, maps, stored):
    answer = api.create(maps, {"metadata": {"name": "one"}})
    assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")


def test_generate_name_makes_names(api, maps):
    made = [api.create(maps, {"metadata": {"generateName": "gen-"}}).expect(201) for _ in range(2)]
    names = {answer.body["metadata"]["name"] for answer in made}
    assert len(names) == 2
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)


@pytest.mark.parametrize("name", ["UPPER", "with space", "-a", "x" * 254])
def test_bad_names_are_refused(api, maps, name):
    answer = api.create(maps, {"metadata": {"name": name}})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


def test_a_stale_update_conflicts(api, maps, stored):
    api.patch(f"{maps}/one", {"data": {"x": "2"}}).expect(200)
    answer = api.update(f"{maps}/one", stored)
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


def test_an_update_with_the_present_version_is_stored(api, maps, stored):
    answer = api.update(f"{maps}/one", {**stored, "data": {"z": "9"}}).expect(200)
    assert answer.body["data"] == {"z": "9"}
    assert int(answer.version) > int(stored["metadata"]["resourceVersion"])


def test_an_update_that_changes_nothing_keeps_the_version(api, maps, stored):
    assert api.patch(f"{maps}/one", {"data": {"x": "1"}}).version == stored["metadata"]["resourceVersion"]


def test_a_merge_patch_adds_and_removes(api, maps, stored):
    answer = api.patch(
        f"{maps}/one", {"data": {"x": None, "z": "3"}, "metadata": {"labels": {"a": None}}}, MERGE
    )
    assert answer.expect(200).body["data"] == {"y": "2", "z": "3"}
    assert "labels" not in answer.body["metadata"]


def test_a_json_patch_tests_and_changes(api, maps, stored):
    path = f"{maps}/one"
    done = api.patch(
        path,
        [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "replace", "path": "/data/x", "value": "5"}],
        JSON_PATCH,
    )
    assert done.expect(200).body["data"]["x"] == "5"
    assert api.patch(path, [{"op": "test", "path": "/data/x", "value": "1"}], JSON_PATCH).status == 422
    assert api.patch(path, [{"op": "remove", "path": "/data/none"}], JSON_PATCH).status == 422


def test_a_patch_with_a_stale_version_conflicts(api, maps, stored):
    api.patch(f"{maps}/one", {"data": {"x": "2"}}).expect(200)
    body = {"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]}, "data": {"x": "3"}}
    assert api.patch(f"{maps}/one", body).status == 409


def test_a_patch_with_a_wrong_uid_is_refused(world):
    pod = world.pod("p", gates=["example.com/wait"])
    other = {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}}
    for kind in (MERGE, STRATEGIC):
        assert world.api.patch(world.path("pods", "p"), other, kind).status in (409, 422)
        assert world.api.patch(world.path("pods", "p", "status"), other, kind).status in (409, 422)
    assert world.get_pod("p")["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


def test_a_strategic_patch_merges_lists_by_their_key(world):
    world.pod("p", gates=["example.com/one", "example.com/two"], labels={"a": "1"})
    body = {
        "metadata": {"labels": {"b": "2"}},
        "spec": {"schedulingGates": [{"name": "example.com/one", "$patch": "delete"}]},
    }
    pod = world.api.patch(world.path("pods", "p"), body, STRATEGIC).expect(200).body
    assert pod["spec"]["schedulingGates"] == [{"name": "example.com/two"}]
    assert pod["metadata"]["labels"] == {"a": "1", "b": "2"}


def test_a_strategic_patch_merges_conditions(world):
    world.pod("p", gates=["example.com/one"])
    path = world.path("pods", "p", "status")
    for kind in ("example.com/a", "example.com/b"):
        world.api.patch(
            path, {"status": {"conditions": [{"type": kind, "status": "True"}]}}, STRATEGIC
        ).expect(200)
    kinds = {condition["type"] for condition in world.get_pod("p")["status"]["conditions"]}
    assert {"example.com/a", "example.com/b"} <= kinds


def test_custom_resources_know_no_strategic_patch(api, world):
    path = "/apis/rescheduler.dev/v1alpha1/reservations/none"
    assert api.patch(path, {"spec": {}}, STRATEGIC).status in (404, 415)


def test_an_unknown_patch_type_is_refused(api, maps, stored):
    assert api.patch(f"{maps}/one", {}, "application/nonsense").status == 415


def test_an_apply_creates_and_merges(api, maps):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
    api.patch(f"{maps}/applied", body, APPLY, fieldManager="first").expect(201)
    changed = api.patch(f"{maps}/applied", {**body, "data": {"b": "2"}}, APPLY, fieldManager="second")
    assert changed.expect(200).body["data"] == {"a": "1", "b": "2"}


def test_a_dry_run_stores_nothing(api, maps, stored):
    assert api.create(maps, {"metadata": {"name": "ghost"}}, dryRun="All").status == 201
    assert api.get(f"{maps}/ghost").status == 404
    api.patch(f"{maps}/one", {"data": {"x": "8"}}, dryRun="All").expect(200)
    assert api.get(f"{maps}/one").body["data"]["x"] == "1"
    api.delete(f"{maps}/one", dryRun="All").expect(200)
    assert api.get(f"{maps}/one").ok


def test_a_delete_obeys_its_preconditions(api, maps, stored):
    def delete(**preconditions):
        return api.delete(
            f"{maps}/one", {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        )

    assert delete(uid="11111111-1111-1111-1111-111111111111").status == 409
    assert delete(uid=stored["metadata"]["uid"], resourceVersion="1").status == 409
    assert delete(uid=stored["metadata"]["uid"]).status == 200
    assert api.get(f"{maps}/one").status == 404
    assert delete(uid=stored["metadata"]["uid"]).status == 404


def test_finalizers_keep_an_object_until_they_are_gone(api, maps):
    body = {"metadata": {"name": "kept", "finalizers": ["example.com/wait"]}}
    api.create(maps, body).expect(201)
    api.delete(f"{maps}/kept").expect(200)
    assert api.get(f"{maps}/kept").body["metadata"]["deletionTimestamp"]
    api.patch(f"{maps}/kept", {"metadata": {"finalizers": None}}).expect(200)
    assert api.get(f"{maps}/kept").status == 404


def test_status_and_spec_are_written_apart(world):
    world.workload("ReplicaSet", "rs", 0)
    path = world.path("replicasets", "rs", group="apps/v1")
    world.api.patch(path, {"status": {"replicas": 7}, "spec": {"minReadySeconds": 1}}).expect(200)
    stored = world.api.get(path).body
    assert stored["status"]["replicas"] == 0
    assert stored["spec"]["minReadySeconds"] == 1
    generation = stored["metadata"]["generation"]
    world.api.patch(f"{path}/status", {"spec": {"minReadySeconds": 9}, "status": {}}).expect(200)
    stored = world.api.get(path).body
    assert (stored["spec"]["minReadySeconds"], stored["metadata"]["generation"]) == (1, generation)


def test_a_body_that_is_no_object_is_refused(api, maps):
    assert api.create(maps, []).status in (400, 422)
    assert api.create(maps, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}).status == 400
