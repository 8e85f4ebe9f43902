"""Placeholders and required anti-affinity: what a plan may send where, pod by pod."""

import pytest

from rescheduler.model.records import Node, PodAffinityTerm, PodSpec
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.placeholder_rules import PlaceholderRules
from rescheduler.scheduling.state import SchedulingState
from tests.records import pod_record

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NAMES = ("a", "b", "c")
EVERYWHERE = LabelSelector()


def term(app, *, key=HOST, operator=Operator.NOT_IN, namespaces=EVERYWHERE):
    selector = LabelSelector((Requirement("app", operator, (app,) if operator is Operator.NOT_IN else ()),))
    return PodAffinityTerm(selector=selector, topology_key=key, namespace_selector=namespaces)


def pod(name, *terms, node="", app="x"):
    return pod_record(
        namespace="default",
        name=name,
        uid=name,
        node=node,
        labels=LabelSet({"app": app}),
        spec=PodSpec(pod_anti_affinity=terms),
    )


def rules(*pods):
    nodes = {
        name: Node(
            name=name,
            labels=LabelSet({HOST: name, ZONE: "1" if name != "c" else "2"}),
            allocatable=Resources(cpu_milli=4000, pods=10),
        )
        for name in NAMES
    }
    snapshot = Snapshot(taken_at_s=0.0, nodes=nodes, pods={p.key: p for p in pods})
    state = SchedulingState(snapshot)
    return PlaceholderRules(state, "rescheduler"), state


def names(mask):
    return (
        set(NAMES)
        if mask is None
        else {name for name, allowed in zip(NAMES, mask.tolist(), strict=True) if allowed}
    )


@pytest.mark.parametrize(("terms", "allowed"), [
    ((), {"a", "b", "c"}),
    ((term("x"),), {"b", "c"}),
    ((term("x", key=ZONE),), {"c"}),
    ((term("", operator=Operator.DOES_NOT_EXIST),), {"b", "c"}),
    ((term("x", namespaces=None),), {"a", "b", "c"}),
])  # fmt: skip
def test_a_placeholder_goes_where_no_pod_refuses_it(terms, allowed):
    found, _ = rules(pod("old", *terms, node="a"))
    assert names(found.takes_holder()) == allowed


def test_pods_that_the_state_does_not_show_count_beside_it():
    found, state = rules()
    leaving = pod("old", term("x", key=ZONE), node="b")
    assert names(found.takes_holder([(leaving, state.node_index["b"])])) == {"c"}
    assert names(found.takes_holder([(pod("other", node="b"), state.node_index["b"])])) == set(NAMES)


def test_a_pod_stays_apart_from_placeholders_that_its_own_rule_refuses():
    found, state = rules()
    here = [state.node_index["a"]]
    assert names(found.apart(pod("new", term("x")), here)) == {"b", "c"}
    assert names(found.apart(pod("new", term("x", key=ZONE)), here)) == {"c"}
    assert names(found.apart(pod("new", term("x", namespaces=None)), here)) == set(NAMES)
    assert names(found.apart(pod("new"), here)) == set(NAMES)
