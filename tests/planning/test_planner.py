"""What may be used by a plan, what a replacement is judged by, and what the plan reports."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.model.names import HOSTNAME, LABEL_PLACEHOLDER, ZONE
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.records import PodSpec, SpreadConstraint
from rescheduler.model.replacement_rules import ReplacementRules
from rescheduler.model.reservation import ReservationPhase
from rescheduler.model.resources import Resources
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import Profile
from tests import records

OLD = b.node("n1").taint("old")


def reasons(plan):
    return {s.pod.name: str(s.reason) for s in plan.skipped}


def record(cluster, name):
    return next(p for p in cluster.pods.values() if p.name == name)


def test_capacity_accumulates_over_the_plan(decide, app):
    cluster = b.snapshot(OLD, b.node("n2").cpu("2"), app("web", ["n1"] * 4, lambda s: s.cpu("1")))
    plan = decide(cluster, "NodeTaints")
    assert len(plan.moves) == 2
    assert list(reasons(plan).values()) == ["NoTarget"] * 2


def test_the_room_left_behind_is_used_only_by_a_move_that_begins_after(decide, app):
    """a-0 leaves n2 for n3; b-0 fits n2 only in that room, which is not free before a-0 has ended."""
    cluster = b.snapshot(
        OLD, b.node("n2").cpu("1").label(kind="x"), b.node("n3").cpu("1").label(kind="y"),
        app("a", ["n2"], lambda s: s.cpu("1").node_selector({"kind": "y"})),
        app("b", ["n1"], lambda s: s.cpu("1").node_selector({"kind": "x"})),
    )  # fmt: skip
    plan = decide(cluster, "NodeAffinity", "NodeTaints")
    assert [(m.pod.name, [p.name for p in m.after]) for m in plan.moves] == [("a-0", []), ("b-0", ["a-0"])]
    assert not plan.skipped


def test_terminating_pods_hold_their_room(decide, app):
    owner, going = app("x", ["n2"], lambda s: s.cpu("3"))
    cluster = b.snapshot(OLD, b.node("n2"), owner, going.deleting(), app("web", ["n1"], lambda s: s.cpu("2")))
    assert reasons(decide(cluster, "NodeTaints")) == {"web-0": "NoTarget"}


def test_pending_and_nominated_pods_keep_their_room(decide, app):
    waiting = b.pod("waiting").cpu("3")
    nominated = b.pod("nominated").cpu("3").nominated("n3")
    cluster = b.snapshot(
        OLD, b.node("n2"), b.node("n3"), waiting, nominated, app("web", ["n1"] * 1, lambda s: s.cpu("2"))
    )
    assert reasons(decide(cluster, "NodeTaints")) == {"web-0": "NoTarget"}


def test_a_nominated_pod_keeps_its_room_although_another_of_its_kind_fits_nowhere(decide, app):
    """While leaver-0 ends on n2, there is room for b-1 or for web-0: kube-scheduler keeps it for b-1, and web-0 comes after."""
    alike = [b.pod(name).cpu("3") for name in ("a-0", "b-1")]
    cluster = b.snapshot(
        OLD, b.node("n2"), b.node("n3").cpu("1").label(kind="x"),
        app("leaver", ["n2"], lambda s: s.cpu("1").node_selector({"kind": "x"})), alike[0],
        alike[1].nominated("n2"), app("web", ["n1"], lambda s: s.cpu("1")),
    )  # fmt: skip
    plan = decide(cluster, "NodeAffinity", "NodeTaints")
    assert [(m.pod.name, [p.name for p in m.after]) for m in plan.moves] == [
        ("leaver-0", []),
        ("web-0", ["leaver-0"]),
    ]


def test_no_room_is_asked_for_what_the_scheduler_ignores(decide, app, landings):
    wanting = {"cpu": "1", "license.example/seat": "1", "gpu.example/card": "2"}
    cluster = b.snapshot(
        OLD, b.node("n2").cpu("3"), app("web", ["n1"] * 3, lambda s: s.requests(wanting)),
        app("first", ["n1"], lambda s: s.cpu("1")),
    )  # fmt: skip
    assert landings(decide(cluster, "NodeTaints")) == {"first-0": "n2"}
    ignoring = Profile(
        ignored_resources=frozenset({"license.example/seat"}),
        ignored_resource_groups=frozenset({"gpu.example"}),
    )
    found = decide(cluster, "NodeTaints", profile=ignoring)
    assert len(found.moves) == 3
    assert set(reasons(found).values()) == {"NoTarget"}, "cpu is asked for all the same"


def test_that_a_pending_pod_fits_nowhere_says_nothing_about_those_of_another_controller(decide, app):
    """Both pods look alike, but default spread counts by the selectors of their controllers."""
    alike = {"matchLabels": {"app": "x"}}, {"matchLabels": {"set": "other"}}
    owners = [
        b.replicaset(name).cpu("2").set("spec.selector", selector)
        for name, selector in zip(("first", "second"), alike, strict=True)
    ]
    waiting = [owner.pod(f"p-{i}").set("metadata.labels", {"app": "x"}) for i, owner in enumerate(owners)]
    running = b.pod("running").cpu("1").set("metadata.labels", {"app": "x"}).on("n2")
    cluster = b.snapshot(
        OLD, b.node("n2"), b.node("n3").taint("full"), *owners, *waiting, running,
        app("web", ["n1"], lambda s: s.cpu("1500m")),
    )  # fmt: skip
    evenly = SpreadConstraint(max_skew=1, topology_key=HOSTNAME, hard=True, selector=None)
    profile = Profile(default_spread=(evenly,), system_default_spread=False)
    assert reasons(decide(cluster, "NodeTaints", profile=profile)) == {"web-0": "NoTarget"}


def test_a_pending_pod_that_fits_nowhere_stands_in_nobodys_way(decide, app, landings):
    cluster = b.snapshot(OLD, b.node("n2"), b.pod("huge").cpu("64"), app("web", ["n1"], lambda s: s.cpu("2")))
    assert landings(decide(cluster, "NodeTaints")) == {"web-0": "n2"}


def held(name, node, cpu_milli, **changes):
    size, uid = Resources(cpu_milli=cpu_milli), f"reservation-{name}"
    named = {"template": PodSpec(requests=size), "node_name": node, "allocatable": size}
    return records.room(name, ReservationPhase.AVAILABLE, uid=uid, **named, **changes)


def test_live_reservations_keep_their_room(decide, app):
    cluster = b.snapshot(OLD, b.node("n2"), app("web", ["n1"], lambda s: s.cpu("2")))
    reserved = dataclasses.replace(cluster, reservations={"r": held("r", "n2", 3000)})
    assert reasons(decide(reserved, "NodeTaints")) == {"web-0": "NoTarget"}
    assert len(decide(cluster, "NodeTaints").moves) == 1


def test_a_placeholder_counts_once(decide, app):
    placeholder = (
        b.pod("holder", "rescheduler").cpu("1500m").on("n2").label({LABEL_PLACEHOLDER: "r"})
        .owner("Reservation", "r", "reservation-r", "rescheduler.dev/v1alpha1")
    )  # fmt: skip
    cluster = b.snapshot(OLD, b.node("n2"), placeholder, app("web", ["n1"], lambda s: s.cpu("2")))
    reserved = dataclasses.replace(cluster, reservations={"r": held("r", "n2", 1500)})
    assert len(decide(reserved, "NodeTaints").moves) == 1


@pytest.mark.parametrize(
    ("namespace", "uid"), [("shop", "reservation-r"), ("rescheduler", "reservation-of-before")]
)
def test_what_only_looks_like_a_placeholder_frees_no_room(decide, app, namespace, uid):
    """Anybody may write its label and its owner reference; one in its namespace may be that of a room of the same name."""
    forged = (
        b.pod("holder", namespace).cpu("1500m").on("n2").label({LABEL_PLACEHOLDER: "r"})
        .owner("Reservation", "r", uid, "rescheduler.dev/v1alpha1")
    )  # fmt: skip
    cluster = b.snapshot(OLD, b.node("n2"), forged, app("web", ["n1"], lambda s: s.cpu("2")))
    reserved = dataclasses.replace(cluster, reservations={"r": held("r", "n2", 1500)})
    assert reasons(decide(reserved, "NodeTaints")) == {"web-0": "NoTarget"}


def test_zone_wide_anti_affinity_counts_the_terminating_old_pod(decide, app, landings):
    """The replacement may come while the old pod ends: in the same zone it would be refused."""
    apart = lambda s: s.apart(ZONE, app="web")  # noqa: E731
    same = [b.node("n1").taint("old").zone("a"), b.node("n2").zone("a")]
    assert reasons(decide(b.snapshot(*same, app("web", ["n1"], apart)), "NodeTaints")) == {
        "web-0": "NoTarget"
    }
    other = [*same, b.node("n3").zone("b")]
    assert landings(decide(b.snapshot(*other, app("web", ["n1"], apart)), "NodeTaints")) == {"web-0": "n3"}


def test_a_stateful_set_starts_its_replacement_after_the_old_pod_ended(decide, landings):
    owner = b.statefulset("db").apart(ZONE, app="db")
    nodes = [b.node("n1").taint("old").zone("a"), b.node("n2").zone("a")]
    cluster = b.snapshot(*nodes, owner, owner.pod("db-0").on("n1"))
    assert landings(decide(cluster, "NodeTaints")) == {"db-0": "n2"}


def test_moves_of_one_plan_keep_apart_from_each_other(decide, app):
    apart = lambda s: s.apart(HOSTNAME, app="web")  # noqa: E731
    nodes = [b.node("n1").taint("old"), b.node("n2").taint("old"), b.node("n3"), b.node("n4")]
    plan = decide(b.snapshot(*nodes, app("web", ["n1", "n2"], apart)), "NodeTaints")
    assert sorted(m.target for m in plan.moves) == ["n3", "n4"]


def test_the_template_of_today_decides_not_the_old_pod(decide):
    owner = b.statefulset("db").cpu("1")
    pod = owner.pod("db-0").on("n1")
    cluster = b.snapshot(OLD, b.node("n2").cpu("2"), b.node("n3").cpu("4"), owner.cpu("3"), pod)
    assert [m.target for m in decide(cluster, "NodeTaints").moves] == ["n3"]
    built = Replacements(cluster).of(record(cluster, "db-0")).pod
    assert (built.name, built.node, built.spec.requests.cpu_milli) == ("db-0", "", 3000)


def test_an_unknown_template_falls_back_to_the_old_pod():
    cluster = b.snapshot(b.node("n1"), b.pod("x").cpu("2").on("n1").owner("Custom", "c", "c", "example/v1"))
    rules = ReplacementRules(replacing=frozenset({("example", "Custom")}))
    cluster = dataclasses.replace(cluster, replacement_rules=rules)
    assert Replacements(cluster).of(record(cluster, "x")).pod.spec.requests.cpu_milli == 2000


def test_ties_go_where_the_scheduler_would_put_the_pod(decide, app, landings):
    cluster = b.snapshot(
        OLD, b.node("n2"), b.node("n3"), app("busy", ["n2"], lambda s: s.cpu("2").memory("8Gi")),
        app("web", ["n1"], lambda s: s.cpu("1")),
    )  # fmt: skip
    assert landings(decide(cluster, "NodeTaints")) == {"web-0": "n3"}


def with_hint(cluster, node, uid, reason, ends_in_s):
    entry = AvoidEntry("ReplicaSet", "web", uid, "default", reason, cluster.taken_at_s + ends_in_s)
    changed = msgspec.structs.replace(cluster.nodes[node], avoid=(entry,))
    return dataclasses.replace(cluster, nodes={**cluster.nodes, node: changed})


def test_no_way_back_for_the_same_reason(decide, app, landings):
    owner, *_ = objects = app("web", ["n1"])
    cluster = b.snapshot(OLD, b.node("n2"), *objects)
    uid = owner.manifest()["metadata"]["uid"]
    assert reasons(decide(with_hint(cluster, "n2", uid, "NodeTaints", 60), "NodeTaints")) == {
        "web-0": "PreferAvoidPods"
    }
    for hint in (("NodeTaints", -60), ("TopologySpread", 60)):
        assert landings(decide(with_hint(cluster, "n2", uid, *hint), "NodeTaints")) == {"web-0": "n2"}
    assert landings(decide(with_hint(cluster, "n2", "someone-else", "NodeTaints", 60), "NodeTaints"))


def test_a_hint_for_another_reason_makes_the_node_the_last_choice(decide, app, landings):
    owner, *_ = objects = app("web", ["n1"])
    cluster = b.snapshot(OLD, b.node("n2"), b.node("n3"), *objects)
    hinted = with_hint(cluster, "n2", owner.manifest()["metadata"]["uid"], "TopologySpread", 60)
    assert landings(decide(hinted, "NodeTaints")) == {"web-0": "n3"}


def test_marginal_gains_are_left_alone(decide, app):
    inputs = PlanningInputs(limits=Limits(minimum_gain=0.9), aggressiveness=1.0, unlimited=True)
    cluster = b.snapshot(OLD, b.node("n2"), app("web", ["n1"]))
    assert reasons(decide(cluster, "NodeTaints", inputs=inputs)) == {"web-0": "GainTooSmall"}


def test_disruption_weighs_more_the_less_aggressive(decide, app):
    """The move of the only replica disrupts 0.3, and half a preference gains 0.25."""
    halves = lambda pod: pod.prefers_node("disk", "ssd", weight=1).prefers_node("rack", "r1", weight=1)  # noqa: E731
    cluster = b.snapshot(b.node("n1"), b.node("n2").label(disk="ssd"), app("web", ["n1"], halves))
    policy = ("NodeAffinity", {"types": ("preferred",)})
    moved = [
        len(decide(cluster, policy, inputs=PlanningInputs(aggressiveness=a)).moves) for a in (0.0, 0.5, 1.0)
    ]
    assert moved == [0, 1, 1]


@pytest.mark.parametrize(
    ("status", "at"),
    [("True", "2026-01-01T00:20:00Z"), ("True", None), ("False", None)],
    ids=["slow", "quick", "not Ready"],
)
def test_a_pod_that_started_slowly_disrupts_more_and_one_that_is_not_ready_less(decide, app, status, at):
    """0.05 + 0.25 for the only replica, 0.1 for ten minutes or more; a pod that is not Ready serves nobody."""
    owner, pod = app("web", ["n1"])
    since = at or "2026-01-01T00:00:05Z"
    ready = [{"type": "Ready", "status": status, "lastTransitionTime": since}]
    pod = pod.set("metadata.creationTimestamp", "2026-01-01T00:00:00Z").set("status.conditions", ready)
    (move,) = decide(b.snapshot(OLD, b.node("n2"), owner, pod), "NodeTaints").moves
    assert move.disruption == {"True": 0.4 if at else 0.3, "False": 0.05}[status]


def test_one_pod_wanted_by_two_policies_moves_once(decide, app):
    cluster = b.snapshot(
        b.node("n1").taint("old"), b.node("n2").label(disk="ssd"),
        app("web", ["n1"], lambda s: s.node_selector({"disk": "ssd"})),
    )  # fmt: skip
    assert len(decide(cluster, "NodeTaints", "NodeAffinity").moves) == 1


def test_summaries_tell_before_and_after(decide, app):
    cluster = b.snapshot(OLD, b.node("n2"), app("web", ["n1"], lambda s: s.cpu("2")))
    plan = decide(cluster, "NodeTaints")
    assert [p.badly_placed for p in plan.before.policies] == [1]
    assert [p.badly_placed for p in plan.after.policies] == [0]
    assert [(n.name, n.cpu_requested_milli) for n in plan.after.nodes] == [("n1", 0), ("n2", 2000)]
    assert plan.metadata.generated_at == "2027-01-15T08:00:00Z"


def test_an_empty_cluster_and_a_single_node(decide, app):
    every = ("NodeTaints", "NodeAffinity", "InterPodAntiAffinity", "TopologySpread", "LowNodeUtilization")
    assert decide(b.snapshot(), *every, "HighNodeUtilization").moves == ()
    single = decide(b.snapshot(OLD, app("web", ["n1"])), *every, "HighNodeUtilization")
    assert (single.moves, reasons(single)) == ((), {"web-0": "NoBetterTarget"})


def test_pods_on_unknown_nodes_are_no_trouble(decide, app):
    cluster = b.snapshot(b.node("n2"), app("web", ["gone"]))
    assert decide(cluster, "NodeTaints", "LowNodeUtilization").moves == ()
