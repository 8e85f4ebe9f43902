"""TopologySpread: skew over all matching pods, all constraints together, and where it ends."""

from collections import Counter

from harness import builders as b
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.policies.spread_groups import SpreadGroup

NAME = "TopologySpread"


def zones(*counts):
    """Two nodes per zone: a1, a2, b1, b2, ..."""
    return [b.node(f"{z}{i}").zone(z) for z in "abc"[: len(counts)] for i in (1, 2)]


def spread_over(app, counts, make, name="web"):
    places = [f"{zone}{1 + i % 2}" for zone, count in zip("abc", counts, strict=False) for i in range(count)]
    return app(name, places, make)


def by_zone(plan, counts):
    totals = dict(zip("abc", counts, strict=False))
    for move in plan.moves:
        totals[move.source[0]] -= 1
        totals[move.target[0]] += 1
    return list(totals.values())


def test_allowed_skew_is_left_alone(decide, app):
    counts = [2, 1, 1]
    cluster = b.snapshot(zones(*counts), spread_over(app, counts, lambda s: s.spread(ZONE, app="web")))
    plan = decide(cluster, NAME)
    assert (plan.moves, plan.skipped) == ((), ())


def test_immovable_pods_are_counted(decide, app):
    counts = [3, 0]
    spread = lambda s: s.spread(ZONE, app="web")  # noqa: E731
    bare = [b.pod(f"bare-{i}").label(app="web").on("a1") for i in range(2)]
    cluster = b.snapshot(zones(*counts), spread_over(app, [1, 0], spread), bare)
    plan = decide(cluster, NAME)
    assert [(m.pod.name, m.target[0]) for m in plan.moves] == [("web-0", "b")]


def test_a_class_that_its_own_constraint_does_not_count_hides_no_other_one(decide):
    """In the middle of a rollout the pods of the old template may carry the same constraint, whichever is read first."""
    old = b.replicaset("old").spread(ZONE, app="web")
    old = old.set("spec.template.metadata.labels", {"app": "before"}).set(
        "spec.selector", {"matchLabels": {"app": "before"}}
    )
    new = b.replicaset("new").spread(ZONE, app="web").template_label(app="web").replicas(3)
    first, last = [old, old.pod("old-0").on("a1")], [new, *(new.pod(f"new-{i}").on("a1") for i in range(3))]
    for objects in (first + last, last + first):
        made = decide(b.snapshot(zones(3, 0), objects), NAME)
        assert [move.target[0] for move in made.moves] == ["b"]
        assert made.before.policies[0].badly_placed == 2


def test_min_domains_makes_the_least_zero(decide, app):
    spread = lambda s: s.spread(ZONE, min_domains=3, app="web")  # noqa: E731
    cluster = b.snapshot(zones(1, 1), spread_over(app, [2, 2], spread))
    plan = decide(cluster, NAME)
    # Two zones of at least three: the least count is 0, both zones are above it by 2, nothing can be better.
    assert plan.moves == ()
    assert {s.reason for s in plan.skipped} <= {"NoBetterTarget", "NoTarget"}
    assert len(plan.skipped) == 2


def test_all_constraints_together(decide, app):
    """The zone wants a pod to go to b; the hosts of b already hold one each."""
    make = lambda s: s.spread(ZONE, app="web").spread(HOSTNAME, app="web")  # noqa: E731
    nodes = [b.node("a1").zone("a"), b.node("a2").zone("a"), b.node("b1").zone("b"), b.node("b2").zone("b")]
    cluster = b.snapshot(nodes, app("web", ["a1", "a1", "a2", "b1"], make))
    plan = decide(cluster, NAME)
    assert [m.target for m in plan.moves] == ["b2"]
    assert plan.moves[0].source == "a1"


def test_tainted_zone_counts_only_as_its_policy_says(decide, app):
    nodes = [b.node("a1").zone("a"), b.node("b1").zone("b").taint("closed")]
    make = lambda s: s.spread(ZONE, app="web")  # noqa: E731
    honour = lambda s: make(s).set(  # noqa: E731
        "spec.template.spec.topologySpreadConstraints",
        [{
            "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"app": "web"}},
        }],
    )  # fmt: skip
    ignored = decide(b.snapshot(nodes, app("web", ["a1"] * 3, make)), NAME)
    assert Counter(s.reason for s in ignored.skipped) == {"NoTarget": 2}
    honoured = decide(b.snapshot(nodes, app("web", ["a1"] * 3, honour)), NAME)
    assert (honoured.moves, honoured.skipped) == ((), ())


def test_more_constraints_than_any_pod_needs_are_left_out_and_hide_nobody_elses(decide, app, monkeypatch):
    """Each selects all pods of the namespace, so that each move of one of them would ask about all."""
    made = []
    begin = SpreadGroup.__init__
    monkeypatch.setattr(
        SpreadGroup, "__init__", lambda self, *parts: made.append(self) or begin(self, *parts)
    )

    def greedy(number):
        owner = b.replicaset(f"greedy-{number}", "greedy").template_label(team="greedy")
        for index in range(10):
            owner = owner.spread(ZONE, max_skew=1_000 + 10 * number + index, team="greedy")
        return [owner, owner.pod(f"greedy-{number}-0").on("a1")]

    counts = [5, 1, 0]
    web = spread_over(app, counts, lambda s: s.spread(ZONE, app="web"))
    plan = decide(b.snapshot(zones(*counts), *map(greedy, range(10)), web), NAME)
    assert len(made) == 21
    assert max(after := by_zone(plan, counts)) - min(after) <= 1
