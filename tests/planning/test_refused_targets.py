"""A node that did not take a placeholder is no target for that workload until a back-off has passed, whichever policy plans."""

import dataclasses

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.model.migration import TARGET_REFUSED, MigrationPhase
from rescheduler.model.past_moves import PastMove, node_digest
from rescheduler.model.times import format_timestamp
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.past_moves import REFUSED_FIRST_S, REFUSED_LONGEST_S, PastMoves
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.planner import plan
from rescheduler.planning.single_pod import choose_target
from rescheduler.planning.targets import Targets
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.registry import REGISTRY
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState
from tests import records

POLICIES = ("NodeTaints", "NodeAffinity", "LowNodeUtilization", "HighNodeUtilization", "Defragmentation")
OLD = b.node("n1").taint("old")


def refusal(cluster, workload, node, *, ago_s=60.0, namespace="default"):
    """The end of a move whose pod is gone: nothing but its target counts."""
    uid = next(w.uid for w in cluster.workloads.values() if w.name == workload)
    ended_s = cluster.taken_at_s - ago_s
    return PastMove(
        begun_s=ended_s - 30, namespace=namespace, pod_uid="gone", workload_uid=uid, ended_s=ended_s, failed=True,
        refused_by=node_digest(node),
    )  # fmt: skip


def after(cluster, *moves):
    return dataclasses.replace(cluster, past_moves={f"m-{i}": move for i, move in enumerate(moves)})


@pytest.fixture
def cluster(app):
    return b.snapshot(OLD, b.node("n2").cpu("16"), b.node("n3"), app("web", ["n1"]), app("api", ["n1"]))


def test_the_workload_goes_elsewhere_and_others_are_not_concerned(cluster, decide, landings):
    assert landings(decide(cluster, "NodeTaints")) == {"web-0": "n2", "api-0": "n2"}
    refused = after(cluster, refusal(cluster, "web", "n2"))
    assert landings(decide(refused, "NodeTaints")) == {"web-0": "n3", "api-0": "n2"}


def test_where_no_other_node_would_do_the_plan_names_the_node_and_when_it_is_tried_again(cluster, decide):
    both = after(cluster, refusal(cluster, "web", "n2"), refusal(cluster, "web", "n3", ago_s=100.0))
    (skipped,) = (one for one in decide(both, "NodeTaints").skipped if one.pod.name == "web-0")
    assert (skipped.reason, skipped.blocked_by) == (SkipReason.BACKOFF, "n2, n3")
    assert "did not take the placeholder of an earlier move of its workload (n2, n3)" in skipped.message
    assert "the next try is in 500 s" in skipped.message


def test_equal_pods_of_two_workloads_are_not_alike_where_a_node_refused_one(cluster, decide, landings):
    """What is remembered of the pods of a class must not be told of those of another workload."""
    same = cluster.pods[next(key for key in cluster.pods if key.name == "web-0")]
    pods = {
        key: msgspec.structs.replace(pod, spec=same.spec, labels=same.labels)
        for key, pod in cluster.pods.items()
    }
    both = (refusal(cluster, "web", node) for node in ("n2", "n3"))
    alike = after(dataclasses.replace(cluster, pods=pods, workloads=with_one_template(cluster)), *both)
    assert landings(decide(alike, "NodeTaints")) == {"api-0": "n2"}
    state = SchedulingState(alike)
    kinds = Targets(Trial(alike, PolicyView.of(alike, state), set()))
    assert len({kinds.kind(pod, same) for pod in alike.pods.values()}) == 2


def with_one_template(cluster):
    web = next(w for w in cluster.workloads.values() if w.name == "web")
    one = {"template": web.template, "template_labels": web.template_labels, "selector": web.selector}
    return {uid: msgspec.structs.replace(w, **one) for uid, w in cluster.workloads.items()}


def test_a_refusal_of_another_namespace_says_nothing(cluster, decide, landings):
    foreign = after(cluster, refusal(cluster, "web", "n2", namespace="other"))
    assert landings(decide(foreign, "NodeTaints"))["web-0"] == "n2"


def test_a_podmigration_that_exists_counts_as_its_entry_does(cluster, decide, landings):
    move = refusal(cluster, "web", "n2")
    status = {
        "reason": TARGET_REFUSED,
        "node_name": "n2",
        "started_at_s": move.begun_s,
        "finished_at_s": move.ended_s,
    }
    web = next(pod for pod in cluster.pods.values() if pod.name == "web-0")
    migration = records.move("m", MigrationPhase.FAILED, pod_name="web-0", pod_uid="before", **status)
    found = dataclasses.replace(cluster, migrations={migration.key: migration})
    assert web.uid != "before", "its own back-off is not what is looked at"
    assert landings(decide(found, "NodeTaints"))["web-0"] == "n3"


def test_a_move_that_people_ask_for_takes_it_last(cluster):
    def choice(of):
        web = next(pod for pod in of.pods.values() if pod.name == "web-0")
        return choose_target(Replacements(of), SchedulingState(of), web).node

    assert choice(cluster) == "n2"
    assert choice(after(cluster, refusal(cluster, "web", "n2"))) == "n3"
    both = (refusal(cluster, "web", node) for node in ("n2", "n3"))
    assert choice(after(cluster, *both)) == "n2", "a person may insist"


@given(st.lists(st.floats(0, 5 * 3600), min_size=1, max_size=12))
def test_the_back_off_grows_with_each_refusal_and_ends(ago):
    now_s = 1_790_000_000.0
    moves = {
        str(i): PastMove(namespace="d", workload_uid="w", ended_s=now_s - a, failed=True, refused_by="n")
        for i, a in enumerate(ago)
    }
    until_s = PastMoves(moves, (), now_s).refused_until("d", "w").get("n", now_s)
    waits_s = min(REFUSED_LONGEST_S, REFUSED_FIRST_S * 2 ** (len(ago) - 1))
    assert until_s == pytest.approx(max(now_s, now_s - min(ago) + waits_s))


@st.composite
def clusters(draw):
    nodes = [
        b.node(f"n{i}").cpu("4").label(disk=draw(st.sampled_from("ab")))
        for i in range(draw(st.integers(2, 6)))
    ]
    objects = [one.taint("old") if draw(st.integers(0, 3)) == 0 else one for one in nodes]
    for number in range(draw(st.integers(1, 4))):
        owner = b.replicaset(f"app{number}").cpu(draw(st.sampled_from(["300m", "900m", "1900m"])))
        places = draw(st.lists(st.integers(0, len(nodes) - 1), min_size=1, max_size=4))
        objects.append(owner.replicas(len(places)))
        objects += [owner.pod(f"app{number}-{i}").on(f"n{place}") for i, place in enumerate(places)]
    found = b.snapshot(*objects)
    pairs = draw(
        st.sets(
            st.tuples(st.sampled_from(sorted(found.workloads)), st.sampled_from(sorted(found.nodes))),
            max_size=8,
        )
    )
    return after(found, *(refusal(found, found.workloads[uid].name, node) for uid, node in sorted(pairs)))


@given(clusters(), st.lists(st.sampled_from(POLICIES), min_size=1, max_size=3, unique=True), st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_planned_move_goes_to_a_node_that_refused_its_workload(cluster, policies, unlimited):
    chosen = [REGISTRY[name].build(REGISTRY[name].args()) for name in policies]
    made = plan(
        cluster, chosen, PlanningInputs(aggressiveness=1.0, unlimited=unlimited), SchedulingState(cluster)
    )
    closed = {(move.workload_uid, move.refused_by) for move in cluster.past_moves.values()}
    by_uid = {pod.uid: pod for pod in cluster.pods.values()}
    for move in made.moves:
        assert (cluster.workload_uid(by_uid[move.pod.uid]), node_digest(move.target)) not in closed


def not_taken(cluster, node, *, ago_s=60.0, namespace="default", reason="UnexpectedAdmissionError"):
    """The kubelet of the node did not take a pod of the namespace."""
    since = format_timestamp(cluster.taken_at_s - ago_s)
    made = b.pod("refused", namespace).on(node).phase("Failed").set("status.startTime", since)
    pod = made.set("status.reason", reason).build()
    return dataclasses.replace(cluster, pods={**cluster.pods, pod.key: pod})


def test_a_node_whose_kubelet_did_not_take_a_pod_is_no_target_for_its_namespace_for_a_while(
    cluster, decide, landings
):
    assert landings(decide(not_taken(cluster, "n2"), "NodeTaints")) == {"web-0": "n3", "api-0": "n3"}
    for other in (not_taken(cluster, "n2", ago_s=601.0), not_taken(cluster, "n2", namespace="shop")):
        assert landings(decide(other, "NodeTaints")) == {"web-0": "n2", "api-0": "n2"}


def test_the_plan_says_why_a_kubelet_keeps_a_node_closed(cluster, decide):
    nowhere = not_taken(
        dataclasses.replace(cluster, nodes={k: n for k, n in cluster.nodes.items() if k != "n3"}), "n2"
    )
    (skipped, _) = decide(nowhere, "NodeTaints").skipped
    assert (skipped.reason, skipped.blocked_by) == (SkipReason.BACKOFF, "n2")
    assert (
        "did not take a pod of namespace default (UnexpectedAdmissionError) (n2); the next try is in 540 s"
        in skipped.message
    )


def test_moves_that_people_ask_for_take_such_a_node_last(cluster):
    refused = not_taken(cluster, "n2")
    pod = next(pod for pod in refused.pods.values() if pod.name == "web-0")
    assert choose_target(Replacements(refused), SchedulingState(refused), pod).node == "n3"
