"""Budgets that their owners close after a move was planned: it waits, and other workloads move on."""

from scenes import Scene

from harness import documents
from kube_sandbox.controllers.unstructured import GroupKind

DOCUMENT = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 10s
limits: {movesAtOnce: 2, perNode: 2, perNamespace: 3}
policies: [{name: NodeTaints, after: 0s}]
"""
BUDGET = GroupKind("policy", "PodDisruptionBudget")
CLOSED = ("closed-0", "closed-1")
"""As many as may move at once."""


def test_moves_whose_budgets_are_closed_after_the_plan_hold_up_no_other_workload():
    scene = Scene({"n1": 8, "n2": 8})
    scene.cordon("n2")
    for name in (*CLOSED, "web"):
        pod, meta = documents.pod_spec("1", "64Mi"), {"labels": {"app": name}}
        scene.api.create(documents.workload("Deployment", name, 1, pod, namespace="default", meta=meta))
    for name in CLOSED:
        scene.budget(name, maxUnavailable=1)
    scene.until(lambda: all(scene.ready(name) for name in (*CLOSED, "web")))
    scene.uncordon("n2")

    def close(call):
        if call.method == "POST" and call.path.endswith("/reservations"):
            for name in CLOSED:
                scene.api.patch(scene.api.get(BUDGET, "default", name), {"spec": {"maxUnavailable": 0}})

    scene.calls.answer(close, lambda _: None)
    scene.start(document=DOCUMENT)
    scene.taint("n1")
    scene.until(lambda: scene.on("n2"), 60.0)
    assert [len(scene.on("n1", name)) for name in CLOSED] == [1, 1]
    for name in CLOSED:
        scene.calls.answers.clear()
        scene.api.patch(scene.api.get(BUDGET, "default", name), {"spec": {"maxUnavailable": 1}})
    scene.until(lambda: all(scene.on("n2", name) for name in CLOSED), 120.0)
    assert scene.faults == []
