"""One pod outside of a plan: would it fit there now, and where should it go."""

import dataclasses

import msgspec
import pytest

from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.model.records import AvoidEntry, SpreadConstraint
from rescheduler.planning.recheck import recheck, recheck_beside
from rescheduler.planning.target import choose_room, choose_target
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.state import SchedulingState
from rescheduler.testing import builders as b

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
    return cluster, state, record(cluster, name)


def test_an_old_pod_that_ends_counts_for_anti_affinity_and_not_for_default_spread(app):
    hard = (SpreadConstraint(max_skew=1, topology_key=ZONE, hard=True, selector=None),)
    profile = Profile(default_spread=hard, system_default_spread=False)
    cluster = b.snapshot(
        *TWO_ZONES,
        b.service("web", app="web"),
        app("web", ["n1"], lambda s: s.label(app="web").apart(ZONE, app="web")),
    )
    state, pod = SchedulingState(cluster, profile), record(cluster, "web-0")
    assert recheck(cluster, state, pod, "n3") is None
    assert "anti-affinity" in recheck(cluster, state, pod, "n2").reason


def test_the_own_placeholder_gives_its_room_up(app):
    holder = b.pod("holder", "rescheduler").cpu("3").on("n2")
    cluster = b.snapshot(b.node("n1"), b.node("n2"), holder, app("web", ["n1"], lambda s: s.cpu("2")))
    state, pod = SchedulingState(cluster), record(cluster, "web-0")
    assert recheck(cluster, state, pod, "n2", record(cluster, "holder")) is None
    refused = recheck(cluster, state, pod, "n2")
    assert (refused.plugin, refused.reason) == ("NodeResourcesFit", "Insufficient cpu")
    assert recheck(cluster, state, pod, "n9").unresolvable
    assert recheck(cluster, state, pod, "n1").unresolvable
    assert state.checkpoint() == 0


@pytest.mark.parametrize(
    ("node", "word"),
    [(b.node("n2").cordoned(), "unschedulable"), (b.node("n2").not_ready(), "not Ready")],
)
def test_unfit_nodes_are_neither_taken_nor_chosen(app, node, word):
    cluster, state, pod = asked(b.snapshot(b.node("n1"), node, app("web", ["n1"])))
    assert word in recheck(cluster, state, pod, "n2").reason
    assert word in recheck_beside(cluster, state, pod, "n2").reason
    assert choose_target(cluster, state, pod).node == ""


def test_the_scheduler_s_words_are_named_for_each_resource(app):
    small = b.node("n2").cpu("1").memory("1Gi")
    cluster, state, pod = asked(
        b.snapshot(b.node("n1"), small, app("web", ["n1"], lambda s: s.cpu("2").memory("2Gi")))
    )
    assert recheck(cluster, state, pod, "n2").reason == "Insufficient cpu, Insufficient memory"
    assert (
        "1 NodeResourcesFit (such as: Insufficient cpu, Insufficient memory)"
        in choose_target(cluster, state, pod).message
    )


def test_anti_affinity_counts_the_old_pod_while_it_ends(app):
    cluster, state, pod = asked(b.snapshot(TWO_ZONES, app("web", ["n1"], alone)))
    refused = recheck(cluster, state, pod, "n2")
    assert refused.plugin == "InterPodAffinity"
    assert refused.reason.endswith("as long as the old pod still ends")
    assert recheck(cluster, state, pod, "n3") is None
    assert choose_target(cluster, state, pod).node == "n3"
    assert state.checkpoint() == 0


def test_no_target_is_chosen_where_the_old_pod_keeps_its_replacement_out(app):
    chosen = choose_target(*asked(b.snapshot(ONE_ZONE, app("web", ["n1"], alone))))
    assert (chosen.node, "as long as the old pod still ends" in chosen.message) == ("", True)


def test_anti_affinity_by_node_keeps_only_its_node(app):
    cluster, state, pod = asked(b.snapshot(ONE_ZONE, app("web", ["n1"], alone_on_its_node)))
    assert recheck(cluster, state, pod, "n2") is None
    assert choose_target(cluster, state, pod).node == "n2"


def test_a_stateful_set_starts_the_next_pod_after_the_old_one_ended():
    owner = alone(b.statefulset("web"))
    cluster = b.snapshot(ONE_ZONE, owner, owner.pod("web-0").on("n1"))
    assert recheck(*asked(cluster), "n2") is None


@pytest.mark.parametrize(("mode", "fits"), [("ReadWriteOncePod", False), ("ReadWriteMany", True)])
def test_a_claim_for_one_pod_is_in_use_while_the_old_pod_ends(app, mode, fits):
    volume = b.volume("v").set("spec.accessModes", [mode])
    claim = b.claim("data").set("spec.accessModes", [mode]).bound_to("v")
    cluster, state, pod = asked(
        b.snapshot(ONE_ZONE, volume, claim, app("web", ["n1"], lambda s: s.claim("data")))
    )
    assert (recheck(cluster, state, pod, "n2") is None) is fits
    assert bool(choose_target(cluster, state, pod).node) is fits


def test_spread_counts_the_old_pod_only_beside_it(app):
    """One zone holds the only pod: its replacement may go to the other node there, a second pod may not."""
    cluster, state, pod = asked(
        b.snapshot(TWO_ZONES, app("web", ["n1"], lambda s: s.spread(ZONE, app="web").label(app="web")))
    )
    assert recheck(cluster, state, pod, "n2") is None
    assert recheck_beside(cluster, state, pod, "n2").plugin == "PodTopologySpread"
    assert recheck_beside(cluster, state, pod, "n3") is None


def test_a_target_for_a_move_that_a_user_asked_for(app):
    cluster, state, pod = asked(
        b.snapshot(
            b.node("n1"), b.node("n2").cpu("1"), b.node("n3"), app("web", ["n1"], lambda s: s.cpu("2"))
        )
    )
    assert choose_target(cluster, state, pod).node == "n3"
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
        assert choose_target(marked, SchedulingState(marked), pod).node == node


def test_a_room_for_a_pod_that_does_not_exist_yet(app):
    cluster = b.snapshot(b.node("n1"), b.node("n2"), app("busy", ["n1"], lambda s: s.cpu("3")))
    state = SchedulingState(cluster)
    assert choose_room(cluster, state, b.pod("template").cpu("2").build()).node == "n2"
    refused = choose_room(cluster, state, b.pod("t").cpu("5").build())
    assert (refused.node, "2 NodeResourcesFit (such as: Insufficient cpu)" in refused.message) == ("", True)
