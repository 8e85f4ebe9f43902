"""A state follows changed nodes without being built anew, also where a result was remembered."""

import dataclasses

import msgspec

from rescheduler.model.records import SpreadConstraint, Taint
from rescheduler.model.selectors import LabelSelector, Operator, Requirement
from rescheduler.scheduling.state import SchedulingState
from rescheduler.testing.builders import node, pod, snapshot


def test_a_new_taint_changes_which_nodes_a_spread_constraint_counts():
    first = snapshot(node("a"), node("b"), pod("r").on("a").label(app="x"), pod("asked").label(app="x"))
    selector = LabelSelector((Requirement("app", Operator.IN, ("x",)),))
    constraint = SpreadConstraint(
        1, "kubernetes.io/hostname", hard=True, selector=selector, node_taints_honor=True
    )
    asked = first.pods["default", "asked"]
    asked = msgspec.structs.replace(asked, spec=msgspec.structs.replace(asked.spec, spread=(constraint,)))
    state = SchedulingState(first)
    assert state.filter(asked).feasible.tolist() == [False, True]
    tainted = msgspec.structs.replace(first.nodes["b"], taints=(Taint("gone"),))
    state.sync(dataclasses.replace(first, nodes={**first.nodes, "b": tainted}))
    assert state.filter(asked).feasible.tolist() == [True, False], "b is no domain any more"
