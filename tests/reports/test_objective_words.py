"""The headline and the tables of a plan tell what the objective counts, and why the rest stays."""

import msgspec
import pytest

from harness import builders as b
from rescheduler.planning.badness import Badness, MoveEffect, NodeCount
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import (
    ClusterSummary,
    Plan,
    PlanMetadata,
    PodRef,
    PolicySummary,
    Skipped,
    SkipReason,
)
from rescheduler.planning.planner import plan
from rescheduler.policies.objective import ONE, Tier
from rescheduler.policies.registry import REGISTRY
from rescheduler.reports.html.page import plan_html
from rescheduler.reports.objective_words import _WHY, change_words, effect_words, headline, in_units
from rescheduler.reports.text import plan_text
from rescheduler.scheduling.state import SchedulingState


def made(cluster, *entries):
    policies = [REGISTRY[name].build(REGISTRY[name].args(**args)) for name, args in entries]
    inputs = PlanningInputs(aggressiveness=1.0, unlimited=True)
    return plan(cluster, policies, inputs, SchedulingState(cluster))


def pods_of(name, *nodes, milli=500):
    owner = b.replicaset(name).cpu(f"{milli}m").replicas(len(nodes))
    return [owner, *(owner.pod(f"{name}-{i}").on(node) for i, node in enumerate(nodes))]


def test_violations_are_counted_and_those_that_stay_have_a_reason():
    cluster = b.snapshot(
        b.node("n1").cpu("8").taint("old"), b.node("n2").cpu("1"), pods_of("web", *["n1"] * 3), pods_of("big", "n1", milli=2000)
    )  # fmt: skip
    found = made(cluster, ("NodeTaints", {}))
    words = "2 moves: repairs 2 of 4 violations; 2 pods that break rules stay for want of room"
    assert headline(found) == words
    assert words in plan_text(found)
    assert f"<p class='lead'>{words}</p>" in plan_html(found)
    assert {s.tier for s in found.skipped} == {"hard"}
    assert found.moves[0].effects == (MoveEffect("NodeTaints", Badness(hard=-1)),)
    assert "  NodeTaints  4 -> 2             4 -> 2" in plan_text(found)


def test_a_plan_without_moves_says_what_stays_and_why():
    found = made(
        b.snapshot(b.node("n1").taint("old"), b.node("n2").cpu("100m"), pods_of("web", "n1")),
        ("NodeTaints", {}),
    )
    assert headline(found) == "Nothing to move; 1 pod that breaks rules stays for want of room."
    good = "Nothing to move: no policy finds a badly placed pod."
    assert headline(made(b.snapshot(b.node("n1")), ("NodeTaints", {}))) == good
    full = b.snapshot(b.node("n1").cpu("1"), b.node("n2").cpu("1"), pods_of("web", "n1", "n2", milli=900))
    above = "Nothing to move; 2 nodes stay above targetThresholds."
    assert headline(made(full, ("LowNodeUtilization", {"target_thresholds": {"cpu": 50.0}}))) == above
    in_use = "Nothing to move; 2 nodes stay in use."
    assert headline(made(full, ("HighNodeUtilization", {"thresholds": {"cpu": 95.0}}))) == in_use
    none = "Nothing to move; 2 nodes stay in use: none that may be emptied is at or below thresholds."
    assert headline(made(full, ("HighNodeUtilization", {"thresholds": {"cpu": 50.0}}))) == none


def test_overloaded_nodes_and_emptied_nodes_are_counted():
    cluster = b.snapshot(b.node("n1").cpu("4"), b.node("n2").cpu("4"), pods_of("web", *["n1"] * 6))
    even = made(
        cluster, ("LowNodeUtilization", {"thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 50.0}})
    )
    assert headline(even) == "2 moves: 1 node above targetThresholds becomes 0"
    assert "250000" not in plan_text(even)
    pools = b.snapshot(
        *(b.node(f"n{i}").cpu("4") for i in range(3)),
        pods_of("web", "n0", "n1", "n2", "n2", "n2", "n2", "n2", milli=100),
    )
    packed = made(pools, ("HighNodeUtilization", {"thresholds": {"cpu": 10.0}}))
    assert headline(packed) == "2 moves: empties 2 of 3 nodes in use"
    assert "in use -1" in plan_text(packed)


@pytest.mark.parametrize(
    ("nodes", "balance", "words"),
    [
        ((3, 3), (2_000_000, 500_000), "what 3 nodes hold above targetThresholds falls by 75%"),
        ((8, 7), (2_000_000, 3_000_000), "8 nodes above targetThresholds become 7; what nodes hold above them rises by 50%"),
        ((4, 5), (2_000_000, 1_000_000), "4 nodes above targetThresholds become 5; what nodes hold above them falls by 50%"),
        ((8, 7), (2_000_000, 1_000_000), "8 nodes above targetThresholds become 7"),
    ],
)  # fmt: skip
def test_nodes_above_their_targets_are_counted_and_what_they_hold_is_a_share(nodes, balance, words):
    """The numbers weigh each point by how full its node is: they are no nodes."""
    found = made(b.snapshot(b.node("n1")), ("LowNodeUtilization", {}))
    before, after = (
        msgspec.structs.replace(
            found.before,
            policies=(
                msgspec.structs.replace(
                    found.before.policies[0],
                    badness=Badness(balance=held),
                    nodes=NodeCount("balance", number),
                ),
            ),
        )
        for number, held in zip(nodes, balance, strict=True)
    )
    told = headline(msgspec.structs.replace(found, before=before, after=after))
    assert told == f"Nothing to move; {words}."


@pytest.mark.parametrize("reason", SkipReason)
def test_every_reason_has_words(reason):
    assert _WHY[reason]


def test_violations_that_stay_have_their_reason_whichever_policy_looked_first():
    cluster = b.snapshot(
        b.node("n1").cpu("4").taint("old"), b.node("n2").cpu("1"), pods_of("web", "n1", "n1", milli=400), pods_of("full", "n2", milli=900)
    )  # fmt: skip
    both = [("NodeTaints", {}), ("HighNodeUtilization", {"thresholds": {"cpu": 50.0}})]
    for entries in (both, both[::-1]):
        found = made(cluster, *entries)
        words = "Nothing to move; 2 pods that break rules stay for want of room; 2 nodes stay in use."
        assert headline(found) == words
        assert {one.policy for one in found.skipped} == {"NodeTaints"}


def test_a_change_too_small_to_be_shown_is_not_told():
    cluster = b.snapshot(
        b.node("n1").taint("old", effect="PreferNoSchedule"), b.node("n2"), pods_of("web", "n1")
    )
    found = made(cluster, ("NodeTaints", {"include_prefer_no_schedule": True}))
    assert headline(found) == "1 move: preferences not met fall from 1 to 0"
    entry = found.before.policies[0]
    before, after = (
        msgspec.structs.replace(
            found.before, policies=(msgspec.structs.replace(entry, badness=Badness(soft=soft, balance=soft)),)
        )
        for soft in (2_760_000, 2_760_400)
    )
    assert headline(msgspec.structs.replace(found, before=before, after=after)) == "1 move"


def test_rooms_are_not_told_as_nodes_that_are_emptied():
    """Both count in tier EMPTYING how near nodes are; only one of them wants nodes empty."""
    cluster = b.snapshot(
        b.node("n1").cpu("4").taint("old"), b.node("n2").cpu("4"), pods_of("web", "n1", milli=200)
    )
    found = made(cluster, ("NodeTaints", {}), ("Defragmentation", {"template": {"cpu": "3900m"}}))
    assert headline(found).startswith("1 move: repairs 1 of 1 violation")
    nearer = msgspec.structs.replace(
        found.after,
        policies=tuple(
            msgspec.structs.replace(p, badness=Badness(emptying=-7)) for p in found.after.policies
        ),
    )
    assert "to be emptied" not in headline(msgspec.structs.replace(found, after=nearer))


def test_what_others_pay_is_told():
    effects = (
        MoveEffect("NodeTaints", Badness(hard=-2)),
        MoveEffect("LowNodeUtilization", Badness(balance=ONE // 4)),
        MoveEffect("TopologySpread", Badness(soft=12)),
    )
    assert effect_words(effects) == "NodeTaints: violations -2; LowNodeUtilization: above targets +0.25"
    assert effect_words(()) == "-"
    assert change_words(Badness(emptying=-2047)) == "a node nearer to empty or to a room more"
    assert in_units(Tier.SOFT, -3) == "0"


def test_policies_of_one_name_are_told_apart():
    """Two entries, each with its own line and its own numbers."""
    entry = PolicySummary(name="NodeTaints", badly_placed=3, gain=1.0, badness=Badness(hard=3))
    other = msgspec.structs.replace(entry, badly_placed=7, badness=Badness(hard=7))

    def summary(*policies):
        return ClusterSummary(
            nodes=(), policies=policies, pods=0, pending_pods=0, empty_nodes=0, cpu_imbalance=0.0, memory_imbalance=0.0
        )  # fmt: skip

    shown = Plan(metadata=PlanMetadata(generated_at="2026-11-21T10:00:00Z", aggressiveness=0.5), moves=(), skipped=(
        Skipped(pod=PodRef("a", "b"), policy="NodeTaints", reason=SkipReason.PROTECTED, message="", tier="soft"),
    ), before=summary(entry, other), after=summary(entry, other))  # fmt: skip
    rows = [line.split() for line in plan_text(shown).splitlines() if line.startswith("  NodeTaints")]
    assert [row[1:4] for row in rows] == [["3", "->", "3"], ["7", "->", "7"]]
    assert headline(shown) == "Nothing to move; 10 violations stay."


def test_wishes_are_counted_in_pods():
    cluster = b.snapshot(
        b.node("n1").taint("old", effect="PreferNoSchedule"), b.node("n2"), pods_of("web", "n1")
    )
    found = made(cluster, ("NodeTaints", {"include_prefer_no_schedule": True}))
    assert headline(found) == "1 move: preferences not met fall from 1 to 0"
