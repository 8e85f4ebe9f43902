"""The guard of one replica: what API servers are answered, what is filed and told, and that it never stands in the way."""

import time

import msgspec
import pytest

from harness import builders as b
from rescheduler.guard.asks import UNCONFIRMED_S
from rescheduler.guard.decision import BUDGET_FREES_S, CATCHES_UP_S, SILENCE_S
from rescheduler.guard.guard import user_of
from rescheduler.guard.settings import GuardSettings
from rescheduler.kube.errors import ForbiddenError
from rescheduler.kube.transport import TransportError
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.names import GUARD, LABEL_GUARD
from rescheduler.model.records import Namespace, Node, ObjectKey, PodPhase
from rescheduler.model.selectors import LabelSelector, LabelSet
from rescheduler.webhook.review import UnreadableReviewError

from .one_guard import OWN, Cluster, asks_for, verbs


@pytest.fixture
def cluster():
    return Cluster()


def test_the_answer_is_a_429_as_of_the_api_server_itself(cluster):
    cluster.pod()
    answer = cluster.ask()
    assert answer["allowed"] is False
    status = answer["status"]
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["details"]["retryAfterSeconds"] > 0
    assert status["message"].startswith("pod shop/web-1: ")


def test_the_answer_sends_nothing(cluster):
    cluster.pod()
    cluster.ask()
    assert cluster.calls == []


def test_the_next_pass_makes_one_move_in_the_name_of_the_caller(cluster):
    pod = cluster.pod()
    for _ in range(3):
        cluster.ask(user="system:serviceaccount:karpenter:karpenter")
        cluster.look_again()
    ((verb, path, body),) = cluster.calls
    assert (verb, path) == ("create", "/apis/rescheduler.dev/v1alpha1/namespaces/shop/podmigrations")
    assert body["spec"]["podRef"] == {"name": "web-1", "uid": pod.uid}
    assert body["spec"]["requestedBy"] == "system:serviceaccount:karpenter:karpenter"
    assert body["spec"]["policy"] == GUARD
    assert "target" not in body["spec"]
    assert "labels" not in body["metadata"]
    (moved,) = cluster.objects[Kind.POD_MIGRATION].values()
    assert moved.requested
    assert moved.by == "eviction by system:serviceaccount:karpenter:karpenter"


@pytest.mark.parametrize("grace", [5, -1, 0, 2**62])
def test_the_grace_period_is_that_of_the_caller(cluster, grace):
    """What the API server refuses of it, it refuses of the PodMigration as well, and then the eviction goes on."""
    cluster.pod()
    cluster.ask(object={"deleteOptions": {"gracePeriodSeconds": grace}})
    cluster.look_again()
    ((_, _, body),) = cluster.calls
    assert body["spec"]["deleteOptions"] == {"gracePeriodSeconds": grace}


@pytest.mark.parametrize("request_", [
    {"dryRun": True},
    {"object": {"deleteOptions": {"dryRun": ["All"]}}},
    {"userInfo": {"username": OWN}},
    {"object": {"deleteOptions": {"preconditions": {"uid": "of another pod"}}}},
    {"object": {"deleteOptions": {"preconditions": {"resourceVersion": "of yesterday"}}}},
    {"name": "not-there"},
    {"namespace": "elsewhere"},
], ids=str)  # fmt: skip
def test_these_start_nothing(cluster, request_):
    cluster.pod()
    cluster.pod(namespace="elsewhere")
    assert cluster.ask(**request_)["allowed"] is True
    cluster.look_again()
    assert cluster.calls == []


@pytest.mark.parametrize("pod", [
    b.pod("x", namespace="shop").on("node-1").build(),
    b.pod("x", namespace="shop").on("node-1").owner("DaemonSet", "ds", "u-ds", "apps/v1").build(),
    b.pod("x", namespace="shop").on("node-1").owner("Node", "node-1", "u-n", "v1").build(),
    b.pod("x", namespace="shop").on("node-1").owner("Job", "j", "u-j", "batch/v1").build(),
    b.pod("x", namespace="shop").on("node-1").owner("Rollout", "r", "u-r", "argoproj.io/v1alpha1").build(),
    b.pod("x", namespace="shop").on("node-1").owner("ReplicaSet", "w", "u-w", "apps/v1").annotate({"rescheduler.dev/evict": "false"}).build(),
    b.pod("x", namespace="shop").on("node-1").owner("ReplicaSet", "w", "u-w",
        "apps/v1").annotate({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}).build(),
], ids=["bare", "DaemonSet", "static", "Job", "foreign controller", "evict: false", "safe-to-evict: false"])  # fmt: skip
def test_pods_that_are_not_moved_are_let_through_at_once(cluster, pod):
    cluster.objects[Kind.POD][pod.key] = pod
    assert cluster.ask("x") == {"uid": "q", "allowed": True}


@pytest.mark.parametrize(("name", "labels", "selector", "waits"), [
    ("shop", {LABEL_GUARD: "enabled"}, None, True),
    ("shop", {LABEL_GUARD: "no"}, None, False),
    ("shop", {}, None, False),
    ("shop", {}, LabelSelector(), True),
    ("kube-system", {LABEL_GUARD: "enabled"}, LabelSelector(), False),
    ("rescheduler", {LABEL_GUARD: "enabled"}, LabelSelector(), False),
])  # fmt: skip
def test_which_namespaces_are_guarded(cluster, name, labels, selector, waits):
    """The same for questions of API servers and for pods of cordoned nodes."""
    chosen = {} if selector is None else {"namespace_selector": selector}
    cluster.settings = GuardSettings(follow_cordons=True, **chosen)
    cluster.objects[Kind.NAMESPACE][name] = Namespace(name, LabelSet(labels))
    cluster.objects[Kind.NODE]["node-1"] = Node(name="node-1", unschedulable=True)
    cluster.pod(namespace=name)
    assert cluster.ask(namespace=name)["allowed"] is not waits
    cluster.look_again()
    assert len(cluster.filer.asks) == waits


def test_the_cordon_of_a_node_that_this_controller_empties_is_no_request(cluster):
    cluster.settings = GuardSettings(follow_cordons=True)
    cluster.pod()
    noted = KeptEmpty(Hold.CORDONED, 2e9)
    cluster.objects[Kind.NODE]["node-1"] = Node(name="node-1", unschedulable=True, kept_empty=noted)
    cluster.look_again()
    assert len(cluster.filer.asks) == 0


def test_until_the_caches_are_complete_everything_is_let_through():
    cluster = Cluster()
    cluster.ready = False
    cluster.filer._fresh_at_s = float("-inf")
    cluster.pod()
    cluster.look_again()
    assert cluster.ask()["allowed"] is True
    cluster.ready = True
    cluster.look_again()
    assert cluster.ask()["allowed"] is False


def test_a_thread_that_does_not_look_any_more_lets_everything_through(cluster, monkeypatch):
    cluster.pod()
    at_s = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: at_s)
    assert cluster.ask()["allowed"] is False
    at_s += CATCHES_UP_S
    assert cluster.ask()["allowed"] is True


def test_a_drain_goes_on_with_room_after_an_outage_of_the_api_server(cluster, monkeypatch):
    """Its questions arrive before the controller has read the cluster again, however long the outage was."""
    cluster.pod()
    for _ in range(2):
        cluster.ready = False
        at_s = time.monotonic() + 300
        for _ in range(3):
            monkeypatch.setattr(time, "monotonic", lambda at_s=at_s: at_s)
            answer = cluster.ask()
            assert answer["allowed"] is False
            assert "reading the cluster again" in answer["status"]["message"]
            at_s += 8
        cluster.ready = True
        cluster.look_again()
        assert "reading" not in cluster.ask()["status"]["message"]
    assert verbs(cluster) == ["create"]


def test_a_refused_move_lets_the_eviction_through_with_the_reason(cluster):
    cluster.pod()
    cluster.fault = ForbiddenError(403, "Forbidden", "exceeded quota: moves")
    cluster.ask()
    cluster.look_again()
    answer = cluster.ask()
    assert answer["allowed"] is True
    assert "exceeded quota" in answer["warnings"][0]


def test_no_answer_of_the_api_server_is_tried_again(cluster):
    cluster.pod()
    cluster.fault = TransportError("refused")
    cluster.ask()
    cluster.look_again()
    cluster.fault, cluster.now_s = None, cluster.now_s + 15
    assert cluster.ask()["allowed"] is False
    cluster.look_again()
    assert [call[0] for call in cluster.calls] == ["create", "create"]


def test_without_room_pod_and_node_are_told(cluster):
    cluster.pod()
    cluster.ask()
    assert [event.reason for event in cluster.told] == ["EvictionWaits"]
    for _ in range(10):
        cluster.now_s += 30
        cluster.ask()
    assert cluster.ask()["warnings"]
    found = {
        (event.regarding.kind, event.warning)
        for event in cluster.told
        if event.reason == "EvictedWithoutRoom"
    }
    assert found == {("Pod", True), ("Node", True)}
    assert all("kubectl evicts pod shop/web-1 from node/node-1" in event.message for event in cluster.told)


def test_what_nobody_asks_for_any_more_is_forgotten(cluster):
    cluster.pod()
    cluster.ask()
    cluster.now_s += SILENCE_S
    cluster.look_again()
    assert len(cluster.filer.asks) == 0
    assert cluster.calls == []


def test_a_pod_that_is_gone_is_forgotten(cluster):
    pod = cluster.pod()
    cluster.ask()
    del cluster.objects[Kind.POD][pod.key]
    cluster.look_again()
    assert len(cluster.filer.asks) == 0


def test_a_cordon_asks_for_the_pods_of_its_node_where_that_is_chosen(cluster):
    cluster.pod()
    cluster.objects[Kind.NODE]["node-1"] = Node(name="node-1", unschedulable=True)
    cluster.look_again()
    assert cluster.calls == []
    cluster.settings = GuardSettings(follow_cordons=True)
    cluster.look_again()
    cluster.look_again()
    ((_, _, body),) = cluster.calls
    assert body["spec"]["requestedBy"] == "cordon of node/node-1"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"request": 1}', b"\xff"])
def test_what_is_no_review_is_refused_as_such(cluster, body):
    with pytest.raises(UnreadableReviewError):
        cluster.guard.respond(body)


def test_who_asks_by_name_alone_hears_that_his_pod_is_gone_and_moves_no_successor(cluster):
    """Of a StatefulSet the successor has the same name, and kubectl drain asks without the uid."""
    cluster.pod(uid="old")
    cluster.objects[Kind.NODE]["node-2"] = Node(name="node-2")
    assert cluster.ask()["status"]["code"] == 429
    cluster.pod(uid="new", node="node-2")
    assert cluster.ask(user="somebody else")["status"]["code"] == 429
    gone = cluster.ask()["status"]
    assert (gone["code"], gone["reason"]) == (404, "NotFound")
    assert cluster.ask()["status"]["code"] == 429, "what he asks for after that he means"


DESCHEDULER = {
    "user": "descheduler",
    "object": {"metadata": {"annotations": {"requested-by": "sigs.k8s.io/descheduler"}}},
}


def created(cluster):
    return [body["spec"]["podRef"]["name"] for verb, _, body in cluster.calls if verb == "create"]


def test_a_descheduler_that_does_not_know_yet_what_became_of_one_pod_starts_no_second_move(cluster):
    for name in ("web-1", "web-2"):
        cluster.pod(name, uid=name)
    first, second = (cluster.ask(name, **DESCHEDULER) for name in ("web-1", "web-2"))
    assert first["status"]["details"]["retryAfterSeconds"] == 1
    assert "retryAfterSeconds" not in second["status"]["details"]
    cluster.look_again()
    cluster.pod("web-1", uid="web-1", deleting=True)
    cluster.look_again()
    assert created(cluster) == ["web-1"]
    assert cluster.ask("web-1", **DESCHEDULER)["allowed"], "the API server answers that it is evicted"
    cluster.ask("web-2", **DESCHEDULER)
    cluster.look_again()
    assert created(cluster) == ["web-1", "web-2"]


def test_a_descheduler_whose_pod_vanished_goes_on_in_its_next_round(cluster):
    gone = cluster.pod("web-1", uid="web-1")
    cluster.pod("web-2", uid="web-2")
    cluster.ask("web-1", **DESCHEDULER)
    cluster.look_again()
    del cluster.objects[Kind.POD][gone.key]
    cluster.now_s += UNCONFIRMED_S - 5
    assert not cluster.ask("web-2", **DESCHEDULER)["allowed"]
    cluster.look_again()
    cluster.now_s += 5
    cluster.ask("web-2", **DESCHEDULER)
    cluster.look_again()
    assert created(cluster) == ["web-1", "web-2"]


def test_a_pod_that_had_no_turn_for_longer_than_the_limit_is_moved_when_it_has_one_and_not_let_through(
    cluster,
):
    """A descheduler with a short cycle asks for it again and again, while others go first."""
    for minute in range(8):
        first = cluster.pod(f"web-{minute}", uid=f"web-{minute}")
        cluster.pod("last", uid="last")
        for name in (first.name, "last"):
            assert not cluster.ask(name, **DESCHEDULER)["allowed"]
        cluster.look_again()
        del cluster.objects[Kind.POD][first.key]
        cluster.now_s += 60.0
    assert "last" not in created(cluster)
    assert not cluster.ask("last", **DESCHEDULER)["allowed"]
    cluster.look_again()
    assert created(cluster)[-1] == "last"


def test_the_limit_does_not_run_while_the_budget_of_a_pod_with_room_is_used_up(cluster):
    """A drain of pods that start slowly, one at a time: its last ones would go without the room that is held for them."""
    budget = b.pdb("web", namespace="shop").build()
    cluster.objects[Kind.POD_DISRUPTION_BUDGET][budget.key] = budget
    cluster.pod(labels=LabelSet({"app": "web"}), ready=True)
    asks_for(cluster, 20)
    cluster.is_at(MigrationPhase.EVICTING, reason="DisruptionBudget")
    assert not asks_for(cluster, 3 * cluster.settings.limit_s)["allowed"]
    cluster.objects[Kind.POD_DISRUPTION_BUDGET][budget.key] = b.pdb("web", "shop").allows(1).build()
    freed_s = cluster.now_s
    assert asks_for(cluster, 600)["allowed"], "nobody leads, so nobody evicts: others may"
    assert cluster.now_s - freed_s == pytest.approx(BUDGET_FREES_S, abs=6)


def test_the_limit_counts_where_the_budget_is_of_other_pods(cluster):
    """What the move says alone is not believed."""
    for budget in (b.pdb("api", "shop").build(), b.pdb("web", "elsewhere").build()):
        cluster.objects[Kind.POD_DISRUPTION_BUDGET][budget.key] = budget
    cluster.pod(labels=LabelSet({"app": "web"}), ready=True)
    asks_for(cluster, 20)
    cluster.is_at(MigrationPhase.EVICTING, reason="DisruptionBudget")
    assert asks_for(cluster, cluster.settings.limit_s)["allowed"]


@pytest.mark.parametrize("who", ["another caller", "a descheduler that empties a cordoned node"])
def test_nobody_else_waits_for_his_first_pod(cluster, who):
    node, asks = b.node("node-1").build(), {}
    if who.startswith("a descheduler"):
        node, asks = msgspec.structs.replace(node, unschedulable=True), DESCHEDULER
    cluster.objects[Kind.NODE][node.name] = node
    for name in ("web-1", "web-2"):
        cluster.pod(name, uid=name)
        cluster.ask(name, **asks)
    cluster.look_again()
    assert sorted(created(cluster)) == ["web-1", "web-2"]


def test_a_successor_that_has_no_node_yet_is_not_evicted_by_the_name_that_it_has(cluster):
    """It waits for its room, and an eviction deletes what runs nowhere without a look at budgets."""
    cluster.pod("db-0", uid="first")
    cluster.ask("db-0")
    cluster.pod("db-0", uid="second", node="", phase=PodPhase.PENDING)
    answer = cluster.ask("db-0")
    assert not answer["allowed"]
    assert answer["status"]["code"] == 404
    assert cluster.ask("db-0")["allowed"], "what he asks for next he means"


def test_a_successor_whose_node_is_drained_as_well_is_moved(cluster):
    cluster.pod(uid="old")
    assert cluster.ask()["status"]["code"] == 429
    cluster.objects[Kind.NODE]["node-2"] = Node(name="node-2", unschedulable=True)
    cluster.pod(uid="new", node="node-2")
    assert cluster.ask()["status"]["code"] == 429


def test_hostile_names_stay_texts_and_short(cluster):
    cluster.pod()
    answer = cluster.ask(user="x" * 100_000 + "\n\x1b[31m")
    assert answer["allowed"] is False
    cluster.look_again()
    ((_, _, body),) = cluster.calls
    assert len(body["spec"]["requestedBy"]) <= 256


def test_an_answer_takes_less_than_a_hundredth_of_a_second(cluster):
    """In the mean, on a busy machine as well."""
    pod = cluster.pod()
    for n in range(1_000):
        one = msgspec.structs.replace(pod, name=f"web-{n}", uid=f"uid-{n}")
        cluster.objects[Kind.POD][one.key] = one
    cluster.look_again()
    begun_s = time.process_time()
    for n in range(1_000):
        assert cluster.ask(f"web-{n}")["allowed"] is False
    assert (time.process_time() - begun_s) / 1_000 < 0.01


def test_who_it_is_is_asked_of_the_api_server():
    class Api:
        def create(self, path, body):
            return b'{"status": {"userInfo": {"username": "me"}}}'

    class Deaf:
        def create(self, path, body):
            raise TransportError("refused")

    assert user_of(Api()) == "me"
    assert user_of(Deaf(), "elsewhere") == "system:serviceaccount:elsewhere:rescheduler"


def test_the_key_of_a_move_is_found_by_its_pod(cluster):
    cluster.pod()
    cluster.ask()
    cluster.look_again()
    assert all(isinstance(key, ObjectKey) for key in cluster.objects[Kind.POD_MIGRATION])
