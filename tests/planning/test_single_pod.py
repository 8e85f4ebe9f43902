"""One pod outside of a plan: would it fit there now, and where should it go."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.model.names import ANNOTATION_HANDOVER_TAINT, HOSTNAME, ZONE
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.records import SpreadConstraint
from rescheduler.planning.single_pod import (
    choose_room,
    choose_target,
    move_refusal,
    no_moves,
    start_first_refusal,
)
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.state import SchedulingState

ONE_ZONE = [b.node(name).zone("a").label({HOSTNAME: name}) for name in ("n1", "n2")]
TWO_ZONES = [*ONE_ZONE, b.node("n3").zone("b").label({HOSTNAME: "n3"})]


def alone(owner):
    return owner.apart(ZONE, app="web").label(app="web")


def alone_on_its_node(owner):
    return owner.apart(HOSTNAME, app="web").label(app="web")


def record(cluster, name):
    return next(p for p in cluster.pods.values() if p.name == name)


def asked(cluster, name="web-0"):
    state = SchedulingState(cluster)
    return Replacements(cluster), state, record(cluster, name)


def test_an_old_pod_that_ends_counts_for_anti_affinity_and_not_for_default_spread(app):
    hard = (SpreadConstraint(max_skew=1, topology_key=ZONE, hard=True, selector=None),)
    profile = Profile(default_spread=hard, system_default_spread=False)
    cluster = b.snapshot(
        *TWO_ZONES,
        b.service("web", app="web"),
        app("web", ["n1"], lambda s: s.label(app="web").apart(ZONE, app="web")),
    )
    state, pod = SchedulingState(cluster, profile), record(cluster, "web-0")
    assert move_refusal(Replacements(cluster), state, pod, "n3") is None
    assert "anti-affinity" in move_refusal(Replacements(cluster), state, pod, "n2").reason


def test_the_own_placeholder_gives_its_room_up(app):
    holder = b.pod("holder", "rescheduler").cpu("3").on("n2")
    cluster = b.snapshot(b.node("n1"), b.node("n2"), holder, app("web", ["n1"], lambda s: s.cpu("2")))
    state, pod = SchedulingState(cluster), record(cluster, "web-0")
    assert move_refusal(Replacements(cluster), state, pod, "n2", record(cluster, "holder")) is None
    refused = move_refusal(Replacements(cluster), state, pod, "n2")
    assert (refused.plugin, refused.reason) == ("NodeResourcesFit", "Insufficient cpu")
    assert move_refusal(Replacements(cluster), state, pod, "n9").unresolvable
    assert move_refusal(Replacements(cluster), state, pod, "n1").unresolvable
    assert state.checkpoint() == 0


@pytest.mark.parametrize(
    ("node", "word"),
    [(b.node("n2").cordoned(), "unschedulable"), (b.node("n2").not_ready(), "not Ready")],
)
def test_unfit_nodes_are_neither_taken_nor_chosen(app, node, word):
    replacements, state, pod = asked(b.snapshot(b.node("n1"), node, app("web", ["n1"])))
    assert word in move_refusal(replacements, state, pod, "n2").reason
    assert word in start_first_refusal(replacements, state, pod, "n2").reason
    assert choose_target(replacements, state, pod).node == ""


def test_the_taint_of_another_hand_over_on_the_target_ends_no_move(app):
    """It stands for seconds, and the replacement is released with the toleration; a taint of somebody else refuses."""
    ours = {"key": ANNOTATION_HANDOVER_TAINT, "value": "n2", "effect": "NoSchedule"}
    for taints, refused in (([ours], False), ([ours, {"key": "theirs", "effect": "NoSchedule"}], True)):
        target = b.node("n2").set("spec.taints", taints)
        question = (*asked(b.snapshot(b.node("n1"), target, app("web", ["n1"]))), "n2")
        assert (move_refusal(*question) is not None) is refused
        assert (start_first_refusal(*question) is not None) is refused


def test_the_scheduler_s_words_are_named_for_each_resource(app):
    small = b.node("n2").cpu("1").memory("1Gi")
    replacements, state, pod = asked(
        b.snapshot(b.node("n1"), small, app("web", ["n1"], lambda s: s.cpu("2").memory("2Gi")))
    )
    assert move_refusal(replacements, state, pod, "n2").reason == "Insufficient cpu, Insufficient memory"
    assert (
        "1 NodeResourcesFit (such as: Insufficient cpu, Insufficient memory)"
        in choose_target(replacements, state, pod).message
    )


def test_anti_affinity_counts_the_old_pod_while_it_ends(app):
    replacements, state, pod = asked(b.snapshot(TWO_ZONES, app("web", ["n1"], alone)))
    refused = move_refusal(replacements, state, pod, "n2")
    assert refused.plugin == "InterPodAffinity"
    assert refused.reason.endswith("as long as the old pod still ends")
    assert move_refusal(replacements, state, pod, "n3") is None
    assert choose_target(replacements, state, pod).node == "n3"
    assert state.checkpoint() == 0


def test_no_target_is_chosen_where_the_old_pod_keeps_its_replacement_out(app):
    chosen = choose_target(*asked(b.snapshot(ONE_ZONE, app("web", ["n1"], alone))))
    assert (chosen.node, "as long as the old pod still ends" in chosen.message) == ("", True)


def test_anti_affinity_by_node_keeps_only_its_node(app):
    replacements, state, pod = asked(b.snapshot(ONE_ZONE, app("web", ["n1"], alone_on_its_node)))
    assert move_refusal(replacements, state, pod, "n2") is None
    assert choose_target(replacements, state, pod).node == "n2"


def test_a_stateful_set_starts_the_next_pod_after_the_old_one_ended():
    owner = alone(b.statefulset("web"))
    cluster = b.snapshot(ONE_ZONE, owner, owner.pod("web-0").on("n1"))
    assert move_refusal(*asked(cluster), "n2") is None


@pytest.mark.parametrize(("near", "word"), [(["n1"], "still ends"), (["n1", "n2"], None)])
def test_the_last_pod_of_its_zone_does_not_leave_it_while_it_ends(app, near, word):
    """kube-scheduler counts a terminating pod for required affinity; once it is gone, the first pod may start anywhere."""
    together = lambda s: s.near(ZONE, app="web").label(app="web")  # noqa: E731
    replacements, state, pod = asked(b.snapshot(TWO_ZONES, app("web", near, together)))
    refused = move_refusal(replacements, state, pod, "n3")
    assert word is None or word in refused.reason
    assert refused.plugin == "InterPodAffinity"
    assert move_refusal(replacements, state, pod, "n2") is None
    assert choose_target(replacements, state, pod).node == "n2"
    assert state.checkpoint() == 0


def test_a_stateful_set_s_last_pod_may_leave_its_zone():
    owner = b.statefulset("web").near(ZONE, app="web").label(app="web")
    cluster = b.snapshot(b.node("n1").zone("a"), b.node("n3").zone("b"), owner, owner.pod("web-0").on("n1"))
    assert move_refusal(*asked(cluster), "n3") is None
    assert choose_target(*asked(cluster)).node == "n3"


@pytest.mark.parametrize("ends", [True, False])
def test_affinity_relies_on_no_pod_that_ends(app, ends):
    other = b.pod("db").label(app="db").on("n3")
    cluster = b.snapshot(
        TWO_ZONES, other.deleting() if ends else other, app("web", ["n1"], lambda s: s.near(ZONE, app="db"))
    )
    assert (move_refusal(*asked(cluster), "n3") is None) is not ends
    assert bool(choose_target(*asked(cluster)).node) is not ends


def test_affinity_relies_on_no_pod_that_is_not_bound_yet(app):
    other = b.pod("db").label(app="db").on("n3")
    cluster = b.snapshot(TWO_ZONES, other, app("web", ["n1"], lambda s: s.near(ZONE, app="db")))
    replacements, state, pod = asked(cluster)
    moves = no_moves(cluster, state)
    with moves.beside([record(cluster, "db")]):
        refused = move_refusal(replacements, state, pod, "n3", under_way=moves)
        assert "not bound yet" in refused.reason
        assert "not bound yet" in choose_target(replacements, state, pod, under_way=moves).message


def test_a_target_for_a_move_that_a_user_asked_for(app):
    replacements, state, pod = asked(
        b.snapshot(
            b.node("n1"), b.node("n2").cpu("1"), b.node("n3"), app("web", ["n1"], lambda s: s.cpu("2"))
        )
    )
    assert choose_target(replacements, state, pod).node == "n3"
    assert state.checkpoint() == 0


def test_nodes_with_a_hint_are_taken_last(app):
    cluster = b.snapshot(b.node("n1"), b.node("n2"), b.node("n3"), app("web", ["n1"]))
    pod = record(cluster, "web-0")
    hint = AvoidEntry(
        "ReplicaSet", "web", pod.controller.uid, "default", "NodeTaints", cluster.taken_at_s + 9.0
    )

    def with_hints(*names):
        nodes = {
            n: msgspec.structs.replace(r, avoid=(hint,)) if n in names else r
            for n, r in cluster.nodes.items()
        }
        return dataclasses.replace(cluster, nodes=nodes)

    for hinted, node in (((), "n2"), (("n2",), "n3"), (("n2", "n3"), "n2")):
        marked = with_hints(*hinted)
        assert choose_target(Replacements(marked), SchedulingState(marked), pod).node == node


def test_a_room_for_a_pod_that_does_not_exist_yet(app):
    cluster = b.snapshot(b.node("n1"), b.node("n2"), app("busy", ["n1"], lambda s: s.cpu("3")))
    state = SchedulingState(cluster)
    assert choose_room(state, b.pod("template").cpu("2").build()).node == "n2"
    refused = choose_room(state, b.pod("t").cpu("5").build())
    assert (refused.node, "2 NodeResourcesFit (such as: Insufficient cpu)" in refused.message) == ("", True)
