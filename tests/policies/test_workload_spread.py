"""The spread that a workload has is kept, although it states none; what it never had is no loss."""

import pytest

from harness import builders as b
from rescheduler.configuration.document import parse_configuration
from rescheduler.model.names import ZONE
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, Tier
from rescheduler.policies.workload_spread import WorkloadSpread, WorkloadSpreadArgs
from rescheduler.scheduling.state import SchedulingState

PACKS = ("HighNodeUtilization", {"thresholds": {"cpu": 60.0}, "target_thresholds": {"cpu": 90.0}})
UNLIMITED = PlanningInputs(limits=Limits(minimum_gain=0.0), aggressiveness=1.0, unlimited=True)


def packed(decide, cluster, *policies):
    """Node by pod after a plan that packs nodes."""
    made = decide(cluster, *policies, PACKS, inputs=UNLIMITED)
    nodes = {pod.name: pod.node for pod in cluster.pods.values()}
    return nodes | {move.pod.name: move.target for move in made.moves}


def test_three_replicas_from_three_nodes_are_not_packed_on_one(decide, app):
    nodes = [b.node(f"n{i}").cpu("4") for i in range(3)]
    cluster = b.snapshot(nodes, app("web", ["n0", "n1", "n2"], lambda s: s.cpu("500m")))
    assert len(set(packed(decide, cluster).values())) == 1
    assert len(set(packed(decide, cluster, "WorkloadSpread").values())) == 2


def test_replicas_of_two_zones_are_not_packed_in_one(decide, app):
    nodes = [b.node(f"n{i}").cpu("4").label(**{ZONE: "a" if i < 3 else "b"}) for i in range(4)]
    filler = app("filler", ["n0", "n1"], lambda s: s.cpu("3"))
    cluster = b.snapshot(nodes, filler, app("web", ["n2", "n3"], lambda s: s.cpu("500m")))
    assert packed(decide, cluster)["web-1"] in ("n0", "n1", "n2")
    assert packed(decide, cluster, "WorkloadSpread")["web-1"] == "n3"


def test_replicas_that_stand_together_may_leave_together(decide, app):
    nodes = [b.node(f"n{i}").cpu("4") for i in range(2)]
    cluster = b.snapshot(
        nodes, app("web", ["n0", "n0"], lambda s: s.cpu("200m")), app("big", ["n1"], lambda s: s.cpu("3"))
    )
    assert packed(decide, cluster, "WorkloadSpread")["web-0"] == "n1"
    assert packed(decide, cluster, "WorkloadSpread")["web-1"] == "n1"


def test_a_refused_move_names_it_and_a_repair_shows_what_it_costs(decide, app):
    cluster = b.snapshot(
        b.node("n0").taint("old"), b.node("n1").cpu("4"), app("web", ["n0", "n1"], lambda s: s.cpu("1"))
    )
    made = decide(cluster, "NodeTaints", "WorkloadSpread", inputs=UNLIMITED)
    (move,) = made.moves
    assert {effect.policy: effect.change.soft for effect in move.effects}["WorkloadSpread"] > 0


@pytest.mark.parametrize(
    ("replicas", "together", "expected"), [(2, 1, 0), (3, 2, 0), (8, 6, 0), (8, 7, 1), (100, 80, 5)]
)
def test_three_quarters_may_stand_on_one_node(replicas, together, expected, app):
    nodes = [b.node(f"n{i}").cpu("200") for i in range(replicas)]
    places = ["n0"] * together + [f"n{i + 1}" for i in range(replicas - together)]
    cluster = b.snapshot(nodes, app("web", places, lambda s: s.cpu("1")))
    view = PolicyView.of(cluster, SchedulingState(cluster))
    found = WorkloadSpread(WorkloadSpreadArgs(weight=2.0)).badness(view)
    assert found[Tier.SOFT] == 2 * ONE * expected


@pytest.mark.parametrize(("policies", "expected"), [
    ("[{name: NodeTaints}]", ["NodeTaints", "WorkloadSpread"]),
    ("[{name: WorkloadSpread, weight: 2}, {name: NodeTaints}]", ["WorkloadSpread", "NodeTaints"]),
    ("[{name: NodeTaints}, {name: WorkloadSpread, enabled: false}]", ["NodeTaints"]),
    ("[]", []),
])  # fmt: skip
def test_it_counts_unless_an_entry_says_otherwise(policies, expected):
    head = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
    configuration = parse_configuration(f"{head}policies: {policies}\n", "config.yaml")
    assert [policy.name for policy in configuration.build_policies()] == expected


def test_a_node_that_stays_in_use_for_the_spread_of_a_workload_names_that_policy(decide, app):
    web = app("web", ["n1", "n2"], lambda spec: spec.cpu("200m"))
    cluster = b.snapshot(b.node("n1"), b.node("n2"), web)
    high = ("HighNodeUtilization", {"thresholds": {"cpu": 50.0}})
    made = decide(cluster, "WorkloadSpread", high)
    assert made.moves == ()
    assert {skip.blocked_by for skip in made.skipped} == {"WorkloadSpread"}
    assert all(
        skip.message.endswith("would meet fewer preferences in sum (WorkloadSpread)") for skip in made.skipped
    )
