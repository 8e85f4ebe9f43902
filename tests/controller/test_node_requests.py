"""A move without a target asks the node autoscaler for a node by a pending pod, in virtual time with a stand-in that adds nodes."""

import json

import pytest
from scenes import Scene, lone_pod

from harness import documents
from kube_sandbox.controllers.unstructured import NODE, GroupKind, key, labels, spec, status
from kube_sandbox.nodes import SandboxNode
from rescheduler.coordination.node_requests import SETTLED_S
from rescheduler.kube.node_autoscaler import LAST_UPDATED
from rescheduler.model import names
from rescheduler.model.times import format_timestamp
from tests.seeds import parts

HEAD = b"apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\npolicies: []\n"
PRESENT = HEAD + b"reservations: {nodeAutoscaler: Present}\n"
ROOM = GroupKind("rescheduler.dev", "Reservation")
OWNERS = [{"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": "later"}}}]
ABSENT = HEAD + b"reservations: {nodeAutoscaler: Absent}\n"


def full(replicas=1, *, cpu="1", document=PRESENT, kind="Deployment", **body):
    """One node, on which the workload has all the room."""
    scene = Scene({"n1": replicas * float(cpu)}).workload(kind, "web", ["n1"] * replicas, cpu=cpu, **body)
    scene.start(document=document)
    scene.advance(2.0)
    return scene


def requests(scene):
    return [pod for pod in scene.placeholders() if labels(pod)[names.LABEL_PLACEHOLDER] == names.NODE_REQUEST]


def refused(pod):
    """What node autoscalers look for."""
    return any(
        (c["type"], c["status"], c["reason"]) == ("PodScheduled", "False", "Unschedulable")
        for c in status(pod).get("conditions", ())
    )


def add_node(scene, name="n2", cpu="1"):
    scene.cluster.add_node(SandboxNode(name=name, cpu=cpu))


def asked(scene, **wish):
    """The move of the first pod, once its pod asks."""
    scene.cordon("n1")
    move = scene.move(scene.pods()[0], "", ttl="10m", **wish)
    assert scene.until(lambda: any(map(refused, requests(scene))), 30.0)
    return move


def test_while_no_node_has_room_a_pending_pod_of_its_shape_asks_for_one():
    scene = full(cpu="2")
    move = asked(scene)
    (pod,) = requests(scene)
    (container,) = spec(pod)["containers"]
    assert container["resources"]["requests"]["cpu"] == "2"
    assert spec(pod)["schedulerName"] == names.NODE_REQUEST_SCHEDULER
    assert not spec(pod).get("nodeName")
    assert pod["metadata"]["namespace"] == "rescheduler"
    scene.advance(3.0)
    assert scene.reason(move) == "NoTarget"
    named = f"pending pod rescheduler/{pod['metadata']['name']} asks the node autoscaler for one"
    assert named in scene.state(move)["message"]
    (told,) = [event for event in scene.program.events.told if event.startswith("AsksForNode")]
    assert named in told
    assert b"\nrescheduler_node_requests 1.0\n" in scene.program.metrics.render()


def test_when_a_node_with_room_comes_the_move_goes_on_there_and_nothing_is_left():
    scene = full()
    move = asked(scene)
    add_node(scene)
    assert scene.until(lambda: scene.state(move)["phase"] == "Succeeded")
    scene.advance(3.0)
    assert [spec(pod)["nodeName"] for pod in scene.ready()] == ["n2"]
    assert not scene.placeholders()
    assert b"\nrescheduler_node_requests 0.0\n" in scene.program.metrics.render()
    assert scene.faults == []


def test_no_pod_asks_any_more_when_placeholders_have_filled_the_new_node():
    """A node autoscaler that looks at that moment would add a second node."""
    scene = full(replicas=3)
    scene.cordon("n1")
    for pod in scene.pods():
        scene.move(pod, "", ttl="10m")
    assert scene.until(lambda: sum(map(refused, requests(scene))) == 3, 30.0)
    asking = []

    def hear(change):
        pod = change.object
        if pod["kind"] == "Pod" and names.LABEL_PLACEHOLDER in labels(pod) and spec(pod).get("nodeName"):
            asking.append(len(requests(scene)))

    scene.api.subscribe(hear)
    add_node(scene, cpu="3")
    assert scene.until(lambda: len(scene.ready()) == 3 and not scene.placeholders(), 60.0)
    assert asking
    assert not any(asking)


def phase(scene, room):
    return status(scene.api.get(ROOM, "", room)).get("phase")


def test_a_reservation_that_fits_nowhere_asks_for_a_node_and_holds_its_room_there():
    scene = full()
    room = scene.room()
    assert scene.until(lambda: any(map(refused, requests(scene))), 30.0)
    (pod,) = requests(scene)
    scene.advance(2.0)
    named = f"pending pod rescheduler/{pod['metadata']['name']} asks the node autoscaler for one"
    (said,) = [c for c in status(scene.api.get(ROOM, "", room))["conditions"] if c["type"] == "Scheduled"]
    assert named in said["message"]
    (told,) = [event for event in scene.program.events.told if event.startswith("AsksForNode")]
    assert "no node has room for Reservation room" in told
    add_node(scene)
    assert scene.until(lambda: phase(scene, room) == "Available", 30.0)
    assert not requests(scene)
    assert status(scene.api.get(ROOM, "", room))["nodeName"] == "n2"
    assert scene.faults == []


def test_a_head_room_keeps_its_rooms_on_nodes_that_are_added():
    scene = full()
    spec_of = {"template": {"spec": lone_pod("t", cpu_milli=1000)["spec"]}, "owners": OWNERS, "rooms": 3}
    scene.api.create(documents.own("HeadRoom", "spare", spec_of))
    assert scene.until(lambda: sum(map(refused, requests(scene))) == 3, 30.0)
    add_node(scene, cpu="2")
    assert scene.until(lambda: len(requests(scene)) == 1, 30.0)
    add_node(scene, name="n3", cpu="2")
    assert scene.until(lambda: not requests(scene), 30.0)
    scene.advance(20.0)
    assert not requests(scene)
    assert [phase(scene, key(room).name) for room in scene.api.list(ROOM)] == ["Available"] * 3


def test_of_many_reservations_each_asks_once_and_goes_on():
    """Most of them are not looked at in each round."""
    scene = full()
    for number in range(40):
        scene.room(f"room-{number}")
    made, gone = [], []

    def hear(change):
        name = change.object["metadata"]["name"]
        if name.startswith("node-for-") and change.type in ("ADDED", "DELETED"):
            (made if change.type == "ADDED" else gone).append(name)

    scene.api.subscribe(hear)
    assert scene.until(lambda: sum(map(refused, requests(scene))) == 40, 120.0)
    scene.advance(60.0)
    assert (len(made), len(set(made)), gone) == (40, 40, [])
    scene.program.kill()
    scene.start(document=PRESENT)
    scene.advance(60.0)
    assert (len(made), gone) == (40, [])
    add_node(scene, cpu="40")
    assert scene.until(lambda: all(phase(scene, f"room-{n}") == "Available" for n in range(40)), 120.0)
    assert not requests(scene)


@pytest.mark.parametrize(
    "wish",
    [{"node": "n1"}, {"preAllocation": True}, {"makeRoom": True}, {"cpu": "nothing"}],
    ids=["names its node", "waits for room that others leave", "others make room", "fits"],
)
def test_a_reservation_that_waits_for_something_else_asks_for_nothing(wish):
    scene = full()
    if wish.pop("cpu", ""):
        add_node(scene)
    scene.room(**wish)
    scene.advance(30.0)
    assert not requests(scene)


@pytest.mark.parametrize("end", ["deleted", "expired", "quota"])
def test_the_pod_of_a_reservation_goes_with_it(end):
    scene = full()
    room = scene.room(ttl="40s" if end == "expired" else "1h")
    assert scene.until(lambda: any(map(refused, requests(scene))), 30.0)
    if end == "deleted":
        scene.api.delete(scene.api.get(ROOM, "", room))
    if end == "quota":
        scene.program.document.content = PRESENT.replace(
            b"Present}", b"Present, shares: {default: {reservations: 0}}}"
        )
    scene.advance(45.0)
    assert not requests(scene)


@pytest.mark.parametrize(("document", "more"), [
    (ABSENT, {"karpenter.sh/nodepool": "default"}),
    (HEAD, {}),
], ids=["the configuration denies one", "none is seen"])  # fmt: skip
def test_without_a_node_autoscaler_nothing_asks(document, more):
    scene = full(document=document)
    scene.api.patch(scene.api.get(NODE, "", "n1"), {"metadata": {"labels": more}})
    scene.cordon("n1")
    move = scene.move(scene.pods()[0], "")
    scene.advance(30.0)
    assert scene.reason(move) == "NoTarget"
    assert not requests(scene)


def test_one_that_is_installed_long_before_the_next_decision_is_asked():
    scene = full(document=HEAD + b"interval: 1h\n")
    scene.advance(5.0)
    scene.room()
    scene.advance(20.0)
    assert not requests(scene)
    written = format_timestamp(scene.now_s + 40.0).replace("T", " ").replace("Z", " +0000 UTC")
    metadata = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
    scene.api.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "annotations": {LAST_UPDATED: written}}},
    )  # fmt: skip
    assert scene.until(lambda: any(map(refused, requests(scene))), 60.0)


def test_one_that_has_made_a_node_is_asked():
    scene = full(document=HEAD)
    scene.api.patch(scene.api.get(NODE, "", "n1"), {"metadata": {"labels": {"karpenter.sh/nodepool": "a"}}})
    asked(scene)


def end_pause(scene, move):
    scene.api.patch(scene.get_move(move), {"spec": {"paused": True}})


def end_deleted(scene, move):
    scene.api.delete(scene.get_move(move))


def end_pod(scene, _move):
    scene.scale(0)


def end_ttl(scene, _move):
    scene.advance(601.0)


def end_room(scene, _move):
    scene.uncordon("n1")
    add_node(scene)


@pytest.mark.parametrize("end", [end_pause, end_deleted, end_pod, end_ttl, end_room])
def test_the_pod_goes_when_the_move_ends_or_waits_for_something_else(end):
    scene = full()
    move = asked(scene)
    end(scene, move)
    scene.advance(5.0)
    assert not requests(scene)


def test_a_restart_leaves_the_pod_and_the_end_of_the_move_meanwhile_takes_it():
    scene = full()
    move = asked(scene)
    (before,) = requests(scene)
    scene.program.kill()
    scene.start(document=PRESENT)
    scene.advance(40.0)
    assert [pod["metadata"]["uid"] for pod in requests(scene)] == [before["metadata"]["uid"]]
    scene.program.kill()
    scene.api.delete(scene.get_move(move))
    scene.start(document=PRESENT)
    scene.advance(40.0)
    assert not requests(scene)


def test_a_wait_that_passes_asks_for_nothing():
    scene = full()
    scene.cordon("n1")
    scene.move(scene.pods()[0], "")
    scene.advance(SETTLED_S - 1.0)
    add_node(scene)
    scene.advance(30.0)
    sent = scene.calls.of(lambda call: names.NODE_REQUEST in json.dumps(call.body))
    assert not sent


def test_several_moves_of_one_pod_ask_once():
    """A tenant grows the pool by no more than the pods that he runs."""
    scene = full()
    scene.cordon("n1")
    for index in range(4):
        scene.move(scene.pods()[0], "", name=f"m{index}", ttl="10m")
    scene.advance(30.0)
    assert len(requests(scene)) == 1


@pytest.mark.parametrize("hard", [None, "6", "1"])
def test_a_replacement_larger_than_the_pod_asks_within_the_quotas_of_its_namespace(hard):
    """The owner has changed the template, and its pods are replaced only when they go."""
    scene = full(kind="StatefulSet", updateStrategy={"type": "OnDelete"})
    template = scene.api.get(GroupKind("apps", "StatefulSet"), "default", "web")
    container = spec(template)["template"]["spec"]["containers"][0]
    larger = {**container, "resources": {"requests": {"cpu": "5", "memory": "64Mi"}}}
    scene.api.patch(template, {"spec": {"template": {"spec": {"containers": [larger]}}}})
    if hard:
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"requests.cpu": hard}}}
        scene.api.create({**quota, "metadata": {"name": "q", "namespace": "default"}})
    scene.advance(5.0)
    scene.cordon("n1")
    scene.move(scene.pods()[0], "", ttl="10m")
    scene.advance(30.0)
    asked = [spec(pod)["containers"][0]["resources"]["requests"]["cpu"] for pod in requests(scene)]
    assert asked == ([] if hard == "1" else ["5"])


def test_a_move_that_names_its_target_asks_for_nothing():
    scene = full()
    add_node(scene, "n2", cpu="0.5")
    scene.move(scene.pods()[0], "n2")
    scene.advance(30.0)
    assert not requests(scene)


def test_a_pod_that_somebody_binds_is_deleted_and_made_no_more():
    scene = full()
    asked(scene)
    (pod,) = requests(scene)
    scene.api.bind(pod, "n1")
    scene.advance(1.5)
    assert not requests(scene)
    scene.advance(30.0)
    assert not requests(scene)


def test_a_drain_of_many_pods_asks_for_all_of_them_at_once():
    """So that the autoscaler packs them; as the node comes they go there one after the other."""
    scene = full(4)
    scene.cordon("n1")
    moves = [scene.move(pod, "", ttl="10m") for pod in scene.pods()]
    assert scene.until(lambda: sum(map(refused, requests(scene))) == 4, 30.0)
    add_node(scene, cpu="4")
    scene.succeed(*moves, limit_s=300.0)
    assert len(scene.on("n2")) == 4
    assert not scene.placeholders()


def test_a_pod_that_asks_shuts_no_node_although_its_priority_is_high():
    """No scheduler binds it. A taint against it would end the other moves to that node before their evictions."""
    scene = Scene({"n1": 4}).workload("Deployment", "web", ["n1", "n1"])
    scene.workload("Deployment", "big", ["n1"], cpu="2")
    scene.start(document=PRESENT)
    scene.cordon("n1")
    small = [scene.move(pod, "", ttl="10m") for pod in scene.pods()]
    scene.advance(1.0)
    large = scene.move(scene.pods("big")[0], "", ttl="10m")
    assert scene.until(lambda: sum(map(refused, requests(scene))) == 3, 30.0)
    add_node(scene, cpu="2")
    scene.succeed(*small, limit_s=120.0)
    assert not scene.calls.of(
        lambda call: names.ANNOTATION_HANDOVER_TAINT in json.dumps(call.body) and "/nodes/" in call.path
    )
    assert scene.reason(large) == "NoTarget"
    add_node(scene, "n3", cpu="2")
    scene.succeed(large, limit_s=120.0)


@pytest.mark.parametrize("part", parts(12))
def test_a_crash_at_every_single_write_leaves_neither_the_move_nor_a_pod_that_asks(part):
    """Also where the node has come while nobody was at work. Nightly all of them, else every twelfth."""

    def run(write=0):
        scene = Scene({"n1": 2}).workload("Deployment", "web", ["n1", "n1"])
        program = scene.start(document=PRESENT)
        if write:
            program.line.doom(write, after=False)
        scene.cordon("n1")
        moves = [scene.move(pod, "", ttl="10m") for pod in scene.pods()]
        scene.advance(20.0)
        add_node(scene, cpu="2")
        assert scene.until(lambda: scene.over(*moves), 300.0), write
        scene.advance(30.0)
        assert {scene.state(move)["phase"] for move in moves} == {"Succeeded"}, write
        assert scene.leftovers() == []
        assert not scene.placeholders()
        assert scene.faults == []
        return len(scene.calls.of(lambda call: call.writes))

    total = run()
    assert total > 20
    for write in range(1 + part, total + 1, 12):
        run(write)


def test_why_nobody_can_be_asked_is_said():
    """A quota in the namespace of placeholders, say."""
    scene = full()
    scene.refuse(403, "Forbidden", lambda call: names.NODE_REQUEST in json.dumps(call.body) and call.writes)
    scene.cordon("n1")
    move = scene.move(scene.pods()[0], "", ttl="10m")
    said = "the node autoscaler cannot be asked for a node: 403"
    assert scene.until(lambda: said in scene.state(move).get("message", ""), 30.0)
    assert not requests(scene)
