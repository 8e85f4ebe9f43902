"""TooManyRestarts and PodLifeTime: which pods go, that it is over once they went, and that what they say of a move is exact."""

import dataclasses
import random

import msgspec
import pytest

from harness import builders as b
from harness.rest.clusters import random_cluster
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.records import PodPhase
from rescheduler.planning.avoid import entry_for
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, Tier
from rescheduler.policies.registry import REGISTRY
from rescheduler.policies.wire import NamespaceFilter
from rescheduler.scheduling.state import SchedulingState
from tests import records

HOUR_S = 3600.0


def policy(name, **args):
    return REGISTRY[name].build(REGISTRY[name].args(**args))


def changed(cluster, **of):
    """The cluster with fields of pods, by name, replaced."""
    return each(cluster, lambda pod: of.get(pod.name.replace("-", "_"), {}))


def each(cluster, fields):
    """The cluster with these fields of each pod replaced."""
    pods = {key: records.changed(pod, **fields(pod)) for key, pod in cluster.pods.items()}
    return dataclasses.replace(cluster, pods=pods)


@pytest.fixture
def cluster(app):
    nodes = [b.node(f"n{i}") for i in (1, 2, 3)]
    return b.snapshot(*nodes, app("web", ["n1", "n2"], lambda s: s.cpu("1")))


OFTEN = {"restarts": 100, "ready": False}


def test_a_pod_that_restarts_while_a_replica_elsewhere_is_well_goes_to_another_node(cluster, decide):
    found = changed(cluster, web_0=OFTEN, web_1={"restarts": 3, "ready": True})
    plan = decide(found, "TooManyRestarts")
    assert [(m.pod.name, m.reason, m.target) for m in plan.moves] == [("web-0", "TooManyRestarts", "n3")]
    assert plan.moves[0].message == "restarted 100 times on node/n1"
    assert not decide(changed(cluster, web_0={"restarts": 99}), "TooManyRestarts").moves


@pytest.mark.parametrize(
    "other", [{"ready": False}, {"restarts": 100, "ready": True}, {"node": "n1", "ready": True}]
)
def test_where_no_replica_elsewhere_is_well_it_stays_and_the_plan_says_so(cluster, decide, other):
    found = changed(cluster, web_0=OFTEN, web_1=other)
    plan = decide(found, "TooManyRestarts")
    assert not plan.moves
    assert any("no replica on another node is well" in words for words in plan.metadata.warnings)
    bolder = decide(found, ("TooManyRestarts", {"require_healthy_replicas": False}))
    assert "web-0" in {m.pod.name for m in bolder.moves}
    assert not any("is well" in words for words in bolder.metadata.warnings)


def left(cluster, *nodes, expires_at_s=b.NOW_S + 60.0, **fields):
    """The cluster after pods of web left these nodes for TooManyRestarts."""
    owner = cluster.pods["default", "web-0"].controller
    entry = entry_for(owner, "default", "TooManyRestarts", b.NOW_S)
    entry = msgspec.structs.replace(entry, expires_at_s=expires_at_s, **fields)
    known = {name: msgspec.structs.replace(cluster.nodes[name], avoid=(entry,)) for name in nodes}
    return dataclasses.replace(cluster, nodes={**cluster.nodes, **known})


def test_after_moves_in_vain_it_gives_up_says_so_and_tries_again_when_the_hints_have_ended(app, decide):
    nodes = [b.node(f"n{i}") for i in range(1, 7)]
    found = b.snapshot(*nodes, app("web", ["n1", "n2"], lambda s: s.cpu("1")))
    found = changed(found, web_0=OFTEN, web_1={"ready": True})
    assert decide(left(found, "n3", "n4"), "TooManyRestarts").moves
    tried = left(found, "n3", "n4", "n5")
    plan = decide(tried, "TooManyRestarts")
    assert not plan.moves
    words = "TooManyRestarts: 1 pod restarts as often and stays, for pods of their controllers left 3 nodes for it in vain"
    assert words in plan.metadata.warnings
    assert decide(tried, ("TooManyRestarts", {"most_nodes": 0})).moves
    for others in ({"expires_at_s": b.NOW_S - 1.0}, {"reason": "NodeTaints"}, {"namespace": "evil"}):
        assert decide(left(found, "n3", "n4", "n5", **others), "TooManyRestarts").moves


def test_without_hints_it_could_never_give_up_and_that_is_refused():
    problems = dict(REGISTRY["TooManyRestarts"].args(hint=0.0).problems())
    assert "mostNodes" in problems["hint",]
    assert not list(REGISTRY["TooManyRestarts"].args(hint=0.0, most_nodes=0).problems())


def test_pods_without_a_controller_and_of_other_namespaces_are_none_of_its_business(cluster, decide):
    found = changed(cluster, web_0=OFTEN, web_1={"ready": True})
    elsewhere = NamespaceFilter(exclude=("default",))
    plan = decide(found, ("TooManyRestarts", {"namespaces": elsewhere}))
    assert not plan.moves
    assert plan.before.policies[0].badly_placed == 0


def old(cluster, **hours):
    now_s = cluster.taken_at_s
    of = {name: {"created_at_s": now_s - h * HOUR_S, "phase": PodPhase.RUNNING} for name, h in hours.items()}
    return changed(cluster, **of)


def test_pods_past_their_age_are_replaced_and_then_it_is_over(cluster, decide):
    args = {"max_age_s": 24 * HOUR_S, "jitter": 0.0}
    plan = decide(old(cluster, web_0=24, web_1=23.9), ("PodLifeTime", args))
    assert [(m.pod.name, m.reason) for m in plan.moves] == [("web-0", "TooOld")]
    assert plan.moves[0].message == "is older than 24h0m0s"
    assert plan.moves[0].target != "n1"
    assert plan.after.policies[0].badly_placed == 0


def test_replicas_of_one_age_do_not_go_together(app):
    owner = app("web", ["n1"] * 40)
    born_s = b.NOW_S - 105 * HOUR_S
    found = each(
        b.snapshot(b.node("n1"), owner), lambda _: {"created_at_s": born_s, "phase": PodPhase.RUNNING}
    )
    view = PolicyView.of(found, SchedulingState(found))
    going = len(policy("PodLifeTime", max_age_s=100 * HOUR_S, jitter=0.1).to_replace(view))
    assert 10 < going < 30
    assert len(policy("PodLifeTime", max_age_s=100 * HOUR_S, jitter=0.0).to_replace(view)) == 40


def test_a_limit_at_which_pods_would_go_for_ever_is_refused():
    text = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\npolicies: [{name: PodLifeTime, maxAge: 599s}]"
    with pytest.raises(
        ConfigurationError, match=r"3: policies\[0\].maxAge: is 599s \(must be at least 10m\)"
    ):
        parse_configuration(text, "c.yaml")


@pytest.mark.parametrize("name", ["TooManyRestarts", "PodLifeTime"])
def test_what_is_said_of_a_move_is_exact(name):
    args = {"require_healthy_replicas": False} if name == "TooManyRestarts" else {"max_age_s": HOUR_S}
    seen = 0
    for seed in range(12):
        rng = random.Random(seed)  # noqa: S311 - reproducible

        def drawn(_, rng=rng):
            age_s = rng.choice((60.0, 5 * HOUR_S))
            return {"restarts": rng.choice((0, 200)), "created_at_s": b.NOW_S - age_s}

        found = each(random_cluster(seed), drawn)
        judge, state = policy(name, **args), SchedulingState(found)
        view = PolicyView.of(found, state)
        pods = [pod for pod in found.pods.values() if pod.node]
        for pod, replacement in zip(pods[:5], reversed(pods), strict=False):
            before, change = judge.badness(view), judge.change(pod, replacement, view)
            for i, node in enumerate(state.node_names):
                if node == pod.node:
                    assert not change[:, i].any()
                    continue
                mark = state.checkpoint()
                state.remove(pod)
                state.place(replacement, node)
                assert (judge.badness(view) - before).tolist() == change[:, i].tolist()
                seen += bool(change[Tier.SOFT, i])
                state.rollback(mark)
    assert seen > 20


def test_one_pod_is_one():
    found = b.snapshot(b.node("n1"), *(r := b.replicaset("web"), r.pod("web-0").on("n1")))
    found = changed(found, web_0={"restarts": 500})
    judge = policy("TooManyRestarts", require_healthy_replicas=False)
    assert judge.badness(PolicyView.of(found, SchedulingState(found)))[Tier.SOFT] == ONE


def test_restarts_of_init_containers_count_by_choice(cluster, decide):
    found = changed(cluster, web_0={"restarts": 40, "init_restarts": 60}, web_1={"ready": True})
    assert not decide(found, "TooManyRestarts").moves
    (move,) = decide(found, ("TooManyRestarts", {"including_init_containers": True})).moves
    assert move.message == "restarted 100 times on node/n1"


def test_restarts_are_those_of_the_containers_and_tell_no_pods_apart():
    def pod(name, *counts):
        status = {
            "containerStatuses": [{"name": f"c{i}", "restartCount": n} for i, n in enumerate(counts)],
            "initContainerStatuses": [{"name": "init", "restartCount": 1000}],
        }
        spec = {"containers": [{"name": "c0"}, {"name": "c1"}]}
        return {"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec, "status": status}

    items = [pod("a", 3, 4), pod("b", 0, 0), pod("c"), pod("d", -5)]
    page = Decoder().page(Kind.POD, msgspec.json.encode({"kind": "PodList", "items": items}))
    assert [found.restarts for found in page.records] == [7, 0, 0, 0]
    assert [found.init_restarts for found in page.records] == [1000, 1000, 1000, 1000]
    first, second = page.records[:2]
    assert first.spec is second.spec
    assert first.held is second.held
