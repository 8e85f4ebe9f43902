"""Templates that people write, on the real control plane: volumes, named nodes, rooms that keep apart."""

import pytest
from reserving import of_web, phase, placeholders, reserve, told

pytestmark = [pytest.mark.realcluster, pytest.mark.usefixtures("controller")]

DISK = "test.rescheduler.dev/disk"
VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def with_data(world):
    return {"volumes": VOLUMES, "containers": world.spec()["containers"]}


def disk(world, storage_class="", **spec):
    """A volume that only nodes with the label DISK: a reach."""
    term = {"matchExpressions": [{"key": DISK, "operator": "In", "values": ["a"]}]}
    name = f"{world.namespace}-disk"
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "hostPath": {"path": "/data"},
            **spec,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }
    world.api.create("/api/v1/persistentvolumes", body).expect()


def claim(world, **spec):
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "", **spec},
    }  # fmt: skip
    world.api.create(world.path("persistentvolumeclaims"), body).expect()


@pytest.fixture
def world(world):
    yield world
    for item in world.api.get("/api/v1/persistentvolumes").expect().items:
        if item["metadata"]["name"].startswith(world.namespace):
            world.api.delete(f"/api/v1/persistentvolumes/{item['metadata']['name']}")


def bound(world):
    path = world.path("persistentvolumeclaims", "data")
    return world.api.get(path).expect().body["status"].get("phase") == "Bound"


def test_room_for_pods_with_a_volume_is_held_where_the_volume_is(world):
    far, near = world.node("far", labels={DISK: "b"}), world.node("near", labels={DISK: "a"})
    disk(world)
    claim(world, volumeName=f"{world.namespace}-disk")
    world.wait(lambda: bound(world))
    reserve(world, "room", of_web(world), template=with_data(world)).expect()
    status = phase(world, "room", "Available")
    assert status["nodeName"] == near
    (holder,) = placeholders(world, "room")
    affinity = holder["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [t["matchExpressions"][0]["key"] for t in affinity["nodeSelectorTerms"]] == [DISK]
    assert "attach limits" in told(world, "room", "HeldCompletely")["message"]
    reserve(world, "wrong", of_web(world), node=far, template=with_data(world)).expect()
    words = told(world, "wrong", text="PersistentVolume's node affinity")["message"]
    assert words.startswith(f"node/{far}: ")
    assert placeholders(world, "wrong") == []


def test_a_claim_that_waits_for_its_pod_is_held_where_its_volume_can_be(world):
    world.node("far", labels={DISK: "b"})
    near = world.node("near", labels={DISK: "a"})
    name = f"{world.namespace}-late"
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    world.api.create("/apis/storage.k8s.io/v1/storageclasses", body).expect()
    disk(world, storage_class=name)
    claim(world, storageClassName=name)
    reserve(world, "room", of_web(world), template=with_data(world)).expect()
    assert phase(world, "room", "Available")["nodeName"] == near
    assert "claim data has no volume yet" in told(world, "room", "HeldCompletely")["message"]
    world.api.delete(f"/apis/storage.k8s.io/v1/storageclasses/{name}")
