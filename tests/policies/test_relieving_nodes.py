"""Which pods of an overloaded node go: the choice of a slow and obvious way to choose."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.policies.overloaded_nodes import cover
from rescheduler.scheduling.classes import PodClass, class_key
from rescheduler.testing import builders as b


@st.composite
def loads(draw):
    """Pods, what each takes of two resources, and how much has to go."""
    pods = []
    for number in range(draw(st.integers(0, 6))):
        pod = b.pod(f"p{number}").priority(draw(st.sampled_from([0, 7]))).on("n")
        if draw(st.booleans()):
            pod = pod.annotate({"descheduler.alpha.kubernetes.io/prefer-no-eviction": "true"})
        pods.append(pod)
    records = list(b.snapshot(*pods).pods.values()) if pods else []
    amounts = st.integers(0, 5)
    taken = [[draw(amounts), draw(amounts)] for _ in records]
    return records, taken, [draw(st.integers(1, 9)), draw(st.integers(1, 9))]


def covers(taken, left):
    """Mean part of what is left that a pod takes away."""
    parts = [min(have / want, 1.0) for have, want in zip(taken, left, strict=True) if want > 0]
    return round(sum(parts) / len(parts), 6)


def slowly(pods, taken, need):
    left, free, chosen = list(need), set(range(len(pods))), []
    rank = [
        (pod.spec.priority, sum(have / want for have, want in zip(taken[i], need, strict=True)), pod.name)
        for i, pod in enumerate(pods)
    ]
    while any(left):
        useful = [i for i in free if covers(taken[i], left) > 0]
        useful = [i for i in useful if not pods[i].annotations] or useful
        if not useful:
            break
        best = min(useful, key=lambda i, left=tuple(left): (-covers(taken[i], left), *rank[i]))
        chosen.append(best)
        free.remove(best)
        left = [max(0, want - have) for have, want in zip(taken[best], left, strict=True)]
    return chosen


@given(load=loads())
def test_the_pods_that_cover_most_go_first(load):
    pods, taken, need = load
    kinds = [PodClass(class_key(pod), pod) for pod in pods]
    amounts = np.array(taken, dtype=np.float64).reshape(len(pods), 2)
    by_name = sorted(range(len(pods)), key=lambda i: (pods[i].namespace, pods[i].name))
    assert cover(by_name, kinds, amounts, np.array(need, dtype=np.float64)) == slowly(pods, taken, need)


def test_of_equal_pods_those_go_whose_moves_disrupt_least(decide, app):
    """Single replicas stay: one of many replicas costs less to move."""
    nodes = [b.node("n1"), b.node("n2"), b.node("n3")]
    single = [app(f"a-single-{i}", ["n1"], lambda s: s.cpu("200m")) for i in range(9)]
    many = app("many", ["n1"] * 9 + ["n2"] * 3, lambda s: s.cpu("200m"))
    plan = decide(
        b.snapshot(nodes, *single, many),
        ("LowNodeUtilization", {"thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 60.0}}),
    )
    assert len(plan.moves) >= 6
    assert {move.pod.name.partition("-")[0] for move in plan.moves} == {"many"}


def test_of_equally_empty_nodes_a_pod_goes_where_it_prefers_to_be(decide, app):
    nodes = [b.node("n1"), *(b.node(name).label(disk=name) for name in ("n2", "n3"))]
    likes = app("web", ["n1"] * 4, lambda s: s.cpu("900m").prefers_node("disk", "n3", weight=100))
    plan = decide(b.snapshot(nodes, likes), "LowNodeUtilization")
    assert plan.moves[0].target == "n3"


def test_those_go_that_like_the_other_nodes_no_less(decide, app):
    """Critical pods stay off spot nodes, which only ask not to be taken, as long as others relieve their node."""
    soft = {"effect": "PreferNoSchedule"}
    nodes = [b.node("n1"), *(b.node(f"spot{i}").taint("spot", **soft).label(pool="spot") for i in range(2))]
    critical = app("a-critical", ["n1"] * 5, lambda s: s.cpu("400m"))
    staying = app(
        "b-staying",
        ["n1"] * 2,
        lambda s: s.cpu("400m").tolerate("spot", **soft).prefers_node("pool", "spot", operator="NotIn"),
    )
    flexible = app("c-flexible", ["n1"] * 3, lambda s: s.cpu("400m").tolerate("spot", **soft))
    found = decide(b.snapshot(nodes, critical, staying, flexible), "LowNodeUtilization").moves
    assert [move.pod.name[:3] for move in found[:3]] == ["c-f"] * 3
    alone = decide(
        b.snapshot(nodes, app("a-critical", ["n1"] * 9, lambda s: s.cpu("400m"))), "LowNodeUtilization"
    )
    assert alone.moves


def test_replicas_stay_apart_rather_than_go_to_the_very_emptiest_node(decide, app):
    zones = {"n1": "a", "n2": "b", "n3": "a", "n4": "b"}
    nodes = [b.node(name).zone(zone).cpu("8").memory("32Gi") for name, zone in zones.items()]
    large = app("large", ["n1"], lambda s: s.cpu("5"))
    web = app("web", ["n1", "n2"], lambda s: s.cpu("300m"))
    little = app("little", ["n3"], lambda s: s.cpu("400m"))
    (move,) = decide(b.snapshot(nodes, large, web, little), "LowNodeUtilization").moves
    assert (move.pod.name, move.target) == ("web-0", "n3")
