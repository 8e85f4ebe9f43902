"""Pods that take for ever to end after their eviction: their owners say how long that is, and other workloads move on."""

from scenes import Scene

from harness import documents
from harness.histories.user_requests import MOVE
from rescheduler.model.names import ANNOTATION_EVICT

DOCUMENT = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 30s
limits: {movesAtOnce: 2, perNode: 2, perNamespace: 2}
policies: [{name: NodeTaints, after: 0s}]
"""
FOR_EVER = {"sandbox.rescheduler.dev/stop-after": "never"}
"""As a container that does not end, in a pod with a grace period of a year."""


def create(scene, name, annotations):
    pod = documents.pod_spec("1", "64Mi", terminationGracePeriodSeconds=31_536_000)
    scene.api.create(
        documents.workload("StatefulSet", name, 1, pod, namespace="default", annotations=annotations)
    )
    scene.until(lambda: scene.ready(name))


def test_moves_whose_pods_do_not_end_hold_up_no_other_workload():
    scene = Scene({"n1": 8, "n2": 8})
    scene.cordon("n2")
    for name in ("slow-1", "slow-2"):  # as many as may move at once
        create(scene, name, FOR_EVER)
    create(scene, "web", {ANNOTATION_EVICT: "false"})
    scene.uncordon("n2")
    scene.start(document=DOCUMENT)
    scene.taint("n1")
    scene.until(lambda: len(scene.calls.of(lambda call: call.evicts)) == 2)
    (web,) = scene.pods()
    scene.api.patch(web, {"metadata": {"annotations": {ANNOTATION_EVICT: None}}})
    scene.advance(300.0)
    assert not scene.on("n2"), "the limits at once hold for a while"
    scene.until(lambda: scene.on("n2"), 600.0)
    moves = [(move["spec"]["podRef"]["name"], move["status"]["phase"]) for move in scene.api.list(MOVE)]
    assert {("slow-1-0", "HandingOver"), ("slow-2-0", "HandingOver")} <= set(moves), "rooms are held on"


def test_no_pod_is_evicted_for_a_node_where_the_replacement_of_another_move_keeps_it_off():
    """While the old pod of that move ends, its placeholder has none of the labels that anti-affinity looks at."""
    term = {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["one", "two"]}]},
        "topologyKey": "kubernetes.io/hostname",
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = documents.pod_spec("1", "64Mi", affinity=apart, terminationGracePeriodSeconds=60)
    slow = {"sandbox.rescheduler.dev/stop-after": "40"}
    scene = Scene({"n1": 8, "n2": 8, "n3": 8})
    scene.cordon("n3")
    for name in ("one", "two"):
        scene.api.create(
            documents.workload("StatefulSet", name, 1, pod, namespace="default", annotations=slow)
        )
        scene.until(lambda name=name: scene.ready(name))
    scene.uncordon("n3")
    scene.cordon("n1", "n2")
    scene.start()
    (one,), (two,) = scene.pods("one"), scene.pods("two")
    scene.move(one, "n3", name="first")
    scene.until(lambda: scene.calls.of(lambda call: call.evicts))
    scene.move(two, "n3", name="second")
    scene.advance(20.0)
    assert scene.reason("second") == "TargetUnschedulable"
    scene.succeed("first")
    scene.advance(60.0)
    assert len(scene.calls.of(lambda call: call.evicts)) == 1
    assert [len(scene.on("n3", name)) for name in ("one", "two")] == [1, 0]
    assert scene.ready("two")
