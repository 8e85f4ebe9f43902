"""Which pods of an overloaded node go: the choice of a slow and obvious way to choose."""

from harness import builders as b


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
