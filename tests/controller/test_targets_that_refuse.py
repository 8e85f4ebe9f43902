"""A node that refuses a placeholder for reasons that our rules do not see: the next plan goes elsewhere, or waits for longer each time.

The whole controller on the sandbox in virtual time. What refuses is a rule of the scheduler that the controller is not told of, admission, or the kubelet.
"""

import itertools

import pytest
from scenes import Scene, refusal

from harness.histories.admission import OF_PLACEHOLDERS, placeholder_policy
from kube_sandbox.controllers.unstructured import labels, spec
from rescheduler.model.names import LABEL_PLACEHOLDER
from rescheduler.model.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement
from rescheduler.scheduling.framework import Profile

HOUR_S = 3600.0
DOCUMENT = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 20s
limits: {movesAtOnce: 5, movesPerHour: 600, workloadCooldown: 2s}
reservations: {ttl: 20s, finishedTtl: 1s}
policies: [{name: NodeTaints, after: 0s}]
"""


def by_scheduler(scene, *refusing):
    """The scheduler refuses these nodes from now on."""
    keys = tuple(Requirement("metadata.name", Operator.NOT_IN, (name,)) for name in refusing)
    hidden = NodeSelector((NodeSelectorTerm(fields=keys),)) if refusing else None
    scene.cluster.restart_scheduler(Profile(added_affinity=hidden))


def by_admission(scene, *refusing):
    """A policy refuses placeholders that are pinned to these nodes."""
    pinned = (
        "object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        f".exists(t, t.matchFields.exists(f, f.values.exists(v, v in {list(refusing)})))"
    )
    fails = "[JSONPatch{op: 'replace', path: '/spec/nosuch/field', value: 'a'}]"
    policy, binding = placeholder_policy(fails)
    policy["spec"]["matchConditions"].append({"name": "pinned", "expression": pinned})
    assert policy["metadata"]["name"] == OF_PLACEHOLDERS
    for obj in (policy, binding):
        scene.api.create(obj)


def by_kubelet(scene, *refusing):
    """The kubelet of these nodes ends each placeholder that it gets."""

    def hear(change):
        pod = change.object
        if pod["kind"] != "Pod" or LABEL_PLACEHOLDER not in labels(pod) or change.type == "DELETED":
            return
        if spec(pod).get("nodeName") in refusing and pod["status"].get("phase") != "Failed":
            refused = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
            scene.api.patch(pod, {"status": refused}, subresource="status")

    scene.api.subscribe(hear)


def tried(scene):
    """Targets of the moves that were planned, with their times."""
    made = scene.calls.of(lambda c: c.method == "POST" and c.path.endswith("/podmigrations"))
    return [(call.body["spec"]["target"]["nodeName"], call.at_s) for call in made]


def placeholders(scene):
    """When those were created that are no dry run."""
    made = scene.calls.of(lambda c: c.method == "POST" and c.path.endswith("/rescheduler/pods") and not c.dry)
    return [call.at_s for call in made]


@pytest.mark.parametrize("refuse", [by_scheduler, by_admission, by_kubelet])
def test_the_next_plan_goes_to_another_node(refuse):
    scene = Scene({"n1": 4, "n2": 8, "n3": 4}).workload()
    scene.taint("n1")
    refuse(scene, "n2")
    scene.start(document=DOCUMENT)
    scene.until(lambda: bool(scene.on("n3")) and bool(scene.ready()), 400.0)
    assert [node for node, _ in tried(scene)] == ["n2", "n3"]
    assert not scene.faults


def test_a_kubelet_that_ends_each_placeholder_gets_one_in_half_a_minute():
    scene = Scene({"n1": 4, "n2": 8}).workload()
    scene.taint("n1")
    by_kubelet(scene, "n2")
    scene.start(document=DOCUMENT.replace(b"{ttl: 20s", b"{ttl: 150s"))
    scene.until(lambda: len(placeholders(scene)) == 5, 400.0)
    apart = [after - before for before, after in itertools.pairwise(placeholders(scene))]
    assert all(29.0 < waited_s < 35.0 for waited_s in apart), apart


def test_a_node_that_alone_would_do_is_tried_again_after_longer_and_longer():
    scene = Scene({"n1": 4, "n2": 8}).workload()
    scene.taint("n1")
    by_scheduler(scene, "n2")
    scene.start(document=DOCUMENT)
    scene.until(lambda: len(tried(scene)) == 2, HOUR_S)
    scene.take_lease()  # the next leader knows what this one has learnt
    scene.until(lambda: len(tried(scene)) == 4, 3 * HOUR_S)
    times = [at_s for _, at_s in tried(scene)]
    apart = [after - before for before, after in itertools.pairwise(times)]
    for waited_s, least_s in zip(apart, (600.0, 1200.0, 2400.0), strict=True):
        assert least_s <= waited_s < least_s + 120.0
    by_scheduler(scene)
    scene.until(lambda: bool(scene.on("n2")), 3 * HOUR_S)


def test_a_quota_that_is_used_up_is_not_laid_to_the_node():
    scene = Scene({"n1": 4, "n2": 8}).workload()
    scene.taint("n1")
    message = 'pods "x" is forbidden: exceeded quota: rooms, requested: requests.cpu=1'
    scene.refuse(
        403, message, lambda c: c.method == "POST" and c.path.endswith("/rescheduler/pods") and not c.dry
    )
    scene.start(document=DOCUMENT)
    scene.until(lambda: len(tried(scene)) == 3, 1000.0)
    scene.calls.answers.clear()
    scene.until(lambda: bool(scene.on("n2")), 400.0)


def test_a_move_says_with_which_words_its_reservation_is_refused():
    """As the policy for large templates refuses it."""
    scene = Scene({"n1": 4, "n2": 4}).workload()
    scene.start()
    refusing = [True]
    scene.calls.answer(
        lambda call: call.method == "POST" and call.path.endswith("/reservations") and refusing[0],
        lambda _: refusal(422, "Invalid"),
    )
    name = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: "the API server refuses Reservation" in scene.state(name).get("message", ""))
    version = scene.get_move(name)["metadata"]["resourceVersion"]
    scene.advance(20.0)
    assert scene.get_move(name)["metadata"]["resourceVersion"] == version, "it is said once"
    refusing[0] = False
    scene.succeed(name)


def test_a_move_whose_reservation_is_refused_takes_no_turn_for_long():
    scene = Scene({"n1": 4, "n2": 4}).workload()
    scene.start()
    scene.refuse(422, "Invalid", lambda call: call.method == "POST" and call.path.endswith("/reservations"))
    name = scene.move(scene.pods()[0], "n2", ttl="1h")
    scene.until(lambda: scene.over(name))
    assert (scene.phase(name), scene.reason(name)) == ("Failed", "ReservationFailed")
    assert "422 Invalid" in scene.state(name)["message"]
    assert not scene.leftovers()
