"""Deletion, finalizers, patches, server-side apply, pods' rules."""

import pytest

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
GATED = {"schedulingGates": [{"name": "x.example/a"}, {"name": "x.example/b"}]}


def bound(client, made, name="p", **spec):
    client.post(PODS, made.pod(name, **spec))
    client.post(f"{PODS}/{name}/binding", made.binding(name, "n1"))


def test_a_bound_pod_goes_after_its_grace(client, made):
    bound(client, made, terminationGracePeriodSeconds=7)
    status, body = client.delete(f"{PODS}/p")
    assert status == 200
    assert body["metadata"]["deletionGracePeriodSeconds"] == 7
    assert body["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:07Z"
    assert client.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})[0] == 200
    assert client.get(f"{PODS}/p")[0] == 404


def test_a_later_deletion_may_only_shorten_the_grace(client, made):
    bound(client, made)
    client.delete(f"{PODS}/p", {"gracePeriodSeconds": 10})
    assert (
        client.delete(f"{PODS}/p", {"gracePeriodSeconds": 20})[1]["metadata"]["deletionGracePeriodSeconds"]
        == 10
    )
    assert (
        client.delete(f"{PODS}/p", {"gracePeriodSeconds": 5})[1]["metadata"]["deletionGracePeriodSeconds"]
        == 5
    )


def test_an_unbound_pod_goes_at_once(client, made):
    client.post(PODS, made.pod())
    client.delete(f"{PODS}/p")
    assert client.get(f"{PODS}/p")[0] == 404


def test_the_last_finalizer_removes_a_terminating_object(client, made):
    body = made.config_map("a")
    body["metadata"]["finalizers"] = ["x.example/f"]
    client.post(MAPS, body)
    client.delete(f"{MAPS}/a")
    assert client.get(f"{MAPS}/a")[1]["metadata"]["deletionTimestamp"]
    client.patch(f"{MAPS}/a", {"metadata": {"finalizers": None}})
    assert client.get(f"{MAPS}/a")[0] == 404


@pytest.mark.parametrize("key", ["uid", "resourceVersion"])
def test_preconditions_of_a_deletion(client, made, key):
    client.post(MAPS, made.config_map("a"))
    status, body = client.delete(f"{MAPS}/a", {"preconditions": {key: "77"}})
    assert (status, body["reason"]) == (409, "Conflict")
    assert client.get(f"{MAPS}/a")[0] == 200


def test_a_dry_run_changes_nothing(client, made):
    client.post(MAPS, made.config_map("kept"))
    version = client.get(MAPS)[1]["metadata"]["resourceVersion"]
    assert client.post(MAPS, made.config_map("a"), dryRun="All")[0] == 201
    client.patch(f"{MAPS}/kept", {"data": {"x": "y"}}, dryRun="All")
    client.delete(f"{MAPS}/kept", dryRun="All")
    assert client.get(MAPS)[1]["metadata"]["resourceVersion"] == version


def test_a_stale_version_is_a_conflict(client, made):
    old = client.post(MAPS, made.config_map("a"))[1]
    client.patch(f"{MAPS}/a", {"data": {"x": "1"}})
    status, body = client.put(f"{MAPS}/a", old)
    assert (status, body["reason"]) == (409, "Conflict")
    status, _ = client.patch(
        f"{MAPS}/a", {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}}
    )
    assert status == 409


def test_a_foreign_uid_is_409_in_a_put_and_422_in_a_patch(client, made):
    old = client.post(MAPS, made.config_map("a"))[1]
    old["metadata"] = {"name": "a", "uid": "other"}
    assert client.put(f"{MAPS}/a", old)[0] == 409
    assert client.patch(f"{MAPS}/a", {"metadata": {"uid": "other"}})[0] == 422


def test_gates_only_go_away(client, made):
    client.post(PODS, made.pod(**GATED))
    ungate = {"spec": {"schedulingGates": [{"name": "x.example/a", "$patch": "delete"}]}}
    body = client.patch(f"{PODS}/p", ungate, STRATEGIC)[1]
    assert body["spec"]["schedulingGates"] == [{"name": "x.example/b"}]
    status, body = client.patch(
        f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "x.example/new"}]}}, STRATEGIC
    )
    assert (status, body["details"]["causes"][0]["reason"]) == (422, "FieldValueForbidden")


def test_a_gated_pod_cannot_be_bound_and_a_new_one_not_be_born_bound(client, made):
    client.post(PODS, made.pod(**GATED))
    assert client.post(f"{PODS}/p/binding", made.binding("p", "n1"))[0] == 409
    assert client.post(PODS, made.pod("q", nodeName="n1", **GATED))[0] == 422


def test_one_patch_tightens_and_ungates(client, made):
    client.post(PODS, made.pod(**GATED))
    change = {"spec": {"schedulingGates": None, "nodeSelector": {"kubernetes.io/hostname": "n1"}}}
    status, body = client.patch(f"{PODS}/p", change)
    assert (status, "schedulingGates" in body["spec"]) == (200, False)
    assert client.patch(f"{PODS}/p", {"spec": {"nodeSelector": {"zone": "a"}}})[0] == 422


def test_required_affinity_of_a_gated_pod_only_tightens(client, made):
    def affinity(*terms):
        required = {"nodeSelectorTerms": [{"matchExpressions": list(t)} for t in terms]}
        return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}

    one = {"key": "a", "operator": "Exists"}
    two = {"key": "b", "operator": "Exists"}
    client.post(PODS, made.pod(**GATED, **affinity([one])))
    assert client.patch(f"{PODS}/p", {"spec": affinity([one, two])})[0] == 200
    assert client.patch(f"{PODS}/p", {"spec": affinity([one])})[0] == 422
    assert client.patch(f"{PODS}/p", {"spec": affinity([one, two], [two])})[0] == 422


def test_binding_sets_the_node_once_and_clears_the_nomination(client, made):
    client.post(PODS, made.pod())
    client.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "n1"}})
    assert client.post(f"{PODS}/p/binding", made.binding("p", "n1"))[0] == 201
    body = client.get(f"{PODS}/p")[1]
    assert body["spec"]["nodeName"] == "n1"
    assert "nominatedNodeName" not in body["status"]
    assert client.post(f"{PODS}/p/binding", made.binding("p", "n2"))[0] == 409


def test_status_and_spec_have_their_own_endpoints(client, made):
    client.post(PODS, made.pod())
    client.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}, "spec": {"nodeName": "n9"}})
    body = client.get(f"{PODS}/p")[1]
    assert body["status"]["phase"] == "Running"
    assert "nodeName" not in body["spec"]
    client.patch(f"{PODS}/p", {"status": {"phase": "Failed"}})
    assert client.get(f"{PODS}/p")[1]["status"]["phase"] == "Running"


def test_a_strategic_patch_merges_containers_by_name(client, made):
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": n, "image": "i:1"} for n in ("a", "b", "c")]},
    }
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    base = "/apis/apps/v1/namespaces/default/deployments"
    client.post(
        base, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    )
    containers = [
        {"name": "b", "image": "i:2"},
        {"name": "a", "$patch": "delete"},
        {"name": "z", "image": "i:3"},
    ]
    change = {"template": {"spec": {"containers": containers}}}
    status, body = client.patch(f"{base}/d", {"spec": change}, STRATEGIC)
    assert status == 200
    found = [(c["name"], c["image"]) for c in body["spec"]["template"]["spec"]["containers"]]
    assert found == [("b", "i:2"), ("c", "i:1"), ("z", "i:3")]
    assert body["metadata"]["generation"] == 2


def test_json_patches_apply_in_order_or_not_at_all(client, made):
    client.post(MAPS, made.config_map("a", x="1"))
    steps = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "copy", "from": "/data/x", "path": "/data/y"},
        {"op": "replace", "path": "/data/x", "value": "2"},
        {"op": "add", "path": "/metadata/labels", "value": {"a~b": "c"}},
    ]
    client.patch(f"{MAPS}/a", steps[:3], JSON_PATCH)
    assert client.get(f"{MAPS}/a")[1]["data"] == {"x": "2", "y": "1"}
    assert client.patch(f"{MAPS}/a", steps[:1], JSON_PATCH)[0] == 422


def test_an_apply_creates_and_merges(client):
    def applied(**data):
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}

    path = f"{MAPS}/a"
    assert client.patch(path, applied(x="1"), APPLY, fieldManager="one")[0] == 201
    assert client.patch(path, applied(z="3"), APPLY, fieldManager="two")[1]["data"] == {"x": "1", "z": "3"}
    assert client.patch(path, applied(), APPLY)[0] == 422


def test_nothing_is_made_in_a_namespace_that_is_missing_or_terminating(client, made):
    assert client.post("/api/v1/namespaces/none/configmaps", made.config_map("a"))[0] == 404
    client.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}})
    client.delete("/api/v1/namespaces/t")
    status, body = client.post("/api/v1/namespaces/t/configmaps", made.config_map("a"))
    assert (status, body["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")


def test_priorities_come_from_their_class(client, made):
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 7,
    }
    client.post(classes, {**body, "preemptionPolicy": "Never"})
    spec = client.post(PODS, made.pod(priorityClassName="high"))[1]["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    assert client.post(PODS, made.pod("q", priorityClassName="none"))[0] == 403
    client.post(classes, {**body, "metadata": {"name": "usual"}, "value": 3, "globalDefault": True})
    assert client.post(PODS, made.pod("r"))[1]["spec"]["priorityClassName"] == "usual"


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"apiVersion": "v1", "kind": "Pod", "metadata": []},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": ["a"]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": "none"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [7]}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}},
    ],
)
def test_malformed_objects_are_refused_in_words(client, body):
    status, answer = client.post(PODS, body)
    assert (status, answer["kind"], answer["reason"]) in (
        (400, "Status", "BadRequest"),
        (422, "Status", "Invalid"),
    )
    assert client.get(PODS)[1]["items"] == []


def test_events_are_one_in_both_groups(client):
    new = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "hello",
    }
    assert client.post("/apis/events.k8s.io/v1/namespaces/default/events", new)[1]["note"] == "hello"
    old = client.get("/api/v1/namespaces/default/events/e")[1]
    assert (old["message"], old["involvedObject"]["name"], old["apiVersion"]) == ("hello", "p", "v1")
    listed = client.get("/api/v1/namespaces/default/events", fieldSelector="involvedObject.name=p")[1]
    assert len(listed["items"]) == 1
