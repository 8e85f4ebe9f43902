"""StatefulSets, DaemonSets and Jobs on the sandbox."""

from harness import documents
from kube_sandbox.controllers.unstructured import GroupKind, spec, status
from kube_sandbox.nodes import SandboxNode

SET = ("apps", "StatefulSet")
CLAIM = GroupKind("", "PersistentVolumeClaim")
VOLUME = GroupKind("", "PersistentVolume")


def names(lab, app):
    return sorted(p["metadata"]["name"] for p in lab.pods(app))


def test_stateful_pods_start_one_after_the_other(lab, objects):
    one = lab()
    one.create(objects.workload("StatefulSet", "db", 3))
    most_unready = []

    def up():
        most_unready.append(sum(not objects.is_ready(p) for p in one.pods("db")))
        return len(one.ready("db")) == 3

    one.until(up)
    assert names(one, "db") == ["db-0", "db-1", "db-2"]
    assert max(most_unready) == 1


def test_parallel_stateful_pods_start_together(lab, objects):
    one = lab()
    one.create(objects.workload("StatefulSet", "db", 3, podManagementPolicy="Parallel"))
    one.cluster.settle()
    assert names(one, "db") == ["db-0", "db-1", "db-2"]


def test_scale_down_removes_the_highest_ordinal(lab, objects):
    one = lab()
    one.create(objects.workload("StatefulSet", "db", 3))
    one.until(lambda: len(one.ready("db")) == 3)
    one.patch(*SET, "db", {"spec": {"replicas": 1}})
    one.until(lambda: names(one, "db") == ["db-0"])


def test_stateful_update_goes_from_the_top_down_to_the_partition(lab, objects):
    one = lab()
    partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    one.create(objects.workload("StatefulSet", "db", 3, updateStrategy=partition))
    one.until(lambda: len(one.ready("db")) == 3)
    before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in one.pods("db")}
    one.patch(*SET, "db", {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}})
    one.cluster.advance(20)
    after = {p["metadata"]["name"]: p["metadata"]["uid"] for p in one.pods("db")}
    assert {n for n in after if after[n] != before[n]} == {"db-1", "db-2"}
    assert len(one.ready("db")) == 3


def test_pod_below_the_partition_comes_back_with_its_old_template(lab, objects):
    one = lab()
    partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    one.create(objects.workload("StatefulSet", "db", 2, updateStrategy=partition))
    one.until(lambda: len(one.ready("db")) == 2)
    one.patch(*SET, "db", {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}})
    one.cluster.advance(20)
    old = one.get("", "Pod", "db-0")
    one.api.delete(old)
    one.cluster.advance(20)
    versions = {p["metadata"]["name"]: p["metadata"]["labels"].get("version") for p in one.ready("db")}
    assert versions == {"db-0": None, "db-1": "2"}
    assert one.get("", "Pod", "db-0")["metadata"]["uid"] != old["metadata"]["uid"]


def test_claims_are_made_provisioned_in_the_zone_and_kept(lab, objects):
    one = lab()
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "csi.example",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    one.create(storage)
    template = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    one.create(objects.workload("StatefulSet", "db", 2, volumeClaimTemplates=[template]))
    one.until(lambda: len(one.ready("db")) == 2)
    claims = one.api.list(CLAIM)
    assert [c["metadata"]["name"] for c in claims] == ["data-db-0", "data-db-1"]
    assert {status(c)["phase"] for c in claims} == {"Bound"}
    volume = one.api.list(VOLUME)[0]
    assert spec(volume)["nodeAffinity"]["required"]["nodeSelectorTerms"]
    zone_node = spec(one.get("", "Pod", "db-0"))["nodeName"]
    one.patch(*SET, "db", {"spec": {"replicas": 0}})
    one.until(lambda: not one.pods("db"))
    one.patch(*SET, "db", {"spec": {"replicas": 1}})
    one.until(lambda: len(one.ready("db")) == 1)
    assert len(one.api.list(CLAIM)) == 2
    assert spec(one.get("", "Pod", "db-0"))["nodeName"] == zone_node  # three zones, one node in each


def test_daemon_follows_new_nodes_and_ignores_cordons(lab, objects):
    one = lab(1)
    one.create(objects.workload("DaemonSet", "agent", 0, cpu="100m"))
    one.until(lambda: len(one.ready("agent")) == 1)
    one.patch("", "Node", "n1", {"spec": {"unschedulable": True}}, namespace="")
    one.cluster.add_node(SandboxNode(name="n9"))
    one.until(lambda: one.spread_of("agent") == ["n1", "n9"])


def job(name, objects, *, annotations=None, **fields):
    template = {"metadata": {"labels": {"app": name}}, "spec": documents.pod_spec(restartPolicy="Never")}
    template["metadata"]["annotations"] = annotations or {"sandbox.rescheduler.dev/run-for": "5"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, **fields},
    }


def test_job_gives_up_after_its_backoff_limit(lab, objects):
    one = lab()
    failing = {"sandbox.rescheduler.dev/run-for": "1", "sandbox.rescheduler.dev/exit-code": "1"}
    one.create(job("bad", objects, annotations=failing, completions=1, parallelism=1, backoffLimit=2))
    one.until(lambda: bool(status(one.get("batch", "Job", "bad")).get("conditions")))
    found = status(one.get("batch", "Job", "bad"))
    assert found["conditions"][0]["type"] == "Failed"
    assert found["failed"] == 3
