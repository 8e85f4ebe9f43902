"""A room for several pods that is used completely lives on, and takes back what an owner leaves."""

from scenes import Scene

from harness import documents
from kube_sandbox.controllers.unstructured import spec


def cpu_room(scene, name, cpu, **wish):
    """A room on n2 whose template names CPU only; the pods of Deployment web request memory, too."""
    pod = documents.pod_spec(cpu, nodeName="n2")
    scene.api.create(documents.reservation(name, pod, [documents.owner("web")], **wish))
    scene.until(lambda: scene.phase(name) == "Available")


def full_but_for_a_room(**wish):
    """One pod on n1, which is full, and all CPU of n2 held."""
    scene = Scene({"n1": 1, "n2": 2})
    scene.workload(nodes=["n1"])
    scene.start()
    cpu_room(scene, "room", "2", **wish)
    return scene


def test_the_restarted_owner_of_a_full_room_comes_back_into_it():
    scene = full_but_for_a_room(allocateOnce=False)
    scene.scale(3)
    scene.until(lambda: len(scene.on("n2")) == 2)
    scene.crowd(6)
    for _ in range(2):
        scene.advance(15.0)
        old = scene.on("n2")[0]
        scene.api.delete(old)
        uid = old["metadata"]["uid"]
        scene.until(
            lambda uid=uid: len(now := scene.on("n2")) == 2 and uid not in {p["metadata"]["uid"] for p in now}
        )
    scene.advance(10.0)
    assert scene.phase("room") == "Available"
    assert not [p for p in scene.pods("crowd") if spec(p).get("nodeName") == "n2"]
    assert scene.faults == []
