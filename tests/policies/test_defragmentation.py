"""Rooms for large pods: groups that leave a node together, and go where they break no room."""

import random
from itertools import product

import pytest

from harness import builders as b
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.policies.defragmentation import DefragmentationArgs

WHOLE_NODE = ("Defragmentation", {"template": {"cpu": 4}})
HALF = ("Defragmentation", {"template": {"cpu": 2, "memory": "2Gi"}})
ALL = PlanningInputs(limits=Limits(minimum_gain=0.0), unlimited=True)


def load(app, name, node, count, cpu):
    return app(name, [node] * count, lambda spec: spec.cpu(cpu))


def rooms(snapshot, plan, size, nodes=4000):
    """Rooms of so much CPU after the plan, which fits in on every node."""
    used = dict.fromkeys(snapshot.nodes, 0)
    targets = {move.pod.uid: move.target for move in plan.moves}
    for pod in snapshot.pods.values():
        used[targets.get(pod.uid, pod.node)] += pod.held.cpu_milli
    assert max(used.values()) <= nodes
    return sum((nodes - held) // size for held in used.values())


def test_pods_leave_a_node_together_so_that_a_room_appears(decide, app):
    """One move alone makes no room anywhere; two from the same node do."""
    cluster = b.snapshot(
        *(b.node(f"n{i}").cpu("4") for i in range(3)),
        load(app, "a", "n0", 2, "500m"), load(app, "b", "n1", 3, "1"), load(app, "c", "n2", 3, "1"),
    )  # fmt: skip
    plan = decide(cluster, WHOLE_NODE, inputs=ALL)
    assert {move.source for move in plan.moves} == {"n0"}
    assert len(plan.moves) == 2
    assert plan.before.policies[0].badness.fragmentation == 3
    assert plan.after.policies[0].badness.fragmentation == 2
    assert rooms(cluster, plan, 4000) == 1


def test_no_pod_moves_where_no_room_would_appear(decide, app):
    cluster = b.snapshot(
        *(b.node(f"n{i}").cpu("4") for i in range(2)),
        load(app, "a", "n0", 3, "1"), load(app, "b", "n1", 3, "1"),
    )  # fmt: skip
    assert decide(cluster, WHOLE_NODE, inputs=ALL).moves == ()


def test_no_room_is_broken_to_make_another(decide, app):
    """n0 could be emptied onto n1, which has a room for it; then n1 would have none."""
    cluster = b.snapshot(
        *(b.node(f"n{i}").cpu("4") for i in range(2)), load(app, "a", "n0", 1, "3"),
    )  # fmt: skip
    assert decide(cluster, WHOLE_NODE, inputs=ALL).moves == ()


def test_every_resource_of_the_template_is_needed(decide, app):
    cluster = b.snapshot(
        *(b.node(f"n{i}").cpu("4").memory("4Gi") for i in range(2)),
        app("a", ["n0"], lambda spec: spec.cpu("100m").memory("3Gi")),
        app("b", ["n1"], lambda spec: spec.cpu("3").memory("512Mi")),
    )
    plan = decide(cluster, HALF, inputs=ALL)
    assert plan.before.policies[0].badness.fragmentation == 4
    assert len(plan.moves) == 1
    assert plan.after.policies[0].badness.fragmentation == 2


def test_a_cordoned_node_has_no_rooms(decide, app):
    cluster = b.snapshot(
        b.node("n0").cpu("4").cordoned(), b.node("n1").cpu("4"), load(app, "a", "n0", 1, "1"), load(app, "b", "n1", 1, "3"),
    )  # fmt: skip
    plan = decide(cluster, WHOLE_NODE, inputs=ALL)
    assert plan.before.policies[0].badness.fragmentation == 1
    assert plan.moves == ()


def test_a_protected_pod_keeps_its_node_as_it_is(decide, app):
    kept = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    owner, large = b.replicaset("kept").cpu("500m"), b.replicaset("large").cpu("3")
    for held, moves in ((kept, 0), ({}, 2)):
        cluster = b.snapshot(
            *(b.node(f"n{i}").cpu("4") for i in range(2)),
            load(app, "a", "n0", 1, "500m"),
            owner, owner.pod("kept-0").on("n0").annotate(held),
            large, large.pod("large-0").on("n1").annotate(kept),
        )  # fmt: skip
        assert len(decide(cluster, WHOLE_NODE, inputs=ALL).moves) == moves


@pytest.mark.parametrize("seed", range(12))
def test_as_many_rooms_as_trying_everything_finds(decide, app, seed):
    """Three small nodes, all ways to place their pods that fit while the old ones stand, with any number of moves."""
    chance = random.Random(seed)  # noqa: S311 -- no secret
    sizes, places = [], []
    for node in range(3):
        left = 4
        while left > 1 and len(sizes) < 3 * (node + 1):
            size = chance.choice([1, 1, 2])
            sizes.append(size)
            places.append(node)
            left -= size
            if chance.random() < 0.4:
                break
    cluster = b.snapshot(
        *(b.node(f"n{i}").cpu("4") for i in range(3)),
        *(
            load(app, f"a{i}", f"n{node}", 1, str(size))
            for i, (node, size) in enumerate(zip(places, sizes, strict=True))
        ),
    )
    best = 0
    for targets in product(range(3), repeat=len(sizes)):
        after, during = [4] * 3, [4] * 3
        for size, old, new in zip(sizes, places, targets, strict=True):
            after[new] -= size
            for node in {old, new}:
                during[node] -= size
        if min(during) >= 0:
            best = max(best, sum(left // 3 for left in after))
    plan = decide(cluster, ("Defragmentation", {"template": {"cpu": 3}}), inputs=ALL)
    found = rooms(cluster, plan, 3000)
    assert found == best


TWO_PARTS = {"example.com/part-0": 4}, ({"example.com/part-1": 4},)
"""Rooms on either part of a node."""


def parts(name, *sizes):
    return name.allocatable(**{f"example.com/part-{i}": str(size) for i, size in enumerate(sizes)})


def both(max_moves=None):
    template, more = TWO_PARTS
    inputs = PlanningInputs(limits=Limits(minimum_gain=0.0), unlimited=True, max_moves=max_moves)
    return {"inputs": inputs}, ("Defragmentation", {"template": template, "more_templates": more})


def on_parts(app, name, node, *sizes):
    asked = {f"example.com/part-{i}": str(size) for i, size in enumerate(sizes) if size}
    return app(name, [node], lambda spec: spec.requests(**asked))


def test_rooms_of_several_templates_count_together(decide, app):
    """One move frees a room on both parts of n0; the others free one each."""
    cluster = b.snapshot(
        *(parts(b.node(f"n{i}").cpu("4"), 4, 4) for i in range(4)),
        on_parts(app, "wide", "n0", 1, 1), on_parts(app, "left", "n1", 1), on_parts(app, "right", "n2", 0, 1),
        on_parts(app, "rest", "n3", 2, 2),
    )  # fmt: skip
    inputs, policy = both(max_moves=1)
    plan = decide(cluster, policy, **inputs)
    assert [(move.source, move.target) for move in plan.moves] == [("n0", "n3")]
    assert plan.before.policies[0].badness.fragmentation == 6
    assert plan.after.policies[0].badness.fragmentation == 4


def test_groups_for_different_templates_leave_one_node_in_one_plan(decide, app):
    cluster = b.snapshot(
        *(parts(b.node(f"n{i}").cpu("4"), 4, 4) for i in range(2)),
        on_parts(app, "left", "n0", 1), on_parts(app, "right", "n0", 0, 1),
        *(on_parts(app, f"rest{i}", "n1", 1, 1) for i in range(3)),
    )  # fmt: skip
    inputs, policy = both()
    plan = decide(cluster, policy, **inputs)
    assert sorted((move.pod.name, move.target) for move in plan.moves) == [
        ("left-0", "n1"),
        ("right-0", "n1"),
    ]
    assert plan.after.policies[0].badness.fragmentation == 2


def test_a_node_without_a_resource_holds_rooms_of_the_other_templates(decide, app):
    cluster = b.snapshot(
        parts(b.node("n0").cpu("4"), 4), parts(b.node("n1").cpu("4"), 4),
        on_parts(app, "a", "n0", 1), on_parts(app, "rest", "n1", 2),
    )  # fmt: skip
    inputs, policy = both()
    plan = decide(cluster, policy, **inputs)
    assert plan.before.policies[0].badness.fragmentation == 2
    assert [(move.source, move.target) for move in plan.moves] == [("n0", "n1")]


@pytest.mark.parametrize(("more", "path", "words"), [
    (({},), ("moreTemplates", 0), "is empty"),
    (({"cpu": 1}, {"cpu": 0}), ("moreTemplates", 1, "cpu"), "must be more than 0"),
    (({"pods": 1},), ("moreTemplates", 0, "pods"), "is no resource that pods request"),
    (({"cpu": "one"},), ("moreTemplates", 0, "cpu"), "one"),
])  # fmt: skip
def test_each_template_is_validated(more, path, words):
    (found,) = DefragmentationArgs(more_templates=more).problems()
    assert found[0] == path
    assert words in found[1]


def test_the_limit_of_a_plan_cuts_no_group(decide, app):
    cluster = b.snapshot(
        *(b.node(f"n{i}").cpu("4") for i in range(3)),
        load(app, "a", "n0", 2, "500m"), load(app, "b", "n1", 3, "1"), load(app, "c", "n2", 3, "1"),
    )  # fmt: skip
    one = PlanningInputs(limits=Limits(minimum_gain=0.0), unlimited=True, max_moves=1)
    assert decide(cluster, WHOLE_NODE, inputs=one).moves == ()
