"""Nodes are emptied together: the most that the moves allow, whole nodes only, by all rules of the scheduler."""

from collections import Counter

import pytest

from harness import builders as b
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.planning.empty import Empty
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import stages_of

ALL = ("HighNodeUtilization", {"thresholds": {"cpu": 99.0}, "target_thresholds": {"cpu": 100.0}})


def load(app, name, node, count, cpu="400m"):
    return app(name, [node] * count, lambda spec: spec.cpu(cpu))


def emptied(plan):
    return {move.source for move in plan.moves}


def within(moves, effort=128):
    return PlanningInputs(unlimited=True, max_moves=moves, effort=effort)


def six_nodes(app):
    """n0 to n3 have four small, three small, two big and one pod; n4 and n5 have room for twenty small or five big ones."""
    return b.snapshot(
        *(b.node(f"n{i}").cpu("4") for i in range(6)),
        load(app, "a", "n0", 4, "100m"), load(app, "b", "n1", 3, "100m"), load(app, "c", "n2", 2),
        load(app, "d", "n3", 1), load(app, "e", "n4", 7), load(app, "f", "n5", 8),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("moves", "nodes"),
    [(0, ""), (1, "n3"), (2, "n3"), (3, "n3 n2"), (5, "n3 n2"), (6, "n3 n2 n1"), (10, "n3 n2 n1 n0")],
)
def test_as_many_nodes_as_the_moves_allow(decide, app, moves, nodes):
    plan = decide(six_nodes(app), ALL, inputs=within(moves))
    assert emptied(plan) == set(nodes.split())
    assert plan.after.empty_nodes == len(nodes.split())
    assert len(plan.moves) <= moves


def test_a_plan_that_ends_empties_no_node_by_half(decide, app):
    cluster = b.snapshot(b.node("n1"), b.node("n2"), load(app, "a", "n1", 2), load(app, "b", "n2", 4))
    plan = decide(cluster, ALL, inputs=within(1))
    assert plan.moves == ()
    assert {str(s.reason) for s in plan.skipped} == {"LimitMovesOfPlan"}


def test_the_same_effort_gives_the_same_plan(decide, app):
    first, again = (decide(six_nodes(app), ALL, inputs=within(6, effort=7)) for _ in range(2))
    assert first == again


def test_pods_that_may_not_meet_are_put_apart(decide, app):
    owner = b.replicaset("web").cpu("100m").apart(HOSTNAME, app="web").replicas(3)
    cluster = b.snapshot(
        [b.node(f"n{i}") for i in range(5)], owner, *(owner.pod(f"web-{i}").on(f"n{i}") for i in range(3)),
        load(app, "e", "n3", 5), load(app, "f", "n4", 6),
    )  # fmt: skip
    plan = decide(cluster, ALL, inputs=within(None))
    # Three pods that keep apart need three nodes; the old ones count until they are gone.
    assert len(emptied(plan)) == 2
    assert len({move.target for move in plan.moves if move.pod.name.startswith("web")}) == 2


def test_pods_of_a_spread_stay_even(decide, app):
    owner = b.replicaset("web").cpu("100m").spread(ZONE, app="web").replicas(4)
    cluster = b.snapshot(
        [b.node(f"n{i}").zone("ab"[i % 2]) for i in range(6)],
        owner, *(owner.pod(f"web-{i}").on(f"n{i}") for i in range(4)),
        load(app, "e", "n4", 5), load(app, "f", "n5", 6),
    )  # fmt: skip
    plan = decide(cluster, ALL, inputs=within(None))
    assert emptied(plan) == {"n0", "n1", "n2", "n3"}
    assert Counter(move.target for move in plan.moves) == {"n4": 2, "n5": 2}


def test_pods_of_several_nodes_take_turns_in_a_budget(decide, app):
    cluster = b.snapshot(
        [b.node(f"n{i}") for i in range(4)],
        app("web", ["n0", "n0", "n1"], lambda spec: spec.cpu("100m")), b.pdb("web").allows(1),
        load(app, "x", "n1", 3, "100m"), load(app, "d", "n2", 2, "100m"), load(app, "e", "n3", 6),
    )  # fmt: skip
    plan = decide(cluster, ALL, inputs=within(None))
    assert emptied(plan) == {"n0", "n1", "n2"}
    stages = zip(plan.moves, stages_of(plan.moves), strict=True)
    assert [stage for move, stage in stages if move.pod.name.startswith("web")] == [1, 2, 3]


def test_pods_go_where_they_like_to_be_as_long_as_as_many_nodes_are_emptied(decide, app):
    """The spot node is fuller, so pods would fit there best; but it asks not to be taken."""
    nodes = [b.node("low"), b.node("half"), b.node("spot").taint("spot", effect="PreferNoSchedule")]
    cluster = b.snapshot(
        nodes,
        app("critical", ["low"], lambda s: s.cpu("400m")),
        app("other", ["half"], lambda s: s.cpu("2")),
        app("flexible", ["spot"], lambda s: s.cpu("3").tolerate("spot", effect="PreferNoSchedule")),
    )
    (move,) = decide(cluster, "HighNodeUtilization").moves
    assert (move.pod.name, move.target) == ("critical-0", "half")


@pytest.fixture
def searches(monkeypatch):
    """The operators of all searches."""
    found, search = [], Empty.search

    def searched(operator, passes):
        found.append(operator)
        return search(operator, passes)

    monkeypatch.setattr(Empty, "search", searched)
    return found


def test_what_was_chosen_and_landed_is_not_searched_again(decide, app, searches):
    cluster = b.snapshot(
        *(b.node(f"n{i}").cpu("4") for i in range(3)),
        load(app, "a", "n0", 1), load(app, "b", "n1", 9), load(app, "c", "n2", 9, "410m"),
    )  # fmt: skip
    assert emptied(decide(cluster, ALL, inputs=within(None))) == {"n0"}
    assert len(searches) == 1


def test_nodes_that_take_none_of_the_pods_are_no_room(decide, app, searches):
    """Without them it is plain that no node can be emptied, and nothing is sought for long."""
    cluster = b.snapshot(
        [b.node(f"n{i}").cpu("4") for i in range(2)], load(app, "a", "n0", 8), load(app, "b", "n1", 8),
        [b.node(f"gpu{i}").cpu("4").taint("gpu") for i in range(2)],
        app("g", ["gpu0", "gpu1"], lambda spec: spec.cpu("400m"), namespace="kube-system"),
    )  # fmt: skip
    assert decide(cluster, ALL, inputs=within(None)).moves == ()
    (operator,) = searches
    assert operator._done()


def test_what_a_limit_holds_back_does_not_hold_back_the_others_of_its_node(decide, app):
    """Of eight pods of "big" one stands, so it may not go now; it is the first that would."""
    cluster = b.snapshot(
        *(b.node(f"n{i}").cpu("4") for i in range(2)),
        app("big", ["n0"], lambda spec: spec.cpu("500m"), replicas=8), load(app, "small", "n0", 2, "100m"),
        load(app, "e", "n1", 7),
    )  # fmt: skip
    plan = decide(cluster, ALL, inputs=within(None))
    assert sorted(move.pod.name for move in plan.moves) == ["small-0", "small-1"]
    assert {s.pod.name: str(s.reason) for s in plan.skipped if s.pod.name == "big-0"} == {
        "big-0": "TooFewAvailable"
    }
