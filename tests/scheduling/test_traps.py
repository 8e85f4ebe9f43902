"""Rules that are easy to get wrong, each found by running kube-scheduler's own code."""

import pytest

from harness.differential import named
from harness.differential.comparison import snapshot_of
from harness.differential.manifests import metadata, namespaced
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.state import SchedulingState

HOST = "kubernetes.io/hostname"


def node(name, *, pods="110", cpu="4", **labels):
    allocatable = {"cpu": cpu, "memory": "8Gi", **({"pods": pods} if pods else {})}
    meta = metadata(name, labels={HOST: name, **labels})
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}}


def pod(name, on="", *, labels=None, cpu="1", nominated="", deleting=False, **spec):
    made = named.pod(name, on, labels=labels, cpu=cpu, **spec)
    if nominated:
        made["status"]["nominatedNodeName"] = nominated
    if deleting:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def apart(key=HOST, **match):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": match}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(selector, *, skew=1, key=HOST):
    return [
        {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    ]


def verdicts(objects, name="asked", profile=None):
    snapshot = snapshot_of(
        [*objects, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata("default")}]
    )
    state = SchedulingState(snapshot, profile)
    return {v.node: v for v in state.explain(snapshot.pods["default", name])}


def reasons(verdict):
    return [(refusal.plugin, refusal.reason) for refusal in verdict.refusals]


def test_a_nominated_pods_anti_affinity_is_not_seen_by_a_pod_without_terms():
    nominated = pod("n", nominated="a", affinity=apart(app="x"), labels={"app": "y"})
    asked = pod("asked", labels={"app": "x"})
    assert verdicts([node("a"), nominated, asked])["a"].feasible
    running = pod("r", on="b", affinity=apart(app="x"))
    found = verdicts([node("a"), node("b"), nominated, running, asked])
    assert not found["a"].feasible, "a running pod's anti-affinity wakes the plugin up"


def test_nominated_pods_of_equal_priority_hold_their_room_and_lower_ones_do_not():
    objects = [node("a", cpu="1500m"), pod("asked", priority=5)]
    assert verdicts([*objects, pod("n", nominated="a", priority=4)])["a"].feasible
    found = verdicts([*objects, pod("n", nominated="a", priority=5)])["a"]
    assert reasons(found) == [("NodeResourcesFit", "Insufficient cpu")]
    assert not found.refusals[0].unresolvable


def test_nominated_pods_count_only_for_profiles_of_the_same_scheduler_process():
    objects = [node("a", cpu="1500m"), pod("n", nominated="a", schedulerName="batch"), pod("asked")]
    assert verdicts(objects)["a"].feasible
    together = Profile(process=frozenset({"batch"}))
    assert reasons(verdicts(objects, profile=together)["a"]) == [("NodeResourcesFit", "Insufficient cpu")]
    # Both are pods of another process than the profile's, which knows of its own nominations.
    foreign = pod("asked", schedulerName="batch")
    judged_by = Profile(stands_for=frozenset({"batch"}))
    assert not verdicts([*objects[:2], foreign], profile=judged_by)["a"].feasible
    assert verdicts([objects[0], pod("n", nominated="a"), foreign], profile=judged_by)["a"].feasible


def test_by_default_spread_a_zone_without_a_name_is_that_of_the_nodes_without_a_zone():
    service = namespaced("v1", "Service", "default", "s", {"selector": {"app": "x"}})
    zone = {named.ZONE: ""}
    nodes = [node("a", **zone), node("b"), node("c", **{named.ZONE: "z"})]
    on_b = [pod(f"b{i}", "b", labels={"app": "x"}, cpu="") for i in range(3)]
    on_c = [pod(f"c{i}", "c", labels={"app": "x"}, cpu="") for i in range(2)]
    found = verdicts([*nodes, service, *on_b, *on_c, pod("asked", labels={"app": "x"}, cpu="")])
    points = {name: dict(verdict.scores)["PodTopologySpread"] for name, verdict in found.items()}
    # The three pods on b count for a. Node b itself has no zone, so that only its host costs it anything.
    assert points == {"a": 75, "b": 100, "c": 58}


def test_fields_in_the_affinity_of_a_volume_are_passed_over():
    other = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    zone = {"matchExpressions": [{"key": named.ZONE, "operator": "In", "values": ["z"]}]}
    nodes = [node("a"), node("b", **{named.ZONE: "z"})]

    def taken(*terms):
        volume = named.volume("v", "c", reached_from=terms)
        asked = pod("asked", volumes=named.use("c"))
        found = verdicts([*nodes, volume, named.claim("c", volume="v"), asked])
        return {name for name, verdict in found.items() if verdict.feasible}

    assert taken(other) == {"a", "b"}, "a term of fields alone selects every node"
    assert taken({**zone, "matchFields": other["matchFields"]}) == {"b"}
    assert taken(zone) == {"b"}
    assert taken({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}) == set()


def test_a_pod_without_requests_passes_an_overfull_node_but_not_its_pod_limit():
    full = pod("r", on="a", cpu="9")
    assert verdicts([node("a"), full, pod("asked", cpu="")])["a"].feasible
    found = verdicts([node("a", pods="1"), full, pod("asked", cpu="")])["a"]
    assert reasons(found) == [("NodeResourcesFit", "Too many pods")]


def test_missing_allocatable_pods_means_none():
    assert reasons(verdicts([node("a", pods=""), pod("asked", cpu="")])["a"]) == [
        ("NodeResourcesFit", "Too many pods")
    ]


def test_several_reasons_are_unresolvable_together():
    found = verdicts([node("a", pods="0"), pod("asked", cpu="9")])["a"]
    assert reasons(found) == [("NodeResourcesFit", "Too many pods"), ("NodeResourcesFit", "Insufficient cpu")]
    assert all(refusal.unresolvable for refusal in found.refusals)


def test_an_empty_spread_selector_counts_nobody_but_the_pod_itself():
    crowd = [pod(f"r{i}", on="a") for i in range(3)]
    asked = pod("asked", topologySpreadConstraints=spread({}))
    assert verdicts([node("a"), node("b"), *crowd, asked])["a"].feasible


def test_terminating_pods_count_for_anti_affinity_and_not_for_spread():
    old = pod("r", on="a", labels={"app": "x"}, deleting=True)
    asked = pod("asked", labels={"app": "x"}, topologySpreadConstraints=spread({"matchLabels": {"app": "x"}}))
    assert verdicts([node("a"), node("b"), old, asked])["a"].feasible
    asked = pod("asked", labels={"app": "x"}, affinity=apart(app="x"))
    assert reasons(verdicts([node("a"), old, asked])["a"]) == [
        ("InterPodAffinity", "node(s) didn't match pod anti-affinity rules")
    ]


def test_a_node_without_one_key_drops_out_of_all_counts():
    selector = {"matchLabels": {"app": "x"}}
    both = spread(selector) + spread(selector, key="rack")
    asked = pod("asked", labels={"app": "x"}, topologySpreadConstraints=both)
    busy = pod("r", on="a", labels={"app": "x"})
    found = verdicts([node("a", rack="1"), node("empty"), busy, asked])
    assert found["a"].feasible, "the empty node has no rack, so it does not lower the minimum"
    assert reasons(found["empty"]) == [
        ("PodTopologySpread", "node(s) didn't match pod topology spread constraints (missing required label)")
    ]


def test_balance_is_scored_by_its_change_and_best_effort_pods_are_skipped():
    assert "NodeResourcesBalancedAllocation" not in dict(
        verdicts([node("a"), pod("asked", cpu="")])["a"].scores
    )
    even = pod("asked", cpu="2")
    even["spec"]["containers"][0]["resources"]["requests"]["memory"] = "4Gi"
    assert dict(verdicts([node("a"), even])["a"].scores)["NodeResourcesBalancedAllocation"] == 75


def test_pod_level_resources_are_left_out_of_the_fit_score_of_the_asked_pod():
    level = {"requests": {"cpu": "3", "memory": "6Gi"}}
    score = dict(verdicts([node("a"), pod("asked", cpu="0", resources=level)])["a"].scores)
    assert score["NodeResourcesFit"] == (100 + (8192 - 200) * 100 // 8192) // 2


def test_plugins_that_do_not_skip_score_zero():
    scores = dict(verdicts([node("a"), pod("asked")])["a"].scores)
    assert scores["VolumeBinding"] == 0
    assert scores["DynamicResources"] == 0
    assert "PodTopologySpread" not in scores


def test_named_nodes_narrow_the_choice_before_any_filter():
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    found = verdicts([node("a"), node("b", cpu="0"), pod("asked", affinity=affinity)])
    assert found["a"].feasible
    assert reasons(found["b"]) == [("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]")]


def test_a_gated_pod_is_refused_everywhere():
    found = verdicts([node("a"), pod("asked", schedulingGates=[{"name": "x/one"}, {"name": "x/two"}])])
    assert reasons(found["a"]) == [("SchedulingGates", "waiting for scheduling gates: [x/one x/two]")]


@pytest.mark.parametrize(("spec", "plugin", "words"), [
    ({"schedulerName": "other"}, "SchedulerName", "not judged"),
    ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]}, "DynamicResources", "left out"),
])  # fmt: skip
def test_what_is_left_out_is_refused_openly(spec, plugin, words):
    refusal = verdicts([node("a"), pod("asked", **spec)])["a"].refusals[0]
    assert refusal.plugin == plugin
    assert words in refusal.reason


def test_a_running_pods_foreign_ephemeral_claim_is_an_error_of_its_node():
    def with_scratch(name, on=""):
        claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
        volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
        return pod(name, on=on, volumes=[volume])

    def claim(name, owner):
        spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
        made = namespaced("v1", "PersistentVolumeClaim", "default", f"{name}-scratch", spec)
        reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": owner, "controller": True}
        made["metadata"]["ownerReferences"] = [reference]
        return made

    fast = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata("fast")}
    fast |= {"provisioner": "one.csi", "volumeBindingMode": "WaitForFirstConsumer"}
    driver = {"name": "one.csi", "nodeID": "a", "allocatable": {"count": 9}}
    limits = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata("a")}
    limits |= {"spec": {"drivers": [driver]}}
    objects = [node("a"), fast, limits, with_scratch("asked"), claim("asked", "uid-Pod-default-asked")]
    assert verdicts(objects)["a"].feasible
    found = verdicts([*objects, with_scratch("r", on="a"), claim("r", "another")])["a"]
    assert found.refusals[0].plugin == "NodeVolumeLimits"
    assert (
        "PVC default/r-scratch was not created for pod default/r (pod is not owner)"
        in found.refusals[0].reason
    )
