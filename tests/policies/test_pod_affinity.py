"""PodAffinity: pods away from those that they require or prefer near, or beside those that they would rather avoid."""

import random

import msgspec
import pytest

from harness import builders as b
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import Tier
from rescheduler.policies.pod_affinity import PodAffinity, PodAffinityArgs
from rescheduler.policies.wire import NamespaceFilter
from rescheduler.scheduling.state import SchedulingState

NAME = "PodAffinity"
PREFERRED = {"types": ("preferred",)}


def nodes(*names, cpu="4"):
    return [b.node(name).cpu(cpu) for name in names]


def near_cache(pod):
    return pod.near(HOSTNAME, app="cache")


def broken(cluster):
    policy = PodAffinity(PodAffinityArgs())
    return int(policy.badness(PolicyView.of(cluster, SchedulingState(cluster)))[Tier.HARD])


def test_a_pod_goes_to_the_partner_that_it_requires(decide, app, landings):
    cluster = b.snapshot(*nodes("n1", "n2", "n3"), app("cache", ["n2"]), app("web", ["n1"], near_cache))
    assert broken(cluster) == 1
    assert landings(decide(cluster, NAME)) == {"web-0": "n2"}


def test_the_partner_comes_where_that_repairs_more_pods_with_one_move(decide, app, landings):
    cluster = b.snapshot(*nodes("n1", "n2"), app("cache", ["n2"]), app("web", ["n1"] * 4, near_cache))
    assert landings(decide(cluster, NAME)) == {"cache-0": "n1"}


def test_the_pods_go_where_the_partner_may_not_be_moved(decide, app, landings):
    cluster = b.snapshot(
        *nodes("n1", "n2"), app("cache", ["n2"], lambda s: s.empty_dir()), app("web", ["n1"] * 2, near_cache)
    )
    assert landings(decide(cluster, NAME)) == {"web-0": "n2", "web-1": "n2"}


def test_the_partner_comes_where_the_pod_may_not_be_moved(decide, app, landings):
    def held(pod):
        return near_cache(pod).empty_dir()

    cluster = b.snapshot(*nodes("n1", "n2"), app("cache", ["n2"]), app("web", ["n1"], held))
    assert landings(decide(cluster, NAME)) == {"cache-0": "n1"}


def test_a_partner_in_the_same_zone_is_near_enough(decide, app):
    cluster = b.snapshot(
        b.node("a1").zone("a"), b.node("a2").zone("a"),
        app("cache", ["a2"]), app("web", ["a1"], lambda s: s.near(ZONE, app="cache")),
    )  # fmt: skip
    assert broken(cluster) == 0
    assert not decide(cluster, NAME).moves


def test_the_first_pod_of_a_kind_that_requires_its_own_may_be_anywhere(decide, app, landings):
    def together(pod):
        return pod.near(HOSTNAME, app="ring")

    assert broken(b.snapshot(*nodes("n1", "n2"), app("ring", ["n1"], together))) == 0
    cluster = b.snapshot(*nodes("n1", "n2"), app("ring", ["n1", "n2"], together))
    assert broken(cluster) == 2
    assert len(landings(decide(cluster, NAME))) == 1


def test_one_pod_must_meet_all_required_terms(decide, app):
    """As kube-scheduler counts: two partners that meet one term each are none."""

    def both(pod):
        return pod.near(HOSTNAME, app="cache").near(ZONE, tier="fast")

    cluster = b.snapshot(
        b.node("n1").zone("a"), b.node("n2").zone("a"),
        app("cache", ["n1"]), app("disk", ["n2"], lambda s: s.label(tier="fast")), app("web", ["n1"], both),
    )  # fmt: skip
    assert broken(cluster) == 1
    plan = decide(cluster, NAME)
    assert not plan.moves
    assert [str(one.reason) for one in plan.skipped] == ["NoBetterTarget"]


def test_replicas_that_prefer_to_stand_apart_leave_the_node_that_they_share(decide, app, landings):
    """Five on one node although four others are empty."""
    cluster = b.snapshot(
        *nodes("n1", "n2", "n3", "n4", "n5"),
        app("web", ["n1"] * 5, lambda s: s.apart(HOSTNAME, weight=100, app="web")),
    )
    assert not decide(cluster, NAME).moves
    assert sorted(landings(decide(cluster, (NAME, PREFERRED))).values()) == ["n2", "n3", "n4", "n5"]


def test_replicas_that_stand_as_evenly_as_they_can_stay(decide, app):
    cluster = b.snapshot(
        *nodes("n1", "n2"), app("web", ["n1", "n1", "n2"], lambda s: s.apart(HOSTNAME, weight=1, app="web"))
    )
    assert not decide(cluster, (NAME, PREFERRED)).moves


def test_a_preferred_partner_is_followed_and_a_nearer_crowd_is_not(decide, app, landings):
    def fond(pod):
        return pod.near(HOSTNAME, weight=10, app="cache")

    cluster = b.snapshot(*nodes("n1", "n2", "n3"), app("cache", ["n2"]), app("web", ["n1"], fond))
    assert landings(decide(cluster, (NAME, PREFERRED))) == {"web-0": "n2"}
    crowd = b.snapshot(*nodes("n1", "n2", "n3"), app("cache", ["n1", "n2", "n2"]), app("web", ["n1"], fond))
    assert not decide(crowd, (NAME, PREFERRED)).moves


def test_pods_outside_the_scope_are_counted_and_not_proposed(decide, app):
    cluster = b.snapshot(*nodes("n1", "n2"), app("cache", ["n2"]), app("web", ["n1"], near_cache))
    assert not decide(cluster, (NAME, {"namespaces": NamespaceFilter(exclude=("default",))})).moves


def test_no_type_at_all_is_refused():
    assert [path for path, _ in PodAffinityArgs(types=()).problems()] == [("types",)]


@pytest.mark.parametrize("seed", range(12))
def test_change_is_exact_where_one_pod_must_meet_several_terms(seed, app):
    """Pods that lack one of two keys, nodes without a label, partners that come and go: by hand against ``badness``."""
    chance = random.Random(seed)  # noqa: S311 - the same choices each time
    names = [f"n{i}" for i in range(6)]
    places = [
        b.node(name).zone(zone) if (zone := chance.choice("abc")) != "c" else b.node(name) for name in names
    ]

    def ring(pod):
        return pod.near(HOSTNAME, app="ring").near(ZONE, app="ring")

    def both(pod):
        return pod.near(HOSTNAME, app="cache").near(ZONE, app="cache")

    def spots(count):
        return [chance.choice(names) for _ in range(count)]

    cluster = b.snapshot(
        *places,
        app("cache", spots(2)),
        app("web", spots(4), both),
        app("ring", spots(chance.choice((1, 3))), ring),
    )
    state = SchedulingState(cluster)
    view, policy = PolicyView.of(cluster, state), PodAffinity(PodAffinityArgs())
    before, different = policy.badness(view)[Tier.HARD], 0
    for pod in cluster.pods.values():
        change = policy.change(pod, pod, view)[Tier.HARD]
        for node in names:
            if node == pod.node:
                continue
            mark = state.checkpoint()
            state.remove(pod)
            state.place(msgspec.structs.replace(pod, uid=f"{pod.uid}-new", node=""), node)
            after = policy.badness(view)[Tier.HARD]
            state.rollback(mark)
            assert change[state.node_index[node]] == after - before, (pod.name, node)
            different += bool(after - before)
    assert different, "moves that change nothing prove nothing"
