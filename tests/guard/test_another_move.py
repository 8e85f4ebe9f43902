"""A move of the guard that fails is followed by another one, while ``guard.limit`` leaves the time for it."""

import pytest

from rescheduler.guard.decision import TRY_AGAIN_S
from rescheduler.guard.settings import GuardSettings

from .one_guard import Cluster, asks_for, verbs


@pytest.fixture
def cluster():
    return Cluster()


def test_another_move_follows_one_that_fails_and_the_limit_counts_from_the_first_ask(cluster):
    cluster.pod()
    began_s = cluster.now_s
    asks_for(cluster, 20)
    cluster.fails()
    answer = asks_for(cluster, TRY_AGAIN_S - 10)
    assert "DecisionStale" in answer["status"]["message"]
    assert verbs(cluster) == ["create"]
    asks_for(cluster, 20)
    assert verbs(cluster) == ["create", "delete", "create"]
    assert asks_for(cluster, 600)["allowed"]
    assert cluster.now_s - began_s == pytest.approx(cluster.settings.limit_s, abs=6)


def test_with_a_short_limit_another_move_follows_soon(cluster):
    cluster.settings = GuardSettings(limit_s=60.0)
    cluster.pod()
    asks_for(cluster, 20)
    cluster.fails()
    asks_for(cluster, 25)
    assert verbs(cluster) == ["create", "delete", "create"]


def test_a_controller_that_restarts_between_two_moves_lets_nobody_wait_longer(cluster):
    cluster.pod()
    began_s = cluster.now_s
    asks_for(cluster, 20)
    cluster.fails()
    asks_for(cluster, 100)
    assert verbs(cluster) == ["create", "delete", "create"]
    restarted = Cluster()
    restarted.objects, restarted.now_s = cluster.objects, cluster.now_s
    assert asks_for(restarted, 600)["allowed"]
    assert restarted.now_s - began_s == pytest.approx(cluster.settings.limit_s, abs=6)


@pytest.mark.parametrize(("reason", "after_s"), [("NotMovable", 20), ("DecisionStale", 250)])
def test_where_another_move_cures_nothing_or_has_no_time_the_eviction_goes_at_once(cluster, reason, after_s):
    cluster.pod()
    asks_for(cluster, after_s)
    cluster.fails(reason)
    assert reason in cluster.ask()["warnings"][0]
    cluster.look_again()
    assert verbs(cluster) == ["create"]
