"""Who tries to hold up the evictions of others, or asks oddly, against one guard: nobody waits longer than ``guard.limit``."""

import pytest

from rescheduler.guard.asks import Asks
from rescheduler.guard.filing import guarded_key
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import PodMigration

from .one_guard import Cluster, asks_for, verbs

BY_DESCHEDULER = {"object": {"metadata": {"annotations": {"requested-by": "sigs.k8s.io/descheduler"}}}}


@pytest.fixture
def cluster():
    return Cluster()


def test_who_says_that_he_counts_begins_nobodys_wait_anew(cluster):
    """A team may evict its own pods, and writes what it likes into its Evictions; a second tool asks for the same pod."""
    cluster.pod()
    cluster.pod("decoy", uid="decoy")
    began_s = cluster.now_s
    while not cluster.ask(user="vpa-updater")["allowed"]:
        for name in ("decoy", "web-1"):
            cluster.ask(name, user="team", **BY_DESCHEDULER)
        cluster.look_again()
        cluster.now_s += 5
        assert cluster.now_s - began_s < cluster.settings.limit_s + 10


def test_who_takes_the_name_of_the_move_holds_nobody_up(cluster):
    pod = cluster.pod()
    key = guarded_key(pod.key, pod.uid)
    taken = PodMigration(namespace="shop", name=key.name, pod_name="web-1", pod_uid=pod.uid, paused=True)
    cluster.objects[Kind.POD_MIGRATION][key] = taken
    began_s = cluster.now_s
    assert asks_for(cluster, 600)["allowed"]
    assert cluster.now_s - began_s == pytest.approx(cluster.settings.limit_s, abs=6)


def test_two_tools_that_evict_one_pod_get_one_move_and_one_limit(cluster):
    cluster.pod()
    began_s = cluster.now_s
    for second in range(50):
        cluster.ask(user=("kubectl", "karpenter")[second % 2])
        cluster.look_again()
        cluster.now_s += 5
    assert verbs(cluster) == ["create"]
    assert asks_for(cluster, 600, user="karpenter")["allowed"]
    assert cluster.now_s - began_s == pytest.approx(cluster.settings.limit_s, abs=12)


def test_an_ask_that_waits_for_its_turn_begins_when_somebody_else_asks():
    asks, cluster = Asks(), Cluster()
    first, second = cluster.pod("first", uid="first"), cluster.pod("second", uid="second")
    asks.hear(first, "descheduler", 100.0, one_by_one=True)
    asks.hear(second, "descheduler", 101.0, one_by_one=True)
    assert asks.find("second", 101.0).held
    asks.hear(second, "kubectl", 110.0)
    asks.hear(second, "descheduler", 111.0, one_by_one=True)
    found = asks.find("second", 111.0)
    assert (found.held, found.first_s) == (False, 110.0)


def test_a_busy_api_server_lets_no_eviction_through(cluster, monkeypatch):
    """A pass makes 25 objects, and each takes half a second or more."""
    clock_s = [1_000.0]
    monkeypatch.setattr("rescheduler.guard.filer.time.monotonic", lambda: clock_s[0])
    cluster.look_again()
    create, answers = cluster.create, []

    def slowly(path, body):
        clock_s[0] += 2.0
        create(path, body)
        answers.append(cluster.ask("last")["allowed"])

    monkeypatch.setattr(cluster, "create", slowly)
    for name in (*(f"web-{number}" for number in range(20)), "last"):
        cluster.pod(name, uid=name)
        cluster.ask(name)
    cluster.look_again()
    assert len(answers) == 21
    assert not any(answers)
