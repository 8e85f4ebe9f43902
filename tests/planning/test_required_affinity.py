"""No move takes away the last pod that another one requires near it, unless it repairs a rule."""

import pytest

from harness import builders as b
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.registry import REGISTRY
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.state import SchedulingState

EVEN = ("LowNodeUtilization", {"thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 50.0}})


def nodes():
    """Two in zone a, two in zone b; the first one is tainted if need be."""
    return [b.node(f"n{i}").zone("ab"[i // 2]) for i in range(4)]


def cluster(*caches, key=ZONE, first=None, app="n0"):
    """Caches of 1.5 CPU on these nodes, and on node ``app`` a pod that requires one of them near."""
    cache = b.replicaset("cache").cpu("1500m").replicas(len(caches))
    web = b.replicaset("web").cpu("100m").near(key, app="cache")
    some = [first or nodes()[0], *nodes()[1:]]
    pods = [cache.pod(f"cache-{i}").on(node) for i, node in enumerate(caches)]
    return b.snapshot(*some, cache, web, pods, web.pod("web-0").on(app))


def planned(found, *entries):
    policies = [REGISTRY[name].build(REGISTRY[name].args(**args)) for name, args in entries]
    return plan(found, policies, PlanningInputs(aggressiveness=1.0, unlimited=True), SchedulingState(found))


def required(found, name="cache-0", profile=None):
    """Who requires the pod, and the nodes where it still would be near."""
    pod = next(p for p in found.pods.values() if p.name == name)
    state = SchedulingState(found, profile)
    trial = Trial(found, PolicyView.of(found, state), set())
    with trial.without(pod):
        said = trial.required_near(pod, Replacements(found).of(pod).pod)
    if said is None:
        return None
    return said.by.name, {state.node_names[i] for i, near in enumerate(said.nodes.tolist()) if near}


def test_the_last_one_of_a_domain_is_required():
    assert required(cluster("n0")) == ("web-0", {"n0", "n1"})
    assert required(cluster("n0", key=HOSTNAME)) == ("web-0", {"n0"})
    assert required(cluster("n0", "n1")) is None
    assert required(cluster("n0", "n1", key=HOSTNAME)) == ("web-0", {"n0"})
    assert required(cluster("n2", "n0"), "cache-0") is None
    assert required(cluster("n0", "n2"), "cache-0") == ("web-0", {"n0", "n1"})


def test_nobody_is_asked_whose_rule_is_broken_anyway():
    cache = b.replicaset("cache").cpu("1500m")
    web = b.replicaset("web").near(ZONE, app="cache").near(HOSTNAME, app="cache")
    for app, by in (("n0", ("web-0", {"n0"})), ("n1", None)):
        found = b.snapshot(*nodes(), cache, web, cache.pod("cache-0").on("n0"), web.pod("web-0").on(app))
        assert required(found) == by


def test_a_pod_that_ends_requires_nothing_and_a_scheduler_without_the_rule_neither():
    cache, web = b.replicaset("cache"), b.replicaset("web").near(ZONE, app="cache")
    stands = (*nodes(), cache, web, cache.pod("cache-0").on("n0"))
    assert required(b.snapshot(*stands, web.pod("web-0").on("n1").deleting())) is None
    found = b.snapshot(*stands, web.pod("web-0").on("n1"))
    assert required(found) is not None
    assert required(found, profile=Profile(disabled=frozenset({"InterPodAffinity"}))) is None


def test_a_pod_that_matches_its_own_rule_needs_another_one():
    twins = b.replicaset("twins").near(ZONE, app="twins").replicas(3)
    pods = [twins.pod(f"twins-{i}").on(node) for i, node in enumerate(("n0", "n1", "n2"))]
    assert required(b.snapshot(*nodes(), twins, pods), "twins-0") == ("twins-1", {"n0", "n1"})
    more = [*pods, twins.pod("twins-3").on("n1")]
    assert required(b.snapshot(*nodes(), twins, more), "twins-0") is None


def test_balance_keeps_it_where_it_is_required():
    moved = planned(cluster("n0", "n0"), EVEN).moves
    assert [move.pod.name for move in moved] == ["cache-0"]
    assert len(planned(cluster("n0", "n0", key=HOSTNAME), EVEN).moves) == 1


@pytest.mark.parametrize("effect", ["PreferNoSchedule", "NoSchedule"])
def test_a_rule_is_repaired_and_a_wish_is_not_met(effect):
    found = cluster("n0", key=HOSTNAME, first=nodes()[0].taint("old", effect=effect))
    made = planned(found, ("NodeTaints", {"include_prefer_no_schedule": True}))
    moved = [move.pod.name for move in made.moves]
    if effect == "NoSchedule":
        assert "cache-0" in moved
        return
    assert "cache-0" not in moved
    why = next(one for one in made.skipped if one.pod.name == "cache-0")
    assert (why.reason, why.blocked_by) == ("NoBetterTarget", "default/web-0")
    assert "pod default/web-0 requires it near (required pod affinity)" in why.message


def test_a_node_is_not_emptied_of_it():
    found = cluster("n0", "n2", app="n0")
    made = planned(found, ("HighNodeUtilization", {"thresholds": {"cpu": 60.0}}))
    after = {p.uid: p.node for p in found.pods.values()} | {m.pod.uid: m.target for m in made.moves}
    zones = {node.name: node.labels[ZONE] for node in found.nodes.values()}
    names = {p.name: zones[after[p.uid]] for p in found.pods.values()}
    assert names["web-0"] in (names["cache-0"], names["cache-1"])
