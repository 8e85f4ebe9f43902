"""``explain pod`` of a pod that fits nowhere: who would have to stand elsewhere, and what holds them."""

from __future__ import annotations

import json

import pytest

from harness import builders as b


def web(name, node, *, cpu="1", replicas=1, priority=0):
    """A pod of a ReplicaSet of its own, and that ReplicaSet."""
    owner = b.replicaset(name).cpu(cpu).priority(priority).replicas(replicas)
    return [owner, owner.pod(f"{name}-1").on(node)]


def nodes(*cpus):
    return [b.node(f"n{number}").cpu(cpu) for number, cpu in enumerate(cpus, 1)]


@pytest.fixture
def nearest(command, dump):
    """What is said of pod ``big`` in a cluster of these objects: the last line, and the JSON."""

    def ask(*items, big):
        path = dump([each.manifest() for each in (*items, big)])
        text = command("explain", "pod", "big", "--from", path)
        line = command("explain", "pod", "big", "--from", path, "-o", "json")
        assert (text.exit_code, line.exit_code) == (0, 0), text.output
        return text.stdout.splitlines()[-1].strip(), json.loads(line.stdout).get("nearest")

    return ask


BIG = b.pod("big").cpu("2")


def test_one_pod_elsewhere_is_nearer_than_two(nearest):
    items = [*nodes("2", "2", "1"), *web("a", "n1"), *web("b", "n2", cpu="500m"), *web("c", "n2", cpu="500m")]
    said, way = nearest(*items, big=BIG)
    assert said == "it would fit on n1 if default/a-1 (to n2) moved"
    assert way == {"node": "n1", "moves": [{"namespace": "default", "name": "a-1", "to": "n2"}]}


def test_two_pods_go_where_both_have_room(nearest):
    items = [*nodes("2", "1", "1"), *web("a", "n1"), *web("b", "n1")]
    said, way = nearest(*items, big=BIG)
    assert said.startswith("it would fit on n1 if default/a-1 (to n")
    assert sorted(move["to"] for move in way["moves"]) == ["n2", "n3"]


def test_a_budget_that_allows_nothing_is_named(nearest):
    budget = b.pdb("calm").selects(app="a").allows(0)
    said, way = nearest(*nodes("2", "1"), *web("a", "n1"), budget, big=BIG)
    assert (
        said == "it would fit on n1 if default/a-1 (to n2) moved; default/a-1 is held by budget default/calm"
    )
    assert way["moves"][0]["held"] == "is held by budget default/calm"


def test_a_way_that_nothing_holds_comes_before_one_that_is_shorter(nearest):
    budget = b.pdb("calm").selects(app="a").allows(0)
    items = [*nodes("2", "2", "1"), *web("a", "n1"), *web("b", "n2"), *web("c", "n2"), budget]
    items = [*items, b.node("n4").cpu("1")]
    assert nearest(*items, big=BIG)[1]["node"] == "n2"


def test_a_pod_of_higher_priority_is_said_to_hold(nearest):
    said, _ = nearest(*nodes("2", "1"), *web("a", "n1", priority=10), big=BIG)
    assert said.endswith("; default/a-1 has a higher priority")


def test_one_pod_may_need_the_room_of_another(nearest):
    items = [*nodes("4", "3", "2"), *web("a", "n1", cpu="3"), *web("b", "n2", cpu="2")]
    said, _ = nearest(*items, big=b.pod("big").cpu("4"))
    assert said == "it would fit on n1 if default/b-1 (to n3) and default/a-1 (to n2) moved"


def test_host_ports_are_a_reason_to_step_aside_too(nearest):
    owner = b.replicaset("a").cpu("100m").host_port(8080).replicas(1)
    said, _ = nearest(
        *nodes("2"),
        b.node("n2").cpu("1").taint("x"),
        owner.tolerate("x"),
        owner.tolerate("x").pod("a-1").on("n1"),
        big=b.pod("big").cpu("1").host_port(8080),
    )
    assert said == "it would fit on n1 if default/a-1 (to n2) moved"


@pytest.mark.parametrize(
    "items",
    [[*nodes("2"), *web("a", "n1")], [*nodes("2", "1"), b.pod("bare").cpu("1").on("n1")], [*nodes("1", "1")]],
    ids=["nowhere to go", "no controller", "no node is large enough"],
)
def test_where_nothing_helps_it_says_so(nearest, items):
    said, way = nearest(*items, big=BIG)
    assert (said, way) == ("no pods could stand elsewhere so that it fits there", None)


def test_a_pod_that_fits_needs_nobody_to_move(nearest):
    assert nearest(*nodes("2"), big=BIG)[1] is None


def test_only_of_nodes_that_are_too_small_it_is_said_that_evicting_does_not_help(command, dump):
    path = dump([each.manifest() for each in (*nodes("2", "1"), *web("a", "n1"), BIG)])
    said = command("explain", "pod", "big", "--from", path).stdout.splitlines()
    assert "  1 node: Insufficient cpu (needs 2, best has 1) [n1]" in said
    assert "  1 node: Insufficient cpu (needs 2, best has 1); evicting pods there would not help [n2]" in said
