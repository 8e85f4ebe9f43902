"""Attach limits and migrated in-tree volumes, as kube-scheduler 1.37 counts and places them."""

import pytest

from harness.differential.comparison import snapshot_of
from harness.differential.manifests import metadata, namespaced
from rescheduler.scheduling.state import SchedulingState

STORAGE = "storage.k8s.io/v1"
DRIVER = "one.csi"
EBS = "ebs.csi.aws.com"
EXCEEDED = ("NodeVolumeLimits", "node(s) exceed max volume count")


def node(name="a", **labels):
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata(name, labels=labels), "status": {"allocatable": allocatable}}  # fmt: skip


def pod(name, on="", *volumes):
    made = namespaced("v1", "Pod", "default", name, {"containers": [{"name": "c"}], "volumes": list(volumes)})
    made["status"] = {"phase": "Running" if on else "Pending"}
    if on:
        made["spec"]["nodeName"] = on
    return made


def use(claim):
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


def bound(claim, **source):
    """A claim and its volume, which are named alike."""
    made = namespaced("v1", "PersistentVolumeClaim", "default", claim, {"volumeName": claim})
    made["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    labels = source.pop("labels", {})
    spec = source or {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{claim}"}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata(claim, labels=labels)}
    return [made, {**volume, "spec": spec}]


def csi_node(name="a", migrated="", **limits):
    drivers = [
        {"name": driver.replace("_", "."), "nodeID": name, "allocatable": {"count": count}}
        for driver, count in limits.items()
    ]
    meta = metadata(name)
    meta["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return {"apiVersion": STORAGE, "kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}


def demanded(driver):
    spec = {"preventPodSchedulingIfMissing": True}
    return {"apiVersion": STORAGE, "kind": "CSIDriver", "metadata": metadata(driver), "spec": spec}


def attachment(volume, on="a", attacher=DRIVER):
    spec = {"attacher": attacher, "nodeName": on, "source": {"persistentVolumeName": volume}}
    meta = metadata(f"{volume}-on-{on}")
    return {"apiVersion": STORAGE, "kind": "VolumeAttachment", "metadata": meta, "spec": spec}


def ask(*objects):
    """(plugin, reason) on node a; None if it takes the pod "asked"."""
    snapshot = snapshot_of(objects)
    state = SchedulingState(snapshot)
    asked = snapshot.pods["default", "asked"]
    verdict = next(v for v in state.explain(asked) if v.node == "a")
    assert verdict.feasible == bool(state.filter(asked).feasible[state.node_index["a"]])
    return None if verdict.feasible else (verdict.refusals[0].plugin, verdict.refusals[0].reason)


def test_a_volume_that_is_still_attached_counts_though_no_pod_uses_it():
    objects = [node(), csi_node(one_csi=1), *bound("mine"), *bound("left"), pod("asked", "", use("mine"))]
    assert ask(*objects) is None
    assert ask(*objects, attachment("left")) == EXCEEDED
    assert ask(*objects, attachment("left", on="b")) is None
    assert ask(*objects, attachment("no-such-volume")) is None
    assert ask(*objects, attachment("left", attacher="other.csi")) is None, "it counts for its attacher"


def test_the_attachment_of_a_running_pods_volume_counts_once():
    running = pod("r", "a", use("theirs"))
    objects = [node(), csi_node(one_csi=2), *bound("mine"), *bound("theirs"), running]
    assert ask(*objects, attachment("theirs"), pod("asked", "", use("mine"))) is None
    assert ask(*objects, attachment("theirs"), *bound("more"), attachment("more"), pod("asked", "", use("mine"))) == EXCEEDED  # fmt: skip


def test_a_pods_own_attachment_counts_twice_until_the_volume_is_detached():
    objects = [node(), csi_node(one_csi=1), *bound("mine"), pod("asked", "", use("mine"))]
    assert ask(*objects, attachment("mine")) == EXCEEDED


def test_attachments_of_in_tree_volumes_do_not_count():
    disk = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    mine = bound("mine", csi={"driver": EBS, "volumeHandle": "vol-2"})
    objects = [node(), csi_node(ebs_csi_aws_com=1), *bound("old", **disk), *mine]
    assert ask(*objects, attachment("old", attacher=EBS), pod("asked", "", use("mine"))) is None


def test_in_tree_volumes_count_only_where_there_is_a_csi_node():
    disk = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    missing = ("NodeVolumeLimits", f"{EBS} CSI driver is not installed on the node")
    for volume in (use("old"), {"name": "inline", **disk}):
        objects = [node(), demanded(EBS), *bound("old", **disk), pod("asked", "", volume)]
        assert ask(*objects) is None, "without a CSINode the volume is no CSI volume"
        assert ask(*objects, csi_node()) == missing
        assert ask(*objects, csi_node(ebs_csi_aws_com=1)) is None
        assert ask(*objects, csi_node(ebs_csi_aws_com=0)) == EXCEEDED


def test_one_disk_under_two_names_is_one_volume():
    running = pod("r", "a", {"name": "d", "awsElasticBlockStore": {"volumeID": "aws://z1/vol-1"}})
    mine = bound("mine", csi={"driver": EBS, "volumeHandle": "vol-1"})
    assert ask(node(), csi_node(ebs_csi_aws_com=1), running, *mine, pod("asked", "", use("mine"))) is None


@pytest.mark.parametrize("driver", ["one_csi", "other_csi"])
def test_only_limits_of_the_pods_drivers_matter(driver):
    crowd = [pod("r", "a", use("x"), use("y")), *bound("x"), *bound("y")]
    found = ask(node(), csi_node(**{driver: 1}), *crowd, *bound("mine"), pod("asked", "", use("mine")))
    assert found == (EXCEEDED if driver == "one_csi" else None)


def test_a_disk_without_a_csi_identity_is_an_error_of_its_node():
    bad = {"name": "bad", "awsElasticBlockStore": {"volumeID": "aws://z1/disk-1"}}
    error = (
        'running "NodeVolumeLimits" filter plugin: converting volume(bad) from inline to csi: failed to '
        "translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z1/disk-1)"
    )
    assert ask(node(), csi_node(), pod("asked", "", bad)) == ("NodeVolumeLimits", error)
    assert ask(node(), pod("asked", "", bad)) is None
    others = [node(), csi_node(one_csi=9), *bound("mine"), pod("asked", "", use("mine")), pod("r", "a", bad)]
    assert ask(*others) == ("NodeVolumeLimits", error), "it spoils the node for every pod with volumes"


def test_a_migrated_volume_is_placed_by_the_topology_of_its_driver():
    disk = {
        "gcePersistentDisk": {"pdName": "d"},
        "labels": {"topology.kubernetes.io/zone": "us-c1-a__us-c1-b"},
    }
    conflict = ("VolumeBinding", "node(s) didn't match PersistentVolume's node affinity")
    zone = {"topology.kubernetes.io/zone": "us-c1-a"}
    objects = [*bound("old", **disk), pod("asked", "", use("old"))]
    assert ask(node(**zone), *objects) is None
    migrated = csi_node(migrated="kubernetes.io/gce-pd,kubernetes.io/aws-ebs")
    assert ask(node(**zone), migrated, *objects) == conflict
    assert ask(node(**zone, **{"topology.gke.io/zone": "us-c1-b"}), migrated, *objects) is None
    assert ask(node(**zone), csi_node(migrated="kubernetes.io/aws-ebs"), *objects) is None


def test_a_migrated_volume_that_cannot_be_translated_is_an_error_of_the_node():
    zones = {"topology.kubernetes.io/zone": "us-c1-a__eu-c1-b"}
    disk = {"gcePersistentDisk": {"pdName": "d"}, "labels": zones}
    objects = [node(), *bound("old", **disk), pod("asked", "", use("old"))]
    assert ask(*objects, csi_node()) is None
    error = (
        'running "VolumeBinding" filter plugin: could not translate pv: failed to get region from zones: '
        "multiple or no regions gotten from zones, got: map[eu-c1:{} us-c1:{}]"
    )
    assert ask(*objects, csi_node(migrated="kubernetes.io/gce-pd")) == ("VolumeBinding", error)
