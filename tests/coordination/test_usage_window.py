"""Measured usage over some minutes: when a node is known, what its mean is worth, and that noise moves nothing."""

import dataclasses
import random
import statistics

import msgspec
import numpy as np
import pytest

from harness import builders as b
from rescheduler.coordination.usage_window import LEAST, SETTLED_S, UsageWindow
from rescheduler.model.measured import NodeUsage
from rescheduler.model.migration import MigrationStatus, PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import ObjectRef
from rescheduler.model.usage import Readings, often, usage_key
from rescheduler.model.usage_settings import UsageSettings
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.policies.measurement import measured, unmeasured, unsettled
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState

NOW_S = b.NOW_S
EVERY_S = 30.0


def sample(cpu_milli, at_s, node="n1"):
    return NodeUsage(node, cpu_milli, 1 << 30, at_s)


def taken(window, *amounts, start_s=NOW_S):
    found = ()
    for i, amount in enumerate(amounts):
        found = window.add([sample(amount, start_s + i * EVERY_S)])
    return found[0]


def test_it_takes_some_samples_until_a_node_is_known_and_then_their_mean_and_error_are():
    window = UsageWindow()
    assert not taken(window, *[1000] * (LEAST - 1)).settled
    amounts = [900, 1000, 1100, 1200]
    found = taken(UsageWindow(), *amounts)
    assert found.settled
    assert found.cpu_milli == statistics.mean(amounts)
    assert found.memory_bytes == 1 << 30
    assert found.measured_at_s == NOW_S + 3 * EVERY_S


def test_a_sample_that_is_read_again_counts_once():
    window = UsageWindow()
    for _ in range(10):
        (found,) = window.add([sample(1000, NOW_S)])
    assert not found.settled


def test_what_is_older_than_the_window_counts_no_more_and_after_a_gap_it_begins_anew():
    window = UsageWindow()
    taken(window, *[4000] * 5)
    later = taken(window, *[1000] * 11, start_s=NOW_S + 5 * EVERY_S)
    assert later.cpu_milli == 1000
    gap = taken(window, 2000, start_s=NOW_S + 10 * 300.0)
    assert not gap.settled
    window.add([])
    assert not taken(window, 1000, 1000, start_s=NOW_S + 11 * 300.0).settled


def test_what_was_measured_before_a_move_says_nothing_of_what_stands_there_now():
    window = UsageWindow()
    taken(window, *[4000] * 5)
    landed_s = NOW_S + 4 * EVERY_S
    status = MigrationStatus(
        source_node="n2", node_name="n1", evicted_at_s=landed_s - 1, landed_at_s=landed_s
    )
    window.follow([PodMigration(namespace="d", name="m", uid="m", pod_name="p", status=status)])
    assert not taken(window, 4000, 1000, 1000, start_s=landed_s + EVERY_S).settled
    again = taken(window, 1000, 1000, start_s=landed_s + SETTLED_S + 3 * EVERY_S)
    assert (again.settled, again.cpu_milli) == (True, 1000)


def test_a_process_that_decides_once_takes_what_there_is():
    found = taken(UsageWindow(1), 1234)
    assert (found.settled, found.cpu_milli) == (True, 1234)


def test_a_node_that_is_not_settled_takes_no_part_and_is_not_called_unmeasured():
    nodes = [b.node("n1"), b.node("n2")]
    usage = {"n1": sample(1, NOW_S), "n2": msgspec.structs.replace(sample(1, NOW_S, "n2"), settled=False)}
    found = dataclasses.replace(b.snapshot(*nodes), usage=usage)
    names = ("n1", "n2", "n3")
    assert measured(found, names).tolist() == [True, False, False]
    assert unsettled(found, names) == 1
    assert unmeasured(found, names).nodes == ("n3",)


def test_another_window_begins_anew_and_the_same_goes_on():
    window = UsageWindow()
    taken(window, 1000, 1000, 1000)
    assert window.under(UsageSettings()) is window
    other = window.under(UsageSettings(window_s=3600.0))
    assert other.known == ()
    assert not taken(other, 1000, 1000).settled


def test_a_node_whose_clock_is_ahead_pushes_nobody_out_of_the_window():
    window = UsageWindow()
    for i in range(4):
        now_s = NOW_S + i * EVERY_S
        found = window.add([sample(1000, now_s), sample(2000, now_s + 86_400.0, "n2")], now_s=now_s)
    assert {one.node: (one.cpu_milli, one.settled) for one in found} == {
        "n1": (1000, True),
        "n2": (2000, True),
    }


# What becomes of it in decisions -------------------------------------------------------------------

CORES = 10
EVEN = {"use_deviation_thresholds": True, "target_thresholds": {"cpu": 10.0}}
FIXED = {"thresholds": {"cpu": 55.0}, "target_thresholds": {"cpu": 60.0}}


@pytest.fixture
def cluster(app):
    """Ten nodes of ten cores, with ten pods each that request half a core."""
    nodes = [b.node(f"n{i}").cpu(str(CORES)) for i in range(10)]
    on = [f"n{i}" for i in range(10)] * 10
    return b.snapshot(*nodes, app("web", on, lambda s: s.cpu("500m")))


def decided(cluster, state, usage, args, samples=None):
    kind = REGISTRY["LowNodeUtilization"]
    policy = kind.build(kind.args(usage="actual", minimum_relief=0.0, **args))
    now_s = max(one.measured_at_s for one in usage) + 5.0
    found = dataclasses.replace(
        cluster, usage={one.node: one for one in usage}, node_samples=samples, taken_at_s=now_s
    )
    return plan(
        found, [policy], PlanningInputs(limits=Limits(minimum_gain=0.0), aggressiveness=1.0), state
    ).moves


def cycles(number, seed, share=0.5, points=15):
    """What is measured of each node, every 30 s: its share of ten cores, and up to so many points more or less."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    for i in range(number):
        shares = [share + rng.uniform(-points, points) / 100 for _ in range(10)]
        yield [
            NodeUsage(f"n{node}", round(1000 * CORES * one), 1 << 30, NOW_S + i * EVERY_S)
            for node, one in enumerate(shares)
        ]


@pytest.mark.parametrize("args", [EVEN, FIXED], ids=["deviation", "fixed"])
def test_on_an_even_cluster_noise_of_15_points_moves_nothing_in_300_cycles(cluster, args):
    window, state = UsageWindow(), SchedulingState(cluster)
    made = (decided(cluster, state, window.add(usage), args, window.samples) for usage in cycles(300, 1))
    assert sum(map(len, made)) == 0
    # Each sample by itself would have moved pods for ever.
    assert sum(len(decided(cluster, state, usage, args)) for usage in cycles(30, 1)) > 20


@pytest.mark.parametrize("args", [EVEN, FIXED], ids=["deviation", "fixed"])
def test_a_node_that_is_really_overloaded_is_relieved_in_spite_of_the_noise(cluster, args):
    window, state = UsageWindow(), SchedulingState(cluster)
    found = ()
    for usage in cycles(12, 2):
        hot = msgspec.structs.replace(usage[0], cpu_milli=usage[0].cpu_milli + 4000)
        found = decided(cluster, state, window.add([hot, *usage[1:]]), args, window.samples)
    assert found
    assert {move.source for move in found} == {"n0"}


def told_before(window, *, of_pods=True):
    """A server that remembers tells ten samples; in the middle of them a pod of 2 CPUs went from n1 to n2."""
    left_s = NOW_S + 5 * EVERY_S - 1
    for i in range(10):
        at_s = NOW_S + i * EVERY_S
        stays = at_s < left_s
        pods = [(usage_key("d", "p" if stays else "q"), at_s, 2000.0, 1.0)] if of_pods else []
        window.add(
            [sample(3000 if stays else 1000, at_s), sample(1000 if stays else 3000, at_s, "n2")],
            Readings.of(pods),
        )
    status = MigrationStatus(
        source_node="n1", node_name="n2", evicted_at_s=left_s, landed_at_s=left_s,
        replacement=ObjectRef(namespace="d", name="q"),
    )  # fmt: skip
    window.follow([PodMigration(namespace="d", name="m", uid="m", pod_name="p", status=status)])
    return {one.node: (one.settled, one.cpu_milli) for one in window.known}


def test_after_a_restart_what_a_server_tells_of_the_time_before_a_move_counts_as_if_the_pod_had_been_there():
    window = UsageWindow()
    assert told_before(window) == {"n1": (True, 1000), "n2": (True, 3000)}
    assert window.pods.of(ObjectKey("d", "q"), "cpu") == 2000.0
    assert often(window.samples.of_each(["n2"]).window[0], np.array([2999.0]), 10).tolist() == [10]


def test_where_the_pod_was_not_measured_only_what_came_after_the_move_counts():
    window = UsageWindow()
    assert told_before(window, of_pods=False) == {"n1": (True, 1000), "n2": (True, 3000)}
    assert often(window.samples.of_each(["n2"]).window[0], np.array([0.0]), 10).tolist() == [5]
