"""Protections of profiles: a policy moves what its own profile lets go, whatever another one allows."""

import json

import pytest

from harness import builders as b
from rescheduler.configuration.document import parse_configuration
from rescheduler.planning.planner import plan
from rescheduler.policies.node_taints import NodeTaints, NodeTaintsArgs
from rescheduler.scheduling.state import SchedulingState

HEAD = {"apiVersion": "rescheduler.dev/v1alpha1", "kind": "ReschedulerConfiguration"}
TAINTS = {"name": "NodeTaints"}


def configuration(*profiles, **top):
    return parse_configuration(json.dumps({**HEAD, **top, "profiles": list(profiles)}), "c.json")


def profile(name, *policies, **more):
    return {"name": name, "policies": list(policies), **more}


def planned(cluster, found, *, unlimited=True):
    return plan(cluster, found.build_policies(), found.inputs(unlimited=unlimited), SchedulingState(cluster))


def leaving(cluster, *profiles, **top):
    return {move.pod.name: move.policy for move in planned(cluster, configuration(*profiles, **top)).moves}


@pytest.fixture
def tainted(app):
    """One pod of each of two namespaces on nodes of two pools that are to be left, and room elsewhere."""
    return b.snapshot(
        b.node("a").label(pool="a").taint("old"),
        b.node("b").label(pool="b").taint("old"),
        b.node("free"),
        app("web", ["a"], lambda pod: pod.cpu("1"), namespace="web"),
        app("db", ["b"], lambda pod: pod.cpu("1").priority(900), namespace="db"),
    )


def test_what_one_profile_protects_another_may_move(tainted):
    careful = profile("careful", TAINTS, protections={"priorityThreshold": 500})
    assert leaving(tainted, careful) == {"web-0": "careful/NodeTaints"}
    assert leaving(tainted, careful, profile("bold", TAINTS)) == {
        "web-0": "careful/NodeTaints",
        "db-0": "bold/NodeTaints",
    }


def test_no_profile_loosens_the_protections_of_another(tainted):
    careful = profile("careful", TAINTS, protections={"priorityThreshold": 500})
    idle = profile("bold", {"name": "NodeAffinity"})
    found = planned(tainted, configuration(careful, idle))
    assert [move.pod.name for move in found.moves] == ["web-0"]
    (left,) = found.skipped
    assert (left.pod.name, left.policy, left.reason) == ("db-0", "careful/NodeTaints", "Protected")
    assert left.blocked_by == "protections.priorityThreshold"


def test_the_order_of_profiles_changes_nothing_of_what_may_move(tainted):
    one = profile("one", TAINTS, protections={"namespaces": {"include": ["web"]}})
    two = profile("two", TAINTS, protections={"namespaces": {"include": ["db"]}})
    expected = {"web-0": "one/NodeTaints", "db-0": "two/NodeTaints"}
    assert leaving(tainted, one, two) == leaving(tainted, two, one) == expected


def test_each_profile_has_its_nodes(tainted):
    assert leaving(tainted, profile("a", TAINTS, nodeSelector={"pool": "a"})) == {"web-0": "a/NodeTaints"}


def test_the_protections_of_the_document_hold_where_a_profile_says_nothing(tainted):
    top = {"protections": {"namespaces": {"exclude": ["web"]}}}
    assert leaving(tainted, profile("p", TAINTS), **top) == {"db-0": "p/NodeTaints"}
    again = profile("p", TAINTS, protections={"namespaces": {"exclude": []}})
    assert set(leaving(tainted, again, **top)) == {"web-0", "db-0"}


def test_one_profile_plans_what_the_flat_form_plans(tainted):
    flat = parse_configuration(json.dumps({**HEAD, "policies": [TAINTS]}), "c.json")
    expected = {move.pod.name: move.target for move in planned(tainted, flat).moves}
    found = planned(tainted, configuration(profile("p", TAINTS)))
    assert {move.pod.name: move.target for move in found.moves} == expected
    assert len(expected) == 2


def test_pods_step_aside_by_the_protections_of_the_profile_whose_pod_needs_room(app):
    def cluster():
        return b.snapshot(
            b.node("n1").cpu("2"),
            b.node("n2").cpu("2"),
            app("small", ["n1"], lambda pod: pod.cpu("1"), namespace="kept"),
            app("other", ["n2"], lambda pod: pod.cpu("1"), namespace="kept"),
            b.pod("big").cpu("2").unschedulable(),
        )

    rooms = profile("rooms", {"name": "PendingPods"})
    assert set(leaving(cluster(), rooms)) & {"small-0", "other-0"}
    kept = profile("rooms", {"name": "PendingPods"}, protections={"namespaces": {"exclude": ["kept"]}})
    assert leaving(cluster(), kept, profile("bold", TAINTS)) == {}


def test_a_policy_of_another_package_that_calls_itself_otherwise_keeps_to_its_profile(tainted):
    class Stubborn(NodeTaints):
        def candidates(self, view):
            return super().candidates(view).by("NodeTaints")

    found = configuration(profile("careful", TAINTS, protections={"priorityThreshold": 500}))
    policy = Stubborn(NodeTaintsArgs())
    policy.name = "careful/NodeTaints"
    moves = plan(tainted, [policy], found.inputs(unlimited=True), SchedulingState(tainted)).moves
    assert [(move.pod.name, move.policy) for move in moves] == [("web-0", "careful/NodeTaints")]


def test_a_second_decision_on_the_same_state_gives_the_same_plan(tainted):
    found, state = (
        configuration(
            profile("careful", TAINTS, protections={"priorityThreshold": 500}), profile("bold", TAINTS)
        ),
        SchedulingState(tainted),
    )
    plans = [
        plan(tainted, found.build_policies(), found.inputs(unlimited=True), state).moves for _ in range(3)
    ]
    assert plans[0]
    assert plans[0] == plans[1] == plans[2]


def test_what_two_profiles_find_alike_counts_once(tainted):
    careful = profile("careful", TAINTS, protections={"priorityThreshold": 500})
    found = planned(tainted, configuration(careful, profile("bold", TAINTS)))
    assert [(p.name, p.badly_placed, p.badness.hard) for p in found.before.policies[:2]] == [
        ("careful/NodeTaints", 2, 2),
        ("bold/NodeTaints", 2, 0),
    ]
    assert {effect.policy for move in found.moves for effect in move.effects} == {"careful/NodeTaints"}
    other = {**TAINTS, "namespaces": {"include": ["db"]}}
    assert not configuration(careful, profile("bold", other)).echoes
    assert configuration(careful, profile("bold", TAINTS)).echoes == {"bold/NodeTaints"}


def test_of_a_pod_that_one_profile_protects_it_is_told_what_keeps_the_other_from_moving_it(tainted):
    never = {"windows": [{"cron": "0 0 29 2 *", "duration": "2m"}]}
    careful = profile("careful", TAINTS, protections={"priorityThreshold": 500})
    found = planned(tainted, configuration(careful, profile("bold", TAINTS), limits=never), unlimited=False)
    assert {s.pod.name: (s.policy, s.reason) for s in found.skipped} == {
        "web-0": ("careful/NodeTaints", "ChangeWindow"),
        "db-0": ("bold/NodeTaints", "ChangeWindow"),
    }
