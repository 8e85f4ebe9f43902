"""Each key of the configuration, changed while the assembled controller runs: what it does from then on.

The controller is the one that ``rescheduler run`` assembles, on the sandbox in virtual time. A key without a line in one
of the tables fails the first test: whoever adds it decides whether it waits for a restart.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from configured import CONTAINER, MOVE, Lab, document, named

from kube_sandbox.controllers.unstructured import NODE, POD, labels, spec, status
from rescheduler.configuration.document import keys
from rescheduler.configuration.start_only import START_ONLY
from rescheduler.kube.client import KubeApi
from rescheduler.model.names import GATE, LABEL_PLACEHOLDER, NODE_REQUEST

STOCK = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ONLY_N1 = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {
                                        "matchFields": [
                                            {"key": "metadata.name", "operator": "In", "values": ["n1"]}
                                        ]
                                    }
                                ]
                            }
                        }
                    },
                }
            ],
        }
    ],
}
"""A scheduler that binds pods to node n1 only."""


@dataclass(frozen=True)
class Blocked:
    """With ``before`` no pod leaves the tainted node, for that reason; with ``after`` one does."""

    before: Any
    after: Any
    reason: str
    pod: dict = field(default_factory=dict)
    annotations: dict = field(default_factory=dict)
    budget: bool = False


IN_PROFILE = {"name": "p", "policies": [{"name": "NodeTaints", "after": "0s"}]}
BLOCKED = {
    "aggressiveness": Blocked("conservative", "aggressive", "DisruptionBudget", budget=True),
    "limits.movesAtOnce": Blocked(0, 1, "LimitMovesAtOnce"),
    "limits.movesPerHour": Blocked(0, 1, "LimitMovesPerHour"),
    "limits.perNode": Blocked(0, 1, "LimitPerNode"),
    "limits.perNamespace": Blocked(0, 1, "LimitPerNamespace"),
    "limits.perWorkload": Blocked(0, 1, "LimitPerWorkload"),
    "limits.minimumGain": Blocked(1.0, 0.0, "GainTooSmall"),
    "limits.windows": Blocked([{"cron": "0 0 29 2 *", "duration": "2m"}], [], "ChangeWindow"),
    "limits.budgetBuffer": Blocked(1, 0, "DisruptionBudget", budget=True),
    "protections.priorityThreshold": Blocked(0, 1, "Protected"),
    "protections.minReplicas": Blocked(3, 2, "MinReplicas"),
    "protections.minAge": Blocked("10h", "1s", "Protected"),
    "protections.localStorage": Blocked(True, False, "Protected", pod={"volumes": [{"name": "tmp", "emptyDir": {}}]}),
    "protections.persistentVolumes": Blocked(True, False, "Protected", pod={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}),
    "protections.withoutBudget": Blocked(True, False, "Protected"),
    "protections.preferNoEviction": Blocked(True, False, "Protected", annotations={"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}),
    "protections.namespaces": Blocked({"include": ["other"]}, {"include": ["default"]}, "Protected"),
    "protections.labelSelector": Blocked({"matchLabels": {"app": "other"}}, {"matchLabels": {"app": "web"}}, "Protected"),
    "replacements.notReplacing": Blocked([{"apiGroup": "apps", "kind": "ReplicaSet"}], [], "NotSupported"),
    "policies": Blocked([], [{"name": "NodeTaints", "after": "0s"}], ""),
    "profiles": Blocked([{**IN_PROFILE, "protections": {"minReplicas": 9}}], [IN_PROFILE], "MinReplicas"),
    "schedulerConfiguration": Blocked(ONLY_N1, STOCK, "NoTarget"),
}  # fmt: skip


def interval():
    lab = Lab(document(interval="1h"))

    def decisions_in(duration_s):
        before = lab.series("rescheduler_cycles_total", result="decided")
        lab.cluster.advance(duration_s)
        return lab.series("rescheduler_cycles_total", result="decided") - before

    lab.cluster.advance(10)
    assert decisions_in(60) == 0
    lab.configure(document(interval="5s"))
    assert decisions_in(60) >= 10


def mode():
    lab = Lab(document(mode="Soft"))
    lab.cluster.advance(5)
    lab.configure(document(mode="ReserveFirst"))
    lab.cluster.advance(5)
    lab.taint()
    lab.until(lab.moves)
    assert {spec(move)["mode"] for move in lab.moves()} == {"ReserveFirst"}


def limits_workload_cooldown():
    lab = Lab(document(limits__workloadCooldown="10m", limits__perWorkload=1))
    lab.taint()
    lab.until(lab.moves)
    lab.cluster.advance(60)
    assert len(lab.moves()) == 1
    lab.configure(document(limits__workloadCooldown="0s", limits__perWorkload=1))
    lab.until(lambda: len(lab.moves()) == 2)


def limits_requested():
    lab = Lab(document(policies=[], limits__requested={"movesPerHour": 0}))
    (pod, _) = lab.cluster.api.list(POD)
    lab.move("asked", pod["metadata"]["name"])
    lab.cluster.advance(60)
    (waiting,) = lab.moves()
    assert status(waiting)["reason"] == "LimitMovesPerHour"
    lab.configure(document(policies=[], limits__requested={"movesPerHour": 1}))
    lab.until(lambda: status(lab.moves()[0]).get("phase") == "Succeeded")


def reservations_ttl():
    lab = Lab(document())
    lab.cluster.advance(5)
    lab.configure(document(reservations__ttl="77s"))
    lab.cluster.advance(5)
    lab.taint()
    lab.until(lab.moves)
    assert {spec(move)["ttl"] for move in lab.moves()} == {"1m17s"}


def reservations_max_ttl():
    settings = {"schedulerConfiguration": ONLY_N1, "reservations__ttl": "5s"}
    lab = Lab(document(**settings, reservations__maxTtl="10h"))
    (pod, _) = lab.cluster.api.list(POD)

    def phase():
        return status(lab.cluster.api.get(MOVE, "default", "asked")).get("phase")

    lab.move("asked", pod["metadata"]["name"], ttl="0s")
    lab.cluster.advance(60)
    assert phase() == "Pending"
    lab.configure(document(**settings, reservations__maxTtl="30s"))
    lab.until(lambda: phase() == "Failed")


def reservations_node_autoscaler():
    """A move that no node takes asks for a node only where a node autoscaler is."""
    lab = Lab(document(policies=[], reservations__nodeAutoscaler="Absent"))
    (pod, _) = lab.cluster.api.list(POD)
    for node in lab.cluster.api.list(NODE):
        lab.cluster.api.patch(node, {"spec": {"unschedulable": True}})
    lab.move("asked", pod["metadata"]["name"], ttl="10m", node="")

    def asking():
        return [p for p in lab.cluster.api.list(POD) if labels(p).get(LABEL_PLACEHOLDER) == NODE_REQUEST]

    lab.cluster.advance(60)
    assert not asking()
    lab.configure(document(policies=[], reservations__nodeAutoscaler="Present"))
    lab.until(asking)


def replacements_jobs():
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    ignores = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x", "namespace": "default"}}
    owner = {**job, "spec": {"completions": 1, "template": template, "podFailurePolicy": ignores}}
    Lab(document(), replicas=0).lone_pod_moves_after(owner, document(replacements__jobs=True))


def replacements_controllers():
    """A ConfigMap stands for a custom resource."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}
    listed = document(replacements__controllers=[{"apiGroup": "", "kind": "ConfigMap"}])
    Lab(document(), replicas=0).lone_pod_moves_after(owner, listed)


def reservations_default_ttl():
    lab = Lab(document())
    lab.reserve("room")
    lab.until(lambda: lab.phase("room") == "Available")
    lab.cluster.advance(60)
    assert lab.phase("room") == "Available"
    lab.configure(document(reservations__defaultTtl="20s"))
    lab.until(lambda: lab.phase("room") not in ("Available", "Pending"), 20)


def reservations_shares():
    lab = Lab(document(reservations__shares={"*": {"reservations": 0}}))
    lab.reserve("room")
    lab.cluster.advance(60)
    assert lab.phase("room") == "Pending"
    lab.configure(document(reservations__shares={"*": {"reservations": 1}}))
    lab.until(lambda: lab.phase("room") == "Available")


def reservations_pause_image():
    lab = Lab(document(reservations__pauseImage="registry.example/pause:1"))
    lab.cluster.advance(5)
    lab.configure(document(reservations__pauseImage="registry.example/pause:2"))
    lab.cluster.advance(5)
    lab.reserve("room")
    lab.until(lambda: lab.phase("room") == "Available")
    assert spec(lab.placeholder())["containers"][0]["image"] == "registry.example/pause:2"


def reservations_finished_ttl():
    lab = Lab(document(reservations__finishedTtl="10h"))
    lab.reserve("room", ttl="5s")
    lab.until(lambda: lab.phase("room") in ("Failed", "Succeeded"))
    lab.cluster.advance(60)
    assert lab.phase("room") != "gone"
    lab.configure(document(reservations__finishedTtl="1s"))
    lab.until(lambda: lab.phase("room") == "gone")


def reservations_gate_limit():
    lab = Lab(document(reservations__gateLimit="10m"))
    lab.reserve("room")
    lab.until(lambda: lab.phase("room") == "Available")
    guest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "guest", "namespace": "default"},
        "spec": {"containers": [CONTAINER], "schedulingGates": [{"name": "example.com/later"}]},
    }
    KubeApi(lab.cluster.transport).create("/api/v1/namespaces/default/pods", guest)

    def gated():
        gates = spec(lab.cluster.api.get(POD, "default", "guest"))["schedulingGates"]
        return any(gate["name"] == GATE for gate in gates)

    lab.cluster.advance(90)
    assert gated()
    lab.configure(document(reservations__gateLimit="50s"))
    lab.until(lambda: not gated(), 15)


def reservations_max_lifetime():
    lab = Lab(document(reservations__maxLifetime="10h"))
    lab.reserve("room")
    lab.until(lambda: lab.phase("room") == "Available")
    lab.cluster.advance(60)
    assert lab.phase("room") == "Available"
    lab.configure(document(reservations__maxLifetime="30s"))
    lab.until(lambda: lab.phase("room") != "Available")


def read_anew(key, value, read):
    """Sections that are looked at for each eviction, measurement or clean-up; what they do is tested with them."""

    def taken():
        lab = Lab(document())
        lab.cluster.advance(5)
        before = read(lab.program.configuration.current)
        lab.configure(document(**named(key, value)))
        lab.cluster.advance(5)
        assert read(lab.program.configuration.current) != before

    return {key: taken}


SCENARIOS = {
    **read_anew("usage.window", "1h", lambda found: found.usage.window_s),
    **read_anew("usage.prometheus", {"url": "http://127.0.0.1:1"}, lambda found: found.usage.prometheus.url),
    **read_anew("usage.statistic", "p95", lambda found: found.usage.statistic),
    **read_anew("guard.limit", "1m", lambda found: found.guard.limit_s),
    **read_anew("guard.whenNoRoom", "Refuse", lambda found: found.guard.when_no_room),
    **read_anew("guard.followCordons", True, lambda found: found.guard.follow_cordons),
    **read_anew("guard.namespaceSelector", {"matchLabels": {"team": "a"}}, lambda found: found.guard.namespace_selector.matches({"team": "a"})),
    **read_anew("failedPods.enabled", True, lambda found: found.failed_pods.enabled),
    **read_anew("failedPods.after", "2h", lambda found: found.failed_pods.after_s),
    **read_anew("failedPods.reasons", ["Evicted"], lambda found: found.failed_pods.reasons),
    **read_anew("failedPods.excludeOwnerKinds", [], lambda found: found.failed_pods.exclude_owner_kinds),
    **read_anew("failedPods.withoutController", True, lambda found: found.failed_pods.without_controller),
    **read_anew("failedPods.namespaces", {"include": ["a"]}, lambda found: found.failed_pods.namespaces),
    "interval": interval,
    "mode": mode,
    "limits.workloadCooldown": limits_workload_cooldown,
    "replacements.jobs": replacements_jobs,
    "replacements.controllers": replacements_controllers,
    "limits.requested": limits_requested,
    "reservations.ttl": reservations_ttl,
    "reservations.nodeAutoscaler": reservations_node_autoscaler,
    "reservations.defaultTtl": reservations_default_ttl,
    "reservations.shares": reservations_shares,
    "reservations.pauseImage": reservations_pause_image,
    "reservations.finishedTtl": reservations_finished_ttl,
    "reservations.gateLimit": reservations_gate_limit,
    "reservations.maxTtl": reservations_max_ttl,
    "reservations.maxLifetime": reservations_max_lifetime,
}  # fmt: skip

OTHER_VALUES = {
    "reservations.engine": "Koordinator",
    "reservations.namespace": "elsewhere",
    "gate.mode": "Webhook",
    "gate.port": 9444,
    "gate.url": "https://10.0.0.7:9443",
    "guard.enabled": False,
    "leaderElection.enabled": False,
    "server.port": 8081,
    "server.page": True,
}


def test_every_key_is_taken_or_waits_for_a_restart():
    decided = [*BLOCKED, *SCENARIOS, *START_ONLY]
    assert sorted(decided) == sorted(keys())
    assert set(OTHER_VALUES) == set(START_ONLY)


@pytest.mark.parametrize("key", BLOCKED)
def test_a_pod_that_a_key_keeps_where_it_is_moves_once_the_key_has_changed(key):
    case = BLOCKED[key]
    others = {"protections__localStorage": False, "protections__persistentVolumes": False}
    settings = others | {"limits__budgetBuffer": 0} if key.startswith("limits.") else others
    before = document(**settings | named(key, case.before))
    lab = Lab(before, pod=case.pod, annotations=case.annotations, budget=case.budget)
    lab.taint()
    lab.cluster.advance(40)
    assert lab.moves() == []
    if case.reason:
        assert lab.series("rescheduler_moves_blocked", reason=case.reason) > 0
    lab.configure(document(**settings | named(key, case.after)))
    lab.until(lab.moves, 40)


@pytest.mark.parametrize("key", SCENARIOS)
def test_a_changed_key_is_taken(key):
    SCENARIOS[key]()


@pytest.mark.parametrize("key", START_ONLY)
def test_a_changed_key_waits_for_a_restart_and_is_told_while_the_rest_is_taken(key):
    lab = Lab(document())
    lab.reserve("room")
    lab.until(lambda: lab.phase("room") == "Available")
    lab.configure(document(reservations__finishedTtl="1s", **named(key, OTHER_VALUES[key])))
    lab.cluster.advance(30)
    waiting = {k: lab.series("rescheduler_configuration_waiting", key=k) for k in START_ONLY}
    assert waiting == {k: float(k == key) for k in START_ONLY}
    assert lab.series("rescheduler_configuration_ok") == 1
    (told,) = (event for event in lab.program.events.told if event.startswith("ConfigurationWaits"))
    assert f"{key} changes at a restart only" in told
    assert lab.phase("room") == "Available"
    assert lab.placeholder()["metadata"]["namespace"] == "rescheduler"
    lab.reserve("other", ttl="1s")
    lab.until(lambda: lab.phase("other") == "gone")
    lab.configure(document())
    lab.cluster.advance(5)
    assert lab.series("rescheduler_configuration_waiting", key=key) == 0


def test_reservations_are_placed_by_the_scheduler_configuration_that_is_in_force():
    lab = Lab(document(schedulerConfiguration=ONLY_N1))
    lab.taint()
    lab.reserve("room")
    lab.cluster.advance(60)
    assert lab.phase("room") == "Pending"
    lab.configure(document())
    lab.until(lambda: lab.phase("room") == "Available")


def test_moves_that_people_ask_for_keep_to_the_protections_that_are_in_force():
    lab = Lab(document(protections__namespaces={"exclude": ["default"]}))
    (pod, _) = lab.cluster.api.list(POD)

    def phase(name):
        return status(lab.cluster.api.get(MOVE, "default", name)).get("phase")

    lab.move("refused", pod["metadata"]["name"])
    lab.until(lambda: phase("refused") == "Failed")
    lab.configure(document())
    lab.cluster.advance(5)
    lab.move("taken", pod["metadata"]["name"])
    lab.until(lambda: phase("taken") == "Succeeded", 120)


def test_a_move_is_made_by_the_protections_of_its_profile_where_people_may_not_ask_for_it():
    allowed = {**IN_PROFILE, "protections": {"namespaces": {"exclude": []}}}
    lab = Lab(document(protections__namespaces={"exclude": ["default"]}, profiles=[allowed]))
    lab.taint()
    lab.until(lab.moves, 40)

    def phases():
        return {status(move).get("phase") for move in lab.cluster.api.list(MOVE)}

    lab.until(lambda: phases() == {"Succeeded"}, 200)
    assert {spec(move)["policy"] for move in lab.cluster.api.list(MOVE)} == {"p/NodeTaints"}


def test_a_document_that_is_refused_changes_nothing_and_is_told():
    lab = Lab(document(limits__movesAtOnce=0))
    lab.taint()
    lab.cluster.advance(10)
    lab.configure(document(limits__movesAtOnce=1, intervall="5s"))
    lab.cluster.advance(40)
    assert lab.moves() == []
    assert lab.series("rescheduler_configuration_ok") == 0
    assert lab.series("rescheduler_configuration_reloads_total", result="refused") == 1
    (told,) = (event for event in lab.program.events.told if event.startswith("ConfigurationRefused"))
    assert "intervall: unknown key" in told
