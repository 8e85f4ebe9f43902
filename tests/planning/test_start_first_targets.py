"""Where the replacement of mode StartFirst may start: beside the running old pod, with the labels that it has then."""

import dataclasses

import pytest

from harness import builders as b
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.names import ANNOTATION_MODE, HOSTNAME, LABEL_START_FIRST, ZONE
from rescheduler.model.reservation import ObjectRef
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.single_pod import choose_target, start_first_refusal
from rescheduler.planning.start_first_mode import unadopted_replacement
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState
from tests import records

HASH = {"app": "web", "pod-template-hash": "1"}
APART = {
    "topologyKey": ZONE,
    "labelSelector": {"matchLabels": {"app": "web"}},
    "matchLabelKeys": ["pod-template-hash"],
}
"""Pods of one revision keep apart. The API server adds the revision to the selector of each pod."""
STORED = {
    **APART,
    "labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "pod-template-hash", "operator": "In", "values": ["1"]}]},
}  # fmt: skip
NOT_IN_SPREAD = {"nodeAffinityPolicy": "Ignore"}


def node(name, zone, *, old=False):
    built = b.node(name).zone(zone).label({HOSTNAME: name})
    return built.taint("old") if old else built


def web(make=lambda owner: owner, *, on=("n1",), deployment=True, budget=0, stored=None):
    """A workload that declares the mode. ``stored``: changes its pods as the API server stores them."""
    owner = make(b.replicaset("web-1")).template_label(HASH if deployment else {"app": "web"})
    owner = owner.replicas(len(on))
    above = b.deployment("web").replicas(len(on)).annotate({ANNOTATION_MODE: "StartFirst"})
    owner = owner.owned_by(above) if deployment else owner.annotate({ANNOTATION_MODE: "StartFirst"})
    pods = [owner.pod(f"web-1-{i}").on(place) for i, place in enumerate(on)]
    pods = [stored(pod) if stored else pod for pod in pods]
    objects = [owner, *pods, b.pdb("web").selects(app="web").allows(budget, healthy=len(on))]
    return [above, *objects] if deployment else objects


def spread(owner):
    """Over zones, counted on all nodes whatever the pod's node affinity is."""
    return owner.cpu("1").set(f"{owner.spec_path}.topologySpreadConstraints", [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}, **NOT_IN_SPREAD},
    ])  # fmt: skip


def moves(plan):
    return [(m.pod.name, m.target, m.mode) for m in plan.moves]


FULL = node("n3", "b").cpu("1")
NODES = (node("n1", "a", old=True), node("n2", "a"), FULL)
THREE = ("n1", "n2", "n3")


def test_the_running_old_pod_counts_for_spread_and_the_move_reserves_first_instead(decide):
    """In zone a there would be three pods and in zone b one; without the old pod there are two."""
    plan = decide(b.snapshot(*NODES, web(spread, on=THREE, budget=1)), "NodeTaints")
    assert moves(plan) == [("web-1-0", "n2", MoveMode.RESERVE_FIRST)]


def test_without_a_budget_for_it_such_a_move_is_not_planned(decide):
    plan = decide(b.snapshot(*NODES, web(spread, on=THREE, budget=0)), "NodeTaints")
    assert moves(plan) == []
    assert [str(s.reason) for s in plan.skipped] == ["DisruptionBudget"]


def test_moves_that_reserve_first_instead_spend_the_budget(decide):
    nodes = (node("n1", "a", old=True), node("n2", "a", old=True), FULL, node("n4", "a"))
    plan = decide(b.snapshot(*nodes, web(spread, on=THREE, budget=1)), "NodeTaints")
    assert [mode for *_, mode in moves(plan)] == [MoveMode.RESERVE_FIRST]
    assert [str(s.reason) for s in plan.skipped] == ["DisruptionBudget"]


def test_the_pin_narrows_spread_to_the_target(decide):
    """nodeAffinityPolicy is Honor by default, so kube-scheduler counts the target alone: the replacement may start there."""
    nodes = (node("n1", "a", old=True), node("n2", "a"), node("n3", "b"))
    plan = decide(b.snapshot(*nodes, web(lambda o: o.spread(ZONE, app="web"), on=("n1", "n3"))), "NodeTaints")
    assert moves(plan) == [("web-1-0", "n2", MoveMode.START_FIRST)]


def test_what_must_not_stay_once_the_old_pod_is_gone_is_not_started(decide):
    """The pin would let it start in zone b, where two pods would be left and none in zone a."""
    nodes = (node("n1", "a", old=True), node("n2", "b"), node("n3", "b"))
    plan = decide(
        b.snapshot(*nodes, web(lambda o: o.spread(ZONE, app="web"), on=("n1", "n3"), budget=1)), "NodeTaints"
    )
    assert moves(plan) == []


def test_a_pod_that_is_not_bound_yet_does_not_make_good_what_the_replacement_breaks(decide):
    """A pod nominated to zone a would balance the two pods in zone b. It may never be bound there."""
    nodes = (node("n1", "a", old=True), node("n2", "b"), node("n3", "b"))
    nominated = b.pod("web-2").label({"app": "web"}).nominated("n1")
    objects = web(lambda o: o.spread(ZONE, app="web"), on=("n1", "n3"), budget=1)
    assert moves(decide(b.snapshot(*nodes, nominated, objects), "NodeTaints")) == []


def apart_by_revision(owner):
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}
    return owner.set(f"{owner.spec_path}.affinity", {"podAntiAffinity": rules})


def as_stored(pod):
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [STORED]}
    return pod.set("spec.affinity", {"podAntiAffinity": rules})


def test_it_keeps_apart_from_its_own_revision_only_although_it_has_no_revision_yet(decide):
    """A pod of an older revision is in zone b, where the replacement may start; its running old pod is in zone a."""
    old = b.pod("web-0-x").label({"app": "web", "pod-template-hash": "0"}).on("n2")
    objects = web(apart_by_revision, stored=as_stored)
    nodes = (node("n1", "a", old=True), node("n2", "b"))
    assert moves(decide(b.snapshot(*nodes, old, objects), "NodeTaints")) == [
        ("web-1-0", "n2", MoveMode.START_FIRST)
    ]
    nodes = (nodes[0], node("n2", "b").taint("new"), node("n3", "a"))
    assert moves(decide(b.snapshot(*nodes, old, objects), "NodeTaints")) == []


def test_its_selectors_are_those_of_the_pod_that_it_becomes():
    cluster = b.snapshot(node("n1", "a"), web(apart_by_revision, stored=as_stored))
    (pod,) = cluster.pods.values()
    replacement = Replacements(cluster).of(pod).pod
    unadopted = unadopted_replacement(replacement, cluster.workloads[pod.controller.uid])
    assert set(unadopted.labels) == {"app", LABEL_START_FIRST}
    assert unadopted.controller is None
    (term,) = unadopted.spec.pod_anti_affinity
    assert [r.key for r in term.selector.requirements] == ["app", "pod-template-hash"]


def test_affinity_to_oneself_holds_beside_the_old_pod_only_in_its_domain(decide):
    nodes = (node("n1", "a", old=True), node("n2", "b"))
    objects = web(lambda o: o.near(ZONE, app="web"), budget=1)
    assert moves(decide(b.snapshot(*nodes, objects), "NodeTaints")) == []
    assert moves(decide(b.snapshot(*nodes, node("n3", "a"), objects), "NodeTaints")) == [
        ("web-1-0", "n3", MoveMode.START_FIRST)
    ]


def under_way(pod, replacement, target):
    comes = {"mode": MoveMode.START_FIRST, "replacement": ObjectRef("default", replacement, replacement)}
    places = {"pod_name": pod, "target_node": target, "node_name": target}
    migration = records.move("m", MigrationPhase.EVICTING, **places, **comes)
    return {migration.key: migration}


def test_a_move_under_way_has_both_pods_there_and_ends_with_the_one_that_is_adopted(decide):
    """Without Deployment the replacement has none of the labels yet; once adopted it keeps others out of zone b."""
    nodes = (node("n1", "a", old=True), node("n2", "b"), node("n4", "a"), node("n3", "c").taint("new"))
    alone = lambda o: o.apart(ZONE, app="web")  # noqa: E731
    started = b.pod("web-1-x").label({LABEL_START_FIRST: "m"}).on("n2")
    other = alone(b.replicaset("api").label(app="api"))
    objects = [*web(alone, deployment=False), started, other, other.pod("api-0").on("n1")]
    cluster = dataclasses.replace(
        b.snapshot(*nodes, objects), migrations=under_way("web-1-0", "web-1-x", "n2")
    )
    assert moves(decide(cluster, "NodeTaints")) == []
    free = dataclasses.replace(
        b.snapshot(*nodes[:3], node("n3", "c"), objects), migrations=under_way("web-1-0", "web-1-x", "n2")
    )
    assert [target for _, target, _ in moves(decide(free, "NodeTaints"))] == ["n3"]


def asked(*objects):
    cluster = b.snapshot(*objects)
    pod = next(p for p in cluster.pods.values() if p.name == "web-1-0")
    return Replacements(cluster), SchedulingState(cluster), pod


def test_a_single_move_is_judged_as_in_a_plan():
    question = asked(node("n1", "a"), node("n2", "a"), node("n3", "b"), web(spread, on=THREE))
    refused = start_first_refusal(*question, "n2")
    assert (refused.plugin, "next to the running old pod" in refused.reason) == ("PodTopologySpread", True)
    assert choose_target(*question, starts_first=True).node == "n3"
    assert choose_target(*question).node == "n2"
    assert question[1].checkpoint() == 0


def test_a_single_move_must_not_leave_a_broken_rule_behind():
    """The pin lets it start in zone b beside the old pod; once that is gone, two pods are there and none in zone a."""
    nodes = (node("n1", "a"), node("n3", "b"), node("n4", "b"))
    question = asked(*nodes, web(lambda o: o.spread(ZONE, app="web"), on=("n1", "n3")))
    assert start_first_refusal(*question, "n4").reason.endswith("once the old pod is gone")
    assert choose_target(*question, starts_first=True).node == ""


@pytest.mark.parametrize(("domains", "starts"), [(1, True), (3, False)])
def test_the_pin_leaves_one_domain_so_that_min_domains_counts_from_zero(domains, starts):
    others = [b.pod(f"web-9-{i}").label(HASH).on(name) for i, name in enumerate(("n1", "n2", "n3"))]
    make = lambda o: o.spread(HOSTNAME, min_domains=domains, app="web")  # noqa: E731
    question = asked(node("n1", "a"), node("n2", "a"), node("n3", "b"), *others, web(make))
    assert (start_first_refusal(*question, "n2") is None) is starts
    assert bool(choose_target(*question, starts_first=True).node) is starts
    assert choose_target(*question).node == "n2"


@pytest.mark.parametrize("mode", [MoveMode.AUTO, MoveMode.START_FIRST])
def test_what_starts_first_is_not_what_reserves_first_for_the_planner_either(decide, mode):
    nodes = (node("n1", "a", old=True), node("n2", "b"))
    plan = decide(
        b.snapshot(*nodes, web(lambda o: o.apart(ZONE, app="web"))),
        "NodeTaints",
        inputs=PlanningInputs(unlimited=True, mode=mode),
    )
    assert moves(plan) == [("web-1-0", "n2", MoveMode.START_FIRST)]
