"""Nodes are emptied by what they cost: exact prices from the configuration, a label, or a default that is told."""

import pytest

from harness import builders as b
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.planning.limits import PlanningInputs
from rescheduler.policies.node_prices import NodePriceArgs, PricedNodesArgs, price_in
from rescheduler.policies.objective import ONE
from rescheduler.reports.objective_words import headline
from rescheduler.scheduling.nodes import NodeTable

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\npolicies:\n"
HALF = {"thresholds": {"cpu": 50.0}, "target_thresholds": {"cpu": 90.0}}


def few(moves):
    return PlanningInputs(aggressiveness=1.0, unlimited=True, max_moves=moves)


def emptied(plan):
    return {n.name for n in plan.before.nodes if n.pods} - {n.name for n in plan.after.nodes if n.pods}


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("1", ONE), ("0.192", 192_000), ("0.0000019", 1), ("1000000", 1_000_000 * ONE), ("007.5", 7_500_000),
        ("0", None), ("0.0", None), ("1000001", None), ("", None), ("-1", None), ("1e3", None), ("1.", None), (".5", None),
        ("1,5", None), ("cheap", None), ("٣", None), ("9" * 63, None),
    ],
)  # fmt: skip
def test_a_label_is_read_exactly_or_not_at_all(text, price):
    assert price_in(text) == price


def test_the_first_entry_counts_then_the_label_then_the_default():
    args = PricedNodesArgs(prices=(
        NodePriceArgs(node_selector={"kind": "spot", "size": "big"}, price=0.5),
        NodePriceArgs(node_selector={"kind": "spot"}, price=0.1),
    ), price_label="price", default_price=0.3)  # fmt: skip
    nodes = [
        b.node("n1").label(kind="spot", size="big", price="9"), b.node("n2").label(kind="spot"),
        b.node("n3").label(price="9.25"), b.node("n4").label(price="much"), b.node("n5"),
    ]  # fmt: skip
    table = NodeTable(tuple(b.snapshot(nodes, now_s=0.0).nodes.values()))
    prices = dict(zip(table.names, args.prices_of(table).tolist(), strict=True))
    assert prices == {"n1": 500_000, "n2": 100_000, "n3": 9_250_000, "n4": 300_000, "n5": 300_000}
    ((path, said),) = args.unknown_to(table)
    assert path == ("priceLabel",)
    assert said == (
        "2 of 5 nodes that take part have no such label with a price (n4, n5): each costs defaultPrice 0.3"
    )


def test_of_nodes_that_are_alike_the_most_expensive_is_emptied_first(decide, app):
    def cluster(*labels):
        nodes = [b.node(f"n{i}").cpu("4").label(price=price) for i, price in enumerate(labels)]
        return b.snapshot(nodes, app("web", ["n0", "n1", "n2"], lambda s: s.cpu("500m")))

    for dearest in range(3):
        prices = ["0.5"] * 3
        prices[dearest] = "0.51"
        made = decide(
            cluster(*prices), ("HighNodeUtilization", HALF | {"price_label": "price"}), inputs=few(1)
        )
        assert emptied(made) == {f"n{dearest}"}


def test_one_expensive_node_is_worth_more_than_two_cheap_ones(decide, app):
    nodes = [b.node(f"n{i}").cpu("8").label(kind="gpu" if i == 3 else "plain") for i in range(5)]
    on = ["n0", "n1", "n3", "n3", "n4", "n4", "n4", "n4", "n4", "n4"]
    cluster = b.snapshot(nodes, app("web", on, lambda s: s.cpu("500m")))
    gpu = NodePriceArgs(node_selector={"kind": "gpu"}, price=10.0)
    plain = decide(cluster, ("HighNodeUtilization", HALF), inputs=few(2))
    assert emptied(plain) == {"n0", "n1"}
    priced = decide(cluster, ("HighNodeUtilization", HALF | {"prices": (gpu,)}), inputs=few(2))
    assert emptied(priced) == {"n3"}
    assert headline(priced) == (
        "2 moves: empties 1 of 4 nodes in use; the price of nodes in use falls from 13 to 3"
    )


def test_the_unit_of_prices_makes_no_difference(decide, app):
    nodes = [b.node(f"n{i}").cpu("4") for i in range(6)]
    on = [f"n{i}" for i in range(6) for _ in range(i + 1)]
    cluster = b.snapshot(nodes, app("web", on, lambda s: s.cpu("200m")))
    plans = [
        decide(cluster, ("HighNodeUtilization", HALF | {"default_price": price}), inputs=few(6))
        for price in (1.0, 0.001, 1_000_000.0)
    ]
    assert plans[0].moves
    assert [(m.pod, m.target) for m in plans[1].moves] == [(m.pod, m.target) for m in plans[0].moves]
    assert [(m.pod, m.target) for m in plans[2].moves] == [(m.pod, m.target) for m in plans[0].moves]


@pytest.mark.parametrize(("argument", "key"), [
    ("defaultPrice: 0", "defaultPrice"),
    ("defaultPrice: -1", "defaultPrice"),
    ("defaultPrice: 1000001", "defaultPrice"),
    ("defaultPrice: .nan", "defaultPrice"),
    ("priceLabel: 'a b'", "priceLabel"),
    ("prices: [{nodeSelector: {}, price: 1}]", "prices[0].nodeSelector"),
    ("prices: [{nodeSelector: {a: b}, price: 0}]", "prices[0].price"),
    ("prices: [{nodeSelector: {a: b}}]", "price"),
])  # fmt: skip
def test_what_is_no_price_is_refused(argument, key):
    with pytest.raises(ConfigurationError) as refused:
        parse_configuration(f"{HEAD}- {{name: HighNodeUtilization, {argument}}}", "c.yaml")
    assert key in str(refused.value)


def test_an_entry_for_labels_that_no_node_has_is_a_warning():
    text = f"{HEAD}- {{name: HighNodeUtilization, prices: [{{nodeSelector: {{a: b}}, price: 2}}]}}"
    table = NodeTable(tuple(b.snapshot([b.node("n1")], now_s=0.0).nodes.values()))
    (said,) = parse_configuration(text, "c.yaml").unknown_to(table)
    assert said.startswith(
        "policies[0].prices[0].nodeSelector of HighNodeUtilization: no node has these labels"
    )
