"""A state follows changed nodes without being built again, also where an answer was kept; one is shared."""

import dataclasses

import msgspec

from harness.builders import node, pod, snapshot
from rescheduler.model.records import SpreadConstraint, Taint
from rescheduler.model.selectors import LabelSelector, Operator, Requirement
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.state import SchedulingState, SharedSchedulingState


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


def test_the_shared_state_comes_without_the_trial_moves_of_its_last_user():
    first = snapshot(node("a"), node("b"), pod("r").on("a"))
    shared = SharedSchedulingState()
    state = shared.at(first)
    state.place(first.pods["default", "r"], "b")
    again = shared.at(first)
    assert again is state
    assert again.pods_on("b") == []


def test_the_shared_state_is_made_again_for_another_profile_and_when_it_is_told_to():
    cluster = snapshot(node("a"))
    shared = SharedSchedulingState()
    state = shared.at(cluster, Profile())
    assert shared.at(cluster, Profile(scheduler_name="other")) is not state
    state = shared.at(cluster)
    shared.forget()
    assert shared.at(cluster) is not state


def test_images_and_capacity_do_not_void_what_follows_from_taints_and_readiness():
    cluster = snapshot(node("a"), node("b"))
    state = SchedulingState(cluster)
    before = state.nodes
    grown = msgspec.structs.replace(
        cluster.nodes["b"], allocatable=msgspec.structs.replace(cluster.nodes["b"].allocatable, pods=7)
    )
    state.sync(dataclasses.replace(cluster, nodes={**cluster.nodes, "b": grown}))
    assert state.allocatable("pods")[state.node_index["b"]] == 7
    assert state.nodes.epoch == before.epoch
    unready = msgspec.structs.replace(grown, ready=False)
    state.sync(dataclasses.replace(cluster, nodes={**cluster.nodes, "b": unready}))
    assert state.nodes.usable.tolist() == [True, False]
    assert state.nodes.epoch != before.epoch
