"""What a writer reads off an answer beside its content: uid, version, time, names that were made. All else of writes: the comparison of
answers in ``tests/sandbox/apiserver/test_apiserver_same_answers.py``, which leaves these out because they differ from server to server."""

import pytest


@pytest.fixture
def maps(world):
    return world.path("configmaps")


@pytest.fixture
def stored(world, maps):
    return world.api.create(maps, {"metadata": {"name": "one"}, "data": {"x": "1"}}).expect(201).body


def test_a_created_object_has_what_the_server_adds(world, stored):
    metadata = stored["metadata"]
    assert stored["kind"] == "ConfigMap"
    assert metadata["namespace"] == world.namespace
    assert metadata["uid"]
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")


def test_generate_name_makes_names(api, maps):
    made = [api.create(maps, {"metadata": {"generateName": "gen-"}}).expect(201) for _ in range(2)]
    names = {answer.body["metadata"]["name"] for answer in made}
    assert len(names) == 2
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)


def test_an_update_counts_only_with_the_present_version(api, maps, stored):
    changed = api.update(f"{maps}/one", {**stored, "data": {"z": "9"}}).expect(200)
    assert int(changed.version) > int(stored["metadata"]["resourceVersion"])
    assert api.update(f"{maps}/one", stored).status == 409
    body = {"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]}, "data": {"x": "3"}}
    assert api.patch(f"{maps}/one", body).status == 409
    assert api.delete(f"{maps}/one", {"preconditions": body["metadata"]}).status == 409


def test_an_update_that_changes_nothing_keeps_the_version(api, maps, stored):
    assert api.patch(f"{maps}/one", {"data": {"x": "1"}}).version == stored["metadata"]["resourceVersion"]


def test_a_dry_run_of_a_delete_is_asked_for_in_the_body_where_there_is_one(api, maps, stored):
    path = f"{maps}/one"
    api.delete(path, dryRun="All").expect(200)
    api.delete(path, {"kind": "DeleteOptions", "dryRun": ["All"]}).expect(200)
    assert api.get(path).uid == stored["metadata"]["uid"]
    api.delete(path, {"kind": "DeleteOptions"}, dryRun="All").expect(200)
    assert api.get(path).status == 404


def test_a_delete_of_this_object_alone_finds_no_other_one(api, maps, stored):
    preconditions = {"uid": stored["metadata"]["uid"]}
    assert api.delete(f"{maps}/one", {"preconditions": preconditions}).status == 200
    assert api.delete(f"{maps}/one", {"preconditions": preconditions}).status == 404


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
