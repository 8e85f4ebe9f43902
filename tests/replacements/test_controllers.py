"""Which controllers replace an evicted pod: those of Kubernetes by their rules, others only where something shows it."""

import dataclasses

import pytest

from harness import builders as b
from rescheduler.model.records import ObjectKey
from rescheduler.model.replacement_rules import KindThere, ReplacementRules
from rescheduler.planning.limits import Protections
from rescheduler.planning.protections import Protector
from rescheduler.replacements.controllers import BUILT_IN, none_comes
from rescheduler.replacements.reasons import NoReplacement
from rescheduler.replacements.replacement import Replacements

WIDGET = ("example.com", "Widget")
SEEN = KindThere("default", *WIDGET)
LIVE = ReplacementRules(watched=BUILT_IN)
JOBS = ReplacementRules(jobs=True)
IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
FAIL_ON_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}


def cluster_of(*objects, rules):
    return dataclasses.replace(b.snapshot(b.node("n1"), b.node("n2"), *objects), replacement_rules=rules)


def answer(*objects, rules=LIVE, pod="x-0"):
    cluster = cluster_of(*objects, rules=rules)
    return Replacements(cluster).of(cluster.pods[ObjectKey("default", pod)])


def owned(kind, api_version):
    return b.pod("x-0").cpu("1").on("n1").owner(kind, "x", "x-uid", api_version)


# Controllers that Kubernetes does not have


@pytest.mark.parametrize(("rules", "why"), [
    (ReplacementRules(replacing=frozenset({WIDGET})), None),
    (ReplacementRules(seen=frozenset({SEEN})), None),
    (ReplacementRules(seen=frozenset({SEEN}), not_replacing=frozenset({WIDGET})), "replacements.notReplacing"),
    (ReplacementRules(seen=frozenset({SEEN._replace(namespace="other")}), watched=BUILT_IN), "was not seen"),
    (LIVE, "was not seen to replace a pod in namespace default"),
    (ReplacementRules(), "does not show whether it replaces its pods"),
])  # fmt: skip
def test_a_custom_controller_replaces_its_pods_only_where_something_shows_it(rules, why):
    found = answer(owned("Widget", "example.com/v1"), rules=rules)
    if why is None:
        assert found.pod is not None
        return
    assert (found.pod, found.reason) == (None, NoReplacement.CONTROLLER_NOT_KNOWN)
    assert found.message.startswith("belongs to Widget x (API group example.com), ")
    assert why in found.message


def test_the_message_has_the_entry_that_the_configuration_needs():
    found = answer(owned("Widget", "example.com/v1"))
    assert "{apiGroup: example.com, kind: Widget} to replacements.controllers" in found.message


@pytest.mark.parametrize(
    ("kind", "api_version"),
    [("ReplicaSet", "example.com/v1"), ("Job", "batch.volcano.sh/v1alpha1"), ("Deployment", "apps/v1")],
)
def test_a_kind_is_known_by_its_api_group_as_well(kind, api_version):
    rules = ReplacementRules(jobs=True, watched=BUILT_IN)
    assert answer(owned(kind, api_version), rules=rules).reason is NoReplacement.CONTROLLER_NOT_KNOWN


def test_what_the_configuration_excludes_stays_even_if_kubernetes_replaces_it():
    owner = b.replicaset("x")
    rules = ReplacementRules(not_replacing=frozenset({("apps", "ReplicaSet")}))
    assert answer(owner, owner.pod("x-0").on("n1"), rules=rules).reason is NoReplacement.CONTROLLER_NOT_KNOWN


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_pod_that_runs_to_its_end_stays_even_where_its_kind_replaces_others(policy):
    """A worker of a training job: evicted, it is a failed worker."""
    worker = owned("Widget", "example.com/v1").set("spec.restartPolicy", policy)
    found = answer(worker, rules=ReplacementRules(seen=frozenset({SEEN}), watched=BUILT_IN))
    assert found.reason is NoReplacement.RUNS_TO_ITS_END
    assert "replacements.controllers" in found.message
    assert answer(worker, rules=ReplacementRules(replacing=frozenset({WIDGET}))).pod is not None


@pytest.mark.parametrize("rules", [LIVE, ReplacementRules(replacing=frozenset({("apps", "Deployment")}))])
def test_a_pod_that_names_a_deployment_as_its_controller_is_none_of_it(rules):
    """Native Flink: the JobManager's Deployment is the owner of TaskManagers that another program makes."""
    above = b.deployment("x").replicas(1)
    found = answer(above, b.pod("x-0").on("n1").owned_by(above), rules=rules)
    assert (found.pod, found.reason) == (None, NoReplacement.CONTROLLER_NOT_KNOWN)
    assert "creates no pods" in found.message


def test_a_pod_whose_name_its_statefulset_does_not_give_is_not_replaced():
    owner = b.statefulset("x").replicas(1)
    assert answer(owner, owner.pod("x-helper").on("n1"), pod="x-helper").reason is NoReplacement.RELEASED
    assert answer(owner, owner.pod("y-0").on("n1"), pod="y-0").reason is NoReplacement.RELEASED


@pytest.mark.parametrize(("owner", "finalizers", "reason"), [
    (b.statefulset("x"), ["example.com/data"], NoReplacement.NAME_KEPT),
    (b.statefulset("x"), ["foregroundDeletion"], None),
    (b.replicaset("x"), ["example.com/data"], None),
], ids=["of a StatefulSet", "of Kubernetes", "of a ReplicaSet"])  # fmt: skip
def test_a_pod_stays_whose_finalizers_keep_the_name_that_its_replacement_needs(owner, finalizers, reason):
    owner = owner.replicas(1)
    pod = owner.pod("x-0").on("n1").set("metadata.finalizers", finalizers)
    found = answer(owner, pod)
    assert found.reason is reason
    assert reason is None or "finalizers off (example.com/data)" in found.message


# Pods that stand and fall with others


def owned_by_pod(builder, name):
    ref = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"pod-default-{name}", "controller": True}
    return builder.set("metadata.ownerReferences", [ref])


def test_a_pod_that_owns_others_stays_and_the_next_one_moves():
    leaders, workers = b.statefulset("x").replicas(2), owned_by_pod(b.statefulset("x-0-w").replicas(1), "x-0")
    pods = [leaders.pod(f"x-{number}").on("n1") for number in range(2)]
    found = answer(leaders, workers, *pods)
    assert found.reason is NoReplacement.OWNS_OBJECTS
    assert found.message == "owns StatefulSet default/x-0-w, which the garbage collector deletes with it"
    assert answer(leaders, workers, *pods, pod="x-1").pod is not None


def test_pods_below_a_pod_stay():
    leader, workers = b.pod("lead").on("n1"), owned_by_pod(b.deployment("w").replicas(1), "lead")
    below = b.replicaset("x").replicas(1).owned_by(workers)
    found = answer(leader, workers, below, below.pod("x-0").on("n1"))
    assert found.reason is NoReplacement.OWNED_BY_POD
    assert "Deployment default/w, which is owned by pod default/lead" in found.message
    assert answer(leader, owned_by_pod(b.pod("x-0").on("n1"), "lead")).reason is NoReplacement.OWNED_BY_POD


def test_a_pod_of_a_group_that_restarts_as_a_whole_stays():
    owner = b.statefulset("x").replicas(1)
    found = answer(owner, owner.pod("x-0").on("n1").label({"leaderworkerset.sigs.k8s.io/name": "llm"}))
    assert found.reason is NoReplacement.GROUP
    assert "llm" in found.message


# Controllers of Kubernetes that are about to do something else


def test_a_controller_that_is_gone_replaces_nothing():
    pod = b.replicaset("x").pod("x-0").on("n1")
    assert answer(pod).reason is NoReplacement.CONTROLLER_GONE
    assert answer(pod, rules=ReplacementRules()).pod is not None  # a dump may lack controllers


@pytest.mark.parametrize(("change", "reason"), [
    (lambda owner: owner, None),
    (lambda owner: owner.deleting(), NoReplacement.CONTROLLER_GONE),
    (lambda owner: owner.replicas(0), NoReplacement.SURPLUS),
    (lambda owner: owner.set("spec.selector", {"matchLabels": {"app": "y"}}), NoReplacement.RELEASED),
])  # fmt: skip
@pytest.mark.parametrize("make", [b.replicaset, b.statefulset])
def test_a_controller_that_removes_pods_or_releases_this_one_replaces_nothing(make, change, reason):
    owner = make("x").replicas(1)
    found = answer(change(owner), owner.pod("x-0").on("n1"))
    assert (found.reason, found.pod is None) == (reason, reason is not None)


def test_the_replicaset_of_a_deployment_that_was_deleted_replaces_nothing():
    """The garbage collector has not deleted it yet."""
    above = b.deployment("web").replicas(1)
    owner = b.replicaset("x").replicas(1).owned_by(above)
    pod = owner.pod("x-0").on("n1")
    assert answer(above, owner, pod).reason is None
    assert answer(owner, pod).reason is NoReplacement.CONTROLLER_GONE
    assert answer(above.deleting(), owner, pod).reason is NoReplacement.CONTROLLER_GONE
    assert answer(owner, pod, rules=ReplacementRules()).reason is None


@pytest.mark.parametrize(("more", "reason"), [(0, None), (1, NoReplacement.MAY_BE_REMOVED)])
def test_a_pod_more_than_replicas_is_not_replaced(more, reason):
    owner = b.replicaset("x").replicas(2)
    pods = [owner.pod(f"x-{i}").on("n1") for i in range(2 + more)]
    ending = [owner.pod("x-8").on("n1").deleting(), owner.pod("x-9").on("n1").phase("Failed")]
    assert answer(owner, *pods, *ending).reason is reason


@pytest.mark.parametrize(("ordinal", "reason"), [(4, None), (5, NoReplacement.SURPLUS)])
def test_of_a_statefulset_the_highest_numbers_go(ordinal, reason):
    owner = b.statefulset("x").replicas(2).set("spec.ordinals", {"start": 3})
    assert answer(owner, owner.pod(f"x-{ordinal}").on("n1"), pod=f"x-{ordinal}").reason is reason


@pytest.mark.parametrize(("make", "change", "reason"), [
    (b.replicaset, lambda owner: owner.set("spec.selector", {"matchLabels": {"a": "b"}}), "WorkloadBusy"),
    (b.job, lambda owner: owner, "NotSupported"),
])  # fmt: skip
def test_the_planner_tells_what_passes_from_what_stays(make, change, reason):
    owner = make("x")
    cluster = cluster_of(change(owner), owner.pod("x-0").on("n1"), rules=LIVE)
    (pod,) = cluster.pods.values()
    refusal = Protector(Replacements(cluster), Protections(), covered=lambda _: True).refusal(pod)
    assert str(refusal.reason) == reason


# Jobs


def job(*rules, **spec):
    found = b.job("x")
    if rules:
        found = found.set("spec.podFailurePolicy", {"rules": list(rules)})
    for key, value in spec.items():
        found = found.set(f"spec.{key}", value)
    return found


def of_job(owner, rules=JOBS):
    return answer(owner, owner.pod("x-0").on("n1"), rules=rules)


def test_pods_of_jobs_move_by_choice_only():
    found = of_job(job(IGNORE), rules=LIVE)
    assert (found.pod, found.reason) == (None, NoReplacement.JOB)
    assert "replacements.jobs: true" in found.message
    assert of_job(job(IGNORE)).pod is not None


@pytest.mark.parametrize(("rules", "counts"), [
    ((), True),
    ((IGNORE,), False),
    ((IGNORE, FAIL_ON_42), False),
    ((FAIL_ON_42, IGNORE), True),
    (({"action": "FailIndex", "onPodConditions": IGNORE["onPodConditions"]}, IGNORE), True),
    (({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}, IGNORE), False),
    (({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [143]}},), True),
    (({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},), False),
    (({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]},), True),
    (({"action": "Ignore", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]},), True),
])  # fmt: skip
def test_only_a_job_that_ignores_disruptions_first_of_all_replaces_a_pod_for_nothing(rules, counts):
    found = of_job(job(*rules))
    assert found.reason is (NoReplacement.JOB_COUNTS_DISRUPTION if counts else None)
    assert not counts or "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}" in found.message


@pytest.mark.parametrize(("spec", "status", "why"), [
    ({"suspend": True}, {}, "is suspended"),
    ({}, {"conditions": [{"type": "FailureTarget", "status": "True"}]}, "FailureTarget"),
    ({}, {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}, "SuccessCriteriaMet"),
    ({}, {"conditions": [{"type": "Complete", "status": "False"}]}, ""),
    ({"activeDeadlineSeconds": 60}, {"startTime": "2020-01-01T00:00:00Z"}, "activeDeadlineSeconds"),
    ({"activeDeadlineSeconds": 60}, {"startTime": "2199-01-01T00:00:00Z"}, ""),
    ({"activeDeadlineSeconds": 60}, {}, ""),
    ({}, {"succeeded": 1}, "one has succeeded"),
    ({"completions": 3}, {"succeeded": 1}, ""),
])  # fmt: skip
def test_a_job_that_ends_replaces_nothing(spec, status, why):
    found = of_job(job(IGNORE, **spec).set("status", status))
    assert found.reason is (NoReplacement.JOB_ENDS if why else None)
    assert why in found.message


@pytest.mark.parametrize(("succeeded", "reason"), [(1, None), (2, NoReplacement.MAY_BE_REMOVED)])
def test_a_job_wants_no_more_pods_than_have_still_to_succeed(succeeded, reason):
    owner = job(IGNORE, completions=3, parallelism=2).set("status", {"succeeded": succeeded})
    assert answer(owner, *(owner.pod(f"x-{i}").on("n1") for i in range(2)), rules=JOBS).reason is reason


def test_a_job_of_another_controller_is_not_known():
    found = of_job(job(IGNORE, managedBy="kueue.x-k8s.io/multikueue"))
    assert found.reason is NoReplacement.CONTROLLER_NOT_KNOWN
    assert "kueue.x-k8s.io/multikueue" in found.message
    assert of_job(job(IGNORE, managedBy="kubernetes.io/job-controller")).pod is not None


def test_a_job_that_was_not_read_is_taken_for_one_that_counts():
    assert answer(b.job("x").pod("x-0").on("n1"), rules=JOBS).reason is NoReplacement.JOB_COUNTS_DISRUPTION


def test_the_replacement_of_an_indexed_job_has_the_same_index():
    owner = job(IGNORE, completionMode="Indexed", completions=3)
    index = {"batch.kubernetes.io/job-completion-index": "2"}
    found = answer(owner, owner.pod("x-0").label(index).on("n1"), rules=JOBS)
    assert found.pod.labels.get("batch.kubernetes.io/job-completion-index") == "2"
    assert found.pod.name != "x-0"


# After the eviction


@pytest.mark.parametrize(("change", "word"), [
    (lambda owner: None, "does not exist any more"),
    (lambda owner: owner.deleting(), "is being deleted"),
    (lambda owner: owner.set("status", {"conditions": [{"type": "Failed", "status": "True"}]}), "Failed"),
    (lambda owner: owner, ""),
])  # fmt: skip
def test_it_is_known_when_no_more_pods_come(change, word):
    owner = job(IGNORE)
    cluster = cluster_of(owner, owner.pod("x-0").on("n1"), rules=LIVE)
    ref = cluster.pods[ObjectKey("default", "x-0")].controller
    now = change(owner)
    workloads = cluster_of(*([] if now is None else [now]), rules=LIVE).workloads
    message = none_comes(ref, workloads.get(ref.uid), "x-0", LIVE, 0.0)
    assert (word in message) if word else message == ""


@pytest.mark.parametrize(("kind", "replicas", "start", "why"), [
    (b.replicaset, 0, 0, "ReplicaSet default/x is scaled to 0, so no replacement comes"),
    (b.replicaset, 1, 0, ""),
    (b.statefulset, 0, 0, "StatefulSet default/x is scaled to 0, so no replacement comes"),
    (b.statefulset, 3, 0, ""),
    (b.statefulset, 2, 0, "StatefulSet default/x is scaled to 2, and x-2 is none of these pods any more, so no replacement comes"),
    (b.statefulset, 2, 2, ""),
    (b.statefulset, 2, 3, "StatefulSet default/x is scaled to 2, and x-2 is none of these pods any more, so no replacement comes"),
])  # fmt: skip
def test_a_controller_that_is_scaled_down_brings_back_no_pod_that_it_does_not_want(
    kind, replicas, start, why
):
    owner = kind("x").replicas(3)
    cluster = cluster_of(owner, owner.pod("x-2").on("n1"), rules=LIVE)
    ref = cluster.pods[ObjectKey("default", "x-2")].controller
    scaled = owner.replicas(replicas).set("spec.ordinals", {"start": start})
    workloads = cluster_of(scaled, rules=LIVE).workloads
    assert none_comes(ref, workloads.get(ref.uid), "x-2", LIVE, 0.0) == why
