"""Histories in which owners and admission change workloads while their pods are moved, and proof that they can fail."""

import sys
from pathlib import Path

import pytest

from harness.histories import admission
from harness.histories.history import play
from harness.histories.observed_cluster import Seen, Writer, evicted
from harness.histories.replacements import ADMISSION_APPLIES_S, Replacements
from harness.histories.user_requests import KINDS, MOVE, ROOM
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import POD, annotations_of, spec
from rescheduler.migrations import evicting
from rescheduler.model.names import ANNOTATION_MIGRATION

sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))
from scenes import Scene

FEW = 3


@pytest.mark.parametrize("seed", range(FEW))
def test_nothing_is_evicted_into_the_void_while_owners_and_admission_change_things(seed):
    outcome = play(seed, owners=True)
    assert outcome.owners
    assert outcome.faults == (), f"python -m harness.histories --owners --seed {seed} --trace"


class Held:
    """A move of web's pod on n1, whose room on n2 is Available; the program does nothing more."""

    def __init__(self, kind, **body):
        self.kind, self.scene = kind, Scene({"n1": 4, "n2": 4})
        scene = self.scene
        scene.workload(kind, nodes=("n1", "n1"), **body)
        self.pod = scene.pods()[0]
        self.program = scene.start()
        scene.move(self.pod, "n2")
        scene.until(lambda: any(self._is_held(r) for r in scene.api.list(ROOM)))
        self.program.frozen = True
        self.seen = Seen()
        for obj in scene.api.everything():
            self.seen.apply(ObjectChange("ADDED", obj), Writer.CLUSTER, scene.now_s)
        self.replacements = Replacements(scene.cluster, self.seen, self.program)
        self.evictions, self.faults = 0, []
        scene.api.subscribe(self._hear)

    def _hear(self, change):
        now_s = self.scene.now_s
        old = self.seen.apply(change, Writer.CLUSTER, now_s)
        self.replacements.hear(change.object, now_s)
        if change.object["kind"] == "Pod" and old is not None and evicted(change.object) and not evicted(old):
            self.evictions += 1
            self.faults += self.replacements.check(old, self._room())

    def _is_held(self, room):
        return (
            ANNOTATION_MIGRATION in annotations_of(room)
            and room.get("status", {}).get("phase") == "Available"
        )

    def owner(self):
        return self.scene.api.get(KINDS[self.kind], "default", "web")

    def change(self, **wanted):
        self.scene.api.patch(self.owner(), {"spec": wanted})

    def template(self, change, **wanted):
        self.change(template={"spec": change}, **wanted)

    def admit(self, expression):
        for obj in admission.policy(expression):
            self.scene.api.create(obj)

    def found(self, *, known=True):
        """The messages. ``known``: the caches of the program show every change."""
        if known:
            self.program.caches.deliver(self.scene.now_s)
        pod = self.scene.api.get(POD, "default", self.pod["metadata"]["name"]) or self.pod
        return self.replacements.check(pod, self._room())

    def goes_on(self):
        """The program does what it would have done."""
        self.program.frozen = False
        self.scene.advance(20.0)

    def _room(self):
        (room,) = (r for r in self.seen.rooms.values() if self._is_held(r))
        return room


def sidecar(held):
    container = {"name": "side", "image": "side", "resources": {"requests": {"cpu": "100m"}}}
    held.template({"containers": [*spec(held.owner())["template"]["spec"]["containers"], container]})


def grown(held):
    (main,) = spec(held.owner())["template"]["spec"]["containers"]
    held.template({"containers": [{**main, "resources": {"requests": {"cpu": "2", "memory": "64Mi"}}}]})


def tolerations_lost(held):
    held.template({"tolerations": None})
    held.scene.taint("n2", key=admission.TAINT)


@pytest.mark.crossed
@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize(("change", "words"), [
    (sidecar, "larger than its room"),
    (grown, "larger than its room"),
    (tolerations_lost, "is refused on n2"),
    (lambda h: h.template({"nodeSelector": {"kubernetes.io/hostname": "n1"}}), "is refused on n2"),
    (lambda h: h.template({"nodeName": "n1"}), "would be created on node/n1"),
    (lambda h: h.template({"schedulingGates": [{"name": "example.com/wait"}]}), "wait for another program"),
    (lambda h: h.template({"schedulerName": "another"}), "wait for scheduler another"),
    (lambda h: h.change(replicas=0), "wants 0 pods"),
    (lambda h: h.scene.api.delete(h.owner()), "is gone"),
])  # fmt: skip
def test_a_change_after_which_an_eviction_would_be_one_into_the_void_is_found(kind, change, words):
    held = Held(kind, **({"updateStrategy": {"type": "OnDelete"}} if kind == "StatefulSet" else {}))
    assert held.found() == []
    change(held)
    assert held.found(known=False) == [], "the program cannot know it yet"
    assert any(words in found for found in held.found()), held.found()


@pytest.mark.parametrize(("expression", "words"), [
    (admission.sidecar(100), "larger than its room"),
    (admission.larger_requests(2000), "larger than its room"),
    (admission.node_selector("nowhere"), "is refused on n2"),
])  # fmt: skip
def test_an_admission_that_starts_to_change_pods_is_found_once_every_server_applies_it(expression, words):
    held = Held("Deployment")
    held.admit(expression)
    assert held.found() == []
    held.scene.advance(ADMISSION_APPLIES_S)
    assert any(words in found for found in held.found()), held.found()


def admits_a_sidecar(held):
    held.admit(admission.sidecar(100))


def admits_it_at_the_rehearsal(held):
    held.scene.budget(maxUnavailable=1)
    held.scene.calls.answer(lambda c: c.rehearses, once(lambda _: admits_a_sidecar(held)))


def once(do):
    done = []
    return lambda call: None if done else done.append(do(call))


@pytest.mark.crossed
@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize(("change", "check", "words"), [
    (grown, "room_suffices", "larger than its room"),
    (tolerations_lost, "_decision_holds", "is refused on n2"),
    (admits_a_sidecar, "asked", "larger than its room"),
])  # fmt: skip
def test_each_check_before_the_eviction_is_needed(monkeypatch, kind, change, check, words):
    wrong = evicts_only_without(monkeypatch, kind, change, check)
    assert any(words in found for found in wrong.faults), wrong.faults


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_the_last_look_before_the_eviction_is_needed(monkeypatch, kind):
    """The eviction follows sooner than every API server would have to apply the admission, so no fault is found in it."""
    wrong = evicts_only_without(monkeypatch, kind, admits_it_at_the_rehearsal, "asked")
    assert [state["reason"] for state in moves_of(wrong)] == ["ReplacementUngated"]


def evicts_only_without(monkeypatch, kind, change, check):
    """Without a new answer nothing is known of the gate on the replacement either, so what looks at that goes with ``asked``."""
    checks = (check, "_comes_gated") if check == "asked" else (check,)
    strategy = {"updateStrategy": {"type": "OnDelete"}} if kind == "StatefulSet" else {}
    right, wrong = Held(kind, **strategy), Held(kind, **strategy)
    for held in (right, wrong):
        change(held)
        held.scene.advance(ADMISSION_APPLIES_S)
    right.goes_on()
    assert (right.evictions, right.faults) == (0, [])
    for each in checks:
        monkeypatch.setattr(evicting, each, lambda *_: True)
    wrong.goes_on()
    assert wrong.evictions == 1
    return wrong


def moves_of(held):
    return [move["status"] for move in held.scene.api.list(MOVE)]


@pytest.mark.crossed
@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Deployment"])
@pytest.mark.parametrize("change", [lambda h: h.change(replicas=0), lambda h: h.scene.api.delete(h.owner())])
def test_nothing_is_evicted_that_no_controller_replaces(kind, change):
    held = Held(kind)
    change(held)
    held.goes_on()
    assert held.faults == []


def test_a_toleration_that_admission_adds_counts():
    held = Held("Deployment")
    held.scene.taint("n2", key=admission.TAINT)
    assert any("is refused on n2" in found for found in held.found())
    held.admit(admission.toleration())
    held.scene.advance(ADMISSION_APPLIES_S)
    assert held.found() == []


@pytest.mark.parametrize(("partition", "grows"), [(0, True), (2, False)])
def test_a_pod_below_the_partition_comes_back_from_the_current_revision(partition, grows):
    held = Held(
        "StatefulSet", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    )
    grown(held)
    assert bool(held.found()) is grows


def test_a_replicaset_that_has_too_many_pods_replaces_none():
    held = Held("ReplicaSet")
    held.change(replicas=1)
    assert any("wants 1 pods and has 1 others" in found for found in held.found())
