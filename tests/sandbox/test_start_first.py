"""Mode StartFirst on the sandbox in virtual time: every interruption, crashes at any write, by seed.

A witness sees every write of the API server: Ready pods of the workload never fewer than before, pods never
more than replicas + 1, no eviction before the replacement is Ready. At the end the workload is as its owner
wants it and nothing of ours is left.
"""

import os
import random

import pytest

from harness.histories.disturbances import MAP
from harness.histories.faulty_transport import Killed, Line
from harness.histories.program import QUIET, Program, ProgramOptions
from harness.histories.user_requests import MOVE
from rescheduler.controller.issuing import ApiIssuer, Order
from rescheduler.controller.reconcile import Settings
from rescheduler.kube.client import KubeApi
from rescheduler.migrations.observed import MigrationSettings
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import GATE, LABEL_START_FIRST
from rescheduler.planning.plan import Move, PodRef
from rescheduler.reservations.observed import ReservationSettings
from rescheduler.sandbox.controllers.unstructured import (
    DEPLOYMENT,
    NODE,
    POD,
    condition,
    controller_of,
    deleting,
    labels,
    ready,
    spec,
    status,
    uid,
)
from rescheduler.sandbox.installation import install
from rescheduler.sandbox.kubelet import KubeletSettings
from rescheduler.sandbox.nodes import SandboxNode
from rescheduler.sandbox.sandbox import Sandbox

FIRST = int(os.environ.get("RESCHEDULER_FIRST_SEED", "0"))
SEEDS = int(os.environ.get("RESCHEDULER_SEEDS", "2"))
SETTINGS = Settings(
    reservations=ReservationSettings(namespace="rescheduler"),
    migrations=MigrationSettings(
        ttl_s=60.0,
        replacement_limit_s=20.0,
        gate_settle_s=0.3,
        start_first_policies=frozenset({"NodeTaints"}),
    ),
)
DECLARED = {"NodeTaints": MoveMode.START_FIRST}


class Witness:
    """Counts at every write."""

    def __init__(self, scene, replicas):
        self.scene, self.least, self.most, self.evicted, self.early = scene, replicas, replicas, set(), []
        scene.api.subscribe(self.watch)

    def watch(self, change):
        if change.object["kind"] != "Pod":
            return
        pods = self.scene.pods()
        self.least = min(self.least, len([p for p in pods if ready(p) and not deleting(p)]))
        self.most = max(self.most, len([p for p in pods if not deleting(p)]))
        mark = condition(change.object, "DisruptionTarget")
        if mark is None or mark["reason"] != "EvictionByEvictionAPI" or uid(change.object) in self.evicted:
            return
        self.evicted.add(uid(change.object))
        if not any(ready(p) for p in self.scene.unadopted()):
            self.early.append(change.object["metadata"]["name"])


class Scene:
    """A Deployment whose budget allows nothing, and moves of its pods."""

    def __init__(
        self,
        seed,
        *,
        replicas=1,
        crashes=0,
        min_ready_s=0,
        annotated=True,
        unavailable=0,
        spread=(),
        **strategy,
    ):
        machines = [SandboxNode(name=f"n{i}", cpu="4", zone="z") for i in range(1, 6)]
        kubelet = KubeletSettings(start_s=0.2, ready_s=0.5, stop_s=1.0)
        self.cluster = Sandbox(machines, seed=seed, interleave=True, kubelet=kubelet)
        self.api = self.cluster.api
        install(self.cluster.transport)
        self.rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
        template = {
            "metadata": {"labels": {"app": "web"}, "annotations": {"keep": "me"}},
            "spec": {
                "terminationGracePeriodSeconds": 5,
                "topologySpreadConstraints": list(spread),
                "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
            },
        }
        body = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        if min_ready_s:
            body["minReadySeconds"] = min_ready_s
        if strategy:
            body["strategy"] = strategy
        annotations = {"rescheduler.dev/mode": "StartFirst"} if annotated else {}
        self.replicas = replicas
        self.api.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "default", "annotations": annotations},
                "spec": body,
            }
        )
        self.api.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": unavailable},
            }
        )
        self.cluster.run_until(lambda: len(self.ready()) == replicas, 60)
        self.cluster.advance(min_ready_s + 3)
        self.witness = Witness(self, replicas)
        options = ProgramOptions(
            document=QUIET,
            settings_of=lambda _: SETTINGS,
            crashes=crashes,
            writes_per_life=8,
            late=True,
        )
        self.program = Program(self.cluster, self.rng, options)
        self.cluster.add(self.program)

    def pods(self):
        return [p for p in self.api.list(POD) if labels(p).get("app") == "web"]

    def ready(self):
        return [p for p in self.pods() if ready(p) and not deleting(p)]

    def unadopted(self):
        return [p for p in self.api.list(POD) if LABEL_START_FIRST in labels(p) and controller_of(p) is None]

    def move(self, **more):
        """Asks for a move of one pod to an empty node; gives name and target."""
        pod = min(self.pods(), key=lambda p: p["metadata"]["name"])
        used = {spec(p).get("nodeName") for p in self.api.list(POD)}
        target = min({n["metadata"]["name"] for n in self.api.list(NODE)} - used)
        name = f"m{len(self.api.list(MOVE))}"
        self.api.create(
            {
                "apiVersion": "rescheduler.dev/v1alpha1",
                "kind": "PodMigration",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "podRef": {"name": pod["metadata"]["name"], "uid": uid(pod)},
                    "target": {"nodeName": target},
                    **more,
                },
            }
        )
        return name, target, pod

    def state(self, name):
        move = self.api.get(MOVE, "default", name)
        return status(move) if move is not None else {"phase": "Deleted"}

    def over(self, *names):
        return all(self.state(n).get("phase") in ("Succeeded", "Failed", "Deleted") for n in names)

    def finish(self, *names, limit_s=200):
        self.cluster.run_until(lambda: self.over(*names), limit_s)
        self.cluster.advance(30)

    def patch(self, kind, name, change, namespace="default"):
        return self.api.patch(self.api.get(kind, namespace, name), change)

    def when(self, phase, name, limit_s=60):
        self.cluster.run_until(lambda: self.state(name).get("phase") == phase or self.over(name), limit_s)

    def leftovers(self):
        gated = [
            p["metadata"]["name"]
            for p in self.api.list(POD)
            if any(g["name"] == GATE for g in spec(p).get("schedulingGates") or ())
        ]
        gate_keys = self.api.get(MAP, "rescheduler", "gate-keys").get("data") or {}
        return [p["metadata"]["name"] for p in self.unadopted()], gated, gate_keys

    def settled(self, replicas):
        """The workload as its owner wants it, and nothing of ours left."""
        assert self.leftovers() == ([], [], {})
        assert len(self.pods()) == replicas
        assert len(self.ready()) == replicas
        assert not self.witness.early


@pytest.fixture
def scene():
    made = []

    def make(seed, **more):
        made.append(Scene(seed, **more))
        return made[-1]

    yield make
    for each in made:
        each.cluster.stop()


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_moves_under_a_budget_that_allows_nothing(scene, replicas, seed):
    s = scene(seed, replicas=replicas)
    for _ in range(3):
        name, target, old = s.move()
        s.finish(name)
        found = s.state(name)
        assert (found["phase"], found["mode"]) == ("Succeeded", "StartFirst"), found
        new = s.api.get(POD, "default", found["replacement"]["name"])
        assert spec(new)["nodeName"] == target
        assert controller_of(new)["kind"] == "ReplicaSet"
        assert new["metadata"]["annotations"]["keep"] == "me"
        assert uid(old) in s.witness.evicted
        s.settled(replicas)
    assert (s.witness.least, s.witness.most) == (replicas, replicas + 1)


def issue(s, *, policy, mode=MoveMode.AUTO, modes=DECLARED, planned=MoveMode.START_FIRST, transport=None):
    """Begins the move that a plan decided on; gives its name and target."""
    pod = min(s.pods(), key=lambda p: p["metadata"]["name"])
    used = {spec(p).get("nodeName") for p in s.api.list(POD)}
    target = min({n["metadata"]["name"] for n in s.api.list(NODE)} - used)
    move = Move(
        pod=PodRef("default", pod["metadata"]["name"], uid(pod)),
        controller=None,
        source=spec(pod)["nodeName"],
        target=target,
        policy=policy,
        reason="test",
        gain=1.0,
        disruption=0.0,
        mode=planned,
    )
    order = Order(snapshot=s.program.loop.snapshot(), mode=mode, modes=modes, ttl_s=60.0)
    (key,) = ApiIssuer(KubeApi(transport or s.cluster.transport)).issue((move,), order)
    return key.name, target


@pytest.mark.parametrize("mode", [MoveMode.AUTO, MoveMode.RESERVE_FIRST])
@pytest.mark.parametrize("crashes", [0, 3])
def test_a_move_of_a_policy_that_declares_it_starts_first(scene, mode, crashes):
    s = scene(11, annotated=False, crashes=crashes)
    name, target = issue(s, policy="NodeTaints", mode=mode)
    s.finish(name)
    found = s.state(name)
    assert (found["phase"], found["mode"], found["nodeName"]) == ("Succeeded", "StartFirst", target), found
    s.settled(1)
    assert (s.witness.least, s.witness.most) == (1, 2)


@pytest.mark.parametrize(
    ("policy", "modes", "planned"),
    [
        ("NodeAffinity", DECLARED, MoveMode.RESERVE_FIRST),
        ("NodeTaints", {}, MoveMode.START_FIRST),
        ("NodeTaints", DECLARED, MoveMode.RESERVE_FIRST),
        ("NodeAffinity", {"NodeAffinity": MoveMode.START_FIRST}, MoveMode.START_FIRST),
    ],
    ids=["another policy", "not declared", "planned otherwise", "taken back since"],
)
def test_other_moves_reserve_first_and_the_budget_holds(scene, policy, modes, planned):
    s = scene(12, annotated=False)
    name, _ = issue(s, policy=policy, modes=modes, planned=planned)
    s.finish(name)
    found = s.state(name)
    assert (found["phase"], found["mode"]) == ("Failed", "ReserveFirst"), found
    s.settled(1)
    assert s.witness.most == 1


@pytest.mark.parametrize(("mode", "reason"), [("Auto", None), ("StartFirst", "ModeNotSupported")])
def test_naming_the_policy_in_a_pod_migration_declares_nothing(scene, mode, reason):
    s = scene(13, annotated=False)
    name, *_ = s.move(policy="NodeTaints", mode=mode, ttl="20s")
    s.finish(name)
    found = s.state(name)
    assert found["phase"] == "Failed"
    assert reason in (None, found["reason"])
    assert s.witness.most == 1


def test_the_word_of_the_owner_goes_before_the_policy(scene):
    s = scene(14, annotated=False)
    s.patch(DEPLOYMENT, "web", {"metadata": {"annotations": {"rescheduler.dev/mode": "ReserveFirst"}}})
    s.cluster.advance(1)
    name, _ = issue(s, policy="NodeTaints")
    s.finish(name)
    assert (s.state(name)["phase"], s.state(name)["mode"]) == ("Failed", "ReserveFirst")
    assert s.witness.most == 1


def test_a_death_before_the_declaration_is_written_leaves_a_move_that_reserves_first(scene):
    s = scene(15, annotated=False)
    line = Line(s.cluster.transport, s.rng, s.cluster.clock)
    line.doom(2, after=False)
    with pytest.raises(Killed):
        issue(s, policy="NodeTaints", transport=line)
    (move,) = s.api.list(MOVE)
    s.finish(move["metadata"]["name"])
    assert s.state(move["metadata"]["name"])["mode"] == "ReserveFirst"
    assert s.witness.most == 1


def test_two_moves_of_one_workload_take_turns(scene):
    s = scene(5, replicas=3)
    first, *_ = s.move()
    second = "m1"
    pods = sorted(s.pods(), key=lambda p: p["metadata"]["name"])
    s.api.create(
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "PodMigration",
            "metadata": {"name": second, "namespace": "default"},
            "spec": {
                "podRef": {"name": pods[1]["metadata"]["name"], "uid": uid(pods[1])},
                "mode": "StartFirst",
            },
        }
    )
    s.finish(first, second)
    assert [s.state(n)["phase"] for n in (first, second)] == ["Succeeded", "Succeeded"]
    s.settled(3)
    assert (s.witness.least, s.witness.most) == (3, 4)


@pytest.mark.parametrize("seed", range(FIRST + 300, FIRST + 300 + SEEDS))
def test_a_replacement_that_a_failed_move_left_goes_before_the_next_one_starts(scene, seed):
    """The first move is paused until its time is over; its Ready replacement must not stand beside that of the second."""
    s = scene(seed, replicas=2)
    first, *_ = s.move(ttl="20s", mode="StartFirst")
    s.cluster.run_until(lambda: any(ready(p) for p in s.unadopted()), 30)
    s.patch(MOVE, first, {"spec": {"paused": True}})
    other = max(s.pods(), key=lambda p: p["metadata"]["name"] if p not in s.unadopted() else "")
    s.api.create(
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "PodMigration",
            "metadata": {"name": "second", "namespace": "default"},
            "spec": {"podRef": {"name": other["metadata"]["name"]}, "mode": "StartFirst", "ttl": "2m"},
        }
    )
    s.finish(first, "second")
    assert (s.state(first)["phase"], s.state("second")["phase"]) == ("Failed", "Succeeded")
    s.settled(2)
    assert (s.witness.least, s.witness.most) == (2, 3)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("seed", range(FIRST + 100, FIRST + 100 + 3 * SEEDS))
def test_a_process_that_dies_at_any_write(scene, replicas, seed):
    s = scene(seed, replicas=replicas, crashes=4)
    name, target, _ = s.move(ttl="3m")
    s.finish(name, limit_s=300)
    assert s.state(name)["phase"] == "Succeeded", s.state(name)
    s.settled(replicas)
    assert s.program.died >= 1
    assert (s.witness.least, s.witness.most) == (replicas, replicas + 1)
    assert target in {spec(p)["nodeName"] for p in s.pods()}


def forget(s, kind, name, namespace="default"):
    """Deletes an object that may be gone already."""
    found = s.api.get(kind, namespace, name)
    if found is not None:
        s.api.delete(found)


def change(s, **fields):
    s.patch(DEPLOYMENT, "web", {"spec": fields})


def interrupt(s, what, name, target, old):
    """One thing that the owner, a user or fate does; gives how many pods there must be in the end."""
    happens = {
        "rollout": lambda: change(s, template={"metadata": {"annotations": {"v": "2"}}}),
        "scale up": lambda: change(s, replicas=s.replicas + 1),
        "scale down": lambda: change(s, replicas=s.replicas - 1),
        "pause": lambda: change(s, paused=True),
        "old pod goes": lambda: forget(s, POD, old["metadata"]["name"]),
        "replacement goes": lambda: [s.api.delete(replacement) for replacement in s.unadopted()],
        "target dies": lambda: forget(s, NODE, target, ""),
        "move is deleted": lambda: forget(s, MOVE, name),
        "deployment is deleted": lambda: forget(s, DEPLOYMENT, "web"),
    }
    happens[what]()
    ends = {"scale up": s.replicas + 1, "scale down": s.replicas - 1, "deployment is deleted": 0}
    return ends.get(what, s.replicas)


HARMLESS = ("scale up", "pause")
EVENTS = (
    *HARMLESS,
    "rollout",
    "scale down",
    "old pod goes",
    "replacement goes",
    "target dies",
    "move is deleted",
    "deployment is deleted",
)


@pytest.mark.parametrize("what", EVENTS)
@pytest.mark.parametrize("seed", range(FIRST + 200, FIRST + 200 + SEEDS))
def test_interruptions_at_any_moment(scene, what, seed):
    s = scene(seed, replicas=3, crashes=seed % 2)
    name, target, old = s.move()
    phase = s.rng.choice(["Reserving", "Evicting", "HandingOver"])
    s.when(phase, name)
    s.cluster.advance(s.rng.choice([0.0, 0.05, 0.3, 0.8]))
    wanted = interrupt(s, what, name, target, old)
    s.finish(name)
    s.cluster.advance(30)
    s.settled(wanted)
    if what in HARMLESS:
        assert s.witness.least >= 3
    if what == "rollout":
        assert all(p["metadata"]["annotations"].get("v") == "2" for p in s.pods())


def test_a_replacement_that_never_becomes_ready_disturbs_nobody(scene):
    s = scene(7)
    name, _, old = s.move(ttl="30s")
    s.cluster.run_until(lambda: bool(s.unadopted()), 20)
    (replacement,) = s.unadopted()
    never = {"metadata": {"annotations": {"sandbox.rescheduler.dev/ready-after": "never"}}}
    s.patch(POD, replacement["metadata"]["name"], never)
    s.finish(name)
    assert s.state(name)["reason"] == "Timeout"
    assert "not Ready" in s.state(name)["message"]
    assert [uid(p) for p in s.pods()] == [uid(old)]
    s.settled(1)
    assert not s.witness.evicted


def test_min_ready_seconds_are_kept(scene):
    s = scene(8, min_ready_s=10)
    name, *_ = s.move()
    without = []

    def watch(_):
        if not status(s.api.get(DEPLOYMENT, "default", "web")).get("availableReplicas", 0):
            without.append(s.cluster.clock())

    s.api.subscribe(watch)
    s.finish(name)
    assert s.state(name)["phase"] == "Succeeded"
    # Between eviction and adoption no pod is counted; adopted, the replacement has been Ready for long enough.
    assert not without or max(without) - min(without) < 1.0
    s.settled(1)
    assert s.witness.least == 1


@pytest.mark.parametrize(
    ("more", "spec_more", "words"),
    [
        ({"annotated": False}, {"mode": "StartFirst"}, "must be declared"),
        ({"type": "Recreate"}, {"mode": "StartFirst"}, "allows no surge"),
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, {"mode": "StartFirst"}, "allows no surge"),
    ],
)
def test_what_is_not_declared_or_cannot_be_done_is_refused(scene, more, spec_more, words):
    s = scene(9, **more)
    name, *_ = s.move(**spec_more)
    s.finish(name)
    assert s.state(name)["reason"] == "ModeNotSupported"
    assert words in s.state(name)["message"]
    s.settled(1)


ONE_FOR_EACH_ZONE = {
    "maxSkew": 1,
    "minDomains": 2,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "nodeAffinityPolicy": "Ignore",
}
"""There is one zone only, so that no second pod may run beside the first."""


@pytest.mark.parametrize("named", [True, False])
def test_auto_reserves_first_where_no_second_pod_may_run_beside_the_old_one(scene, named):
    s = scene(3, spread=[ONE_FOR_EACH_ZONE], unavailable=1)
    name, target, old = s.move(mode="Auto", **({} if named else {"target": None}))
    s.finish(name)
    state = s.state(name)
    assert (state["phase"], state["mode"]) == ("Succeeded", "ReserveFirst")
    (told,) = [c for c in state["conditions"] if c["type"] == "StartFirst"]
    assert (told["status"], told["reason"]) == ("False", "ModeNotSupported")
    (pod,) = s.pods()
    assert uid(pod) != uid(old)
    assert not named or spec(pod)["nodeName"] == target
    assert s.leftovers() == ([], [], {})


def test_a_move_that_asks_for_the_mode_waits_for_a_place_beside_the_old_pod(scene):
    s = scene(3, spread=[ONE_FOR_EACH_ZONE], unavailable=1)
    name, _, old = s.move(mode="StartFirst")
    s.finish(name)
    state = s.state(name)
    assert state["phase"] == "Failed"
    assert "beside the running old pod" in state["message"]
    assert [uid(p) for p in s.pods()] == [uid(old)]


def test_auto_without_a_declaration_reserves_first(scene):
    s = scene(10, annotated=False)
    name, *_ = s.move(ttl="5s")
    s.finish(name)
    assert s.state(name).get("mode", "ReserveFirst") == "ReserveFirst"
    assert not s.unadopted()
