"""A dump without some kinds is planned, and each kind that is missing is named with what the plan assumes."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import builders as b

HEAD = "it is assumed that "


def cluster():
    """A cluster of all kinds that a plan looks at."""
    web = b.deployment("web", "shop").cpu("500m").replicas(2)
    db = b.statefulset("db", "shop").replicas(1).claim("data")
    old = b.replicaset("old", "shop").replicas(1)
    near = {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"a": "b"}}, "labelSelector": {}}
    run = b.job("run", "shop")
    return [
        b.node("n1").zone("a").taint("maintenance"),
        b.node("n2").zone("a"),
        b.namespace("shop"),
        web,
        b.replicaset("web-1", "shop").replicas(2).owned_by(web),
        old,
        old.pod("old-1").on("n2").set("spec.priorityClassName", "mine"),
        old.pod("old-2").on("n2").set(
            "spec.affinity", {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
        ),
        db,
        db.pod("db-0").on("n1"),
        run,
        run.pod("run-1").on("n2"),
        b.priority_class("mine", 7),
        b.pdb("web", "shop").allows(1),
        b.volume("disk"),
        b.claim("data", "shop").bound_to("disk"),
        b.claim("more", "shop"),
        b.storage_class("fast"),
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"}, "spec": {"drivers": []}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"}, "spec": {"hard": {"pods": "100"}}},
    ]  # fmt: skip


def manifests(without=()):
    found = [one if isinstance(one, dict) else one.manifest() for one in cluster()]
    return [one for one in found if one["kind"] not in without]


WORDS = {
    "PodDisruptionBudget": f"no PodDisruptionBudgets: {HEAD}no budget forbids an eviction",
    "ResourceQuota": f"no ResourceQuotas: {HEAD}no quota refuses",
    "ReplicaSet": f"no ReplicaSets: {HEAD}each pod is replaced by one like it",
    "StatefulSet": f"no StatefulSets: {HEAD}each pod is replaced by one like it",
    "Job": f"no Jobs: {HEAD}each pod is replaced by one like it",
    "Deployment": f"no Deployments: {HEAD}no rollout is under way",
    "PriorityClass": f"no PriorityClasses: {HEAD}each replacement has the priority of its pod",
    "PersistentVolumeClaim": "no PersistentVolumeClaims: pods with claims fit on no node",
    "PersistentVolume": "no PersistentVolumes: pods with bound claims fit on no node",
    "StorageClass": "no StorageClasses: claims that are not bound get no volume",
    "CSINode": f"no CSINodes: {HEAD}each node attaches any number of volumes",
    "Namespace": f"no Namespaces: {HEAD}no namespace has labels",
}


def test_a_whole_dump_is_planned_without_a_word(command, dump):
    assert "the dump has no" not in command("plan", "--from", dump(manifests())).stderr


@pytest.mark.parametrize("kind", WORDS)
def test_each_kind_that_is_missing_is_named(command, dump, kind):
    done = command("plan", "--from", dump(manifests({kind})))
    assert done.exit_code == 0
    (line,) = [line for line in done.stderr.splitlines() if "the dump has no" in line]
    assert WORDS[kind] in line
    assert "write it with: kubectl get nodes,pods,replicasets" in line


def test_nodes_and_pods_alone_are_planned_with_all_that_is_missing(command, dump):
    done = command("plan", "--from", dump(manifests(set(WORDS))), "-o", "json")
    assert done.exit_code == 0
    named = {kind for kind, words in WORDS.items() if words in done.stderr}
    # Only ReplicaSets say that there are Deployments, and only claims that there are volumes.
    assert named == WORDS.keys() - {"Deployment", "PersistentVolume", "StorageClass", "CSINode"}
    assert done.stderr.count("write it with:") == 1
    assert any("no PodDisruptionBudgets" in text for text in json.loads(done.stdout)["metadata"]["warnings"])


def test_what_is_said_of_claims_is_so(command, dump, tmp_path):
    config = tmp_path / "config.yaml"
    head = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
    config.write_text(f"{head}protections: {{persistentVolumes: false}}\npolicies: [{{name: NodeTaints}}]\n")

    def moved(without):
        shown = command("plan", "--from", dump(manifests(without)), "-o", "json", "--config", config).stdout
        return {move["pod"]["name"] for move in json.loads(shown)["moves"]}

    assert "db-0" in moved({"CSINode"})
    assert "db-0" not in moved({"PersistentVolume"}) | moved({"PersistentVolumeClaim"})


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(without=st.sets(st.sampled_from(sorted(WORDS))))
def test_no_subset_of_kinds_ends_in_a_traceback_or_is_passed_over(command, dump, without):
    done = command("plan", "--from", dump(manifests(without)))
    assert done.exit_code == 0
    implied = {"Deployment": "ReplicaSet", "PersistentVolume": "PersistentVolumeClaim", "StorageClass": "PersistentVolumeClaim", "CSINode": "PersistentVolume"}  # fmt: skip
    for kind, words in WORDS.items():
        seen = implied.get(kind) not in without
        assert (words in done.stderr) is (kind in without and seen)
