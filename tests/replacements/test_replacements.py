"""The pod that comes back is the one that its controller would create now, or there is a reason why none does."""

import dataclasses

import pytest

from harness import builders as b
from rescheduler.model.names import ANNOTATION_HANDOVER_TAINT, GATE
from rescheduler.model.records import ObjectKey, Toleration
from rescheduler.model.replacement_rules import AdmittedPod, ReplacementRules, TemplateKey
from rescheduler.model.selectors import LabelSet
from rescheduler.replacements.reasons import NoReplacement
from rescheduler.replacements.replacement import Replacements
from rescheduler.replacements.templates import ReplacementSource

REVISION = "controller-revision-hash"
NODES = (b.node("n1"), b.node("n2"))


def comes_back(name, *objects, rules=None, admitted=None):
    cluster = b.snapshot(*NODES, *objects)
    changes = {"replacement_rules": rules or ReplacementRules(), "admitted": admitted or {}}
    cluster = dataclasses.replace(cluster, **changes)
    return Replacements(cluster).of(cluster.pods[ObjectKey("default", name)])


def created(pod, minute):
    return pod.set("metadata.creationTimestamp", f"2026-01-01T00:{minute:02d}:00Z")


def keys(found):
    return {toleration.key for toleration in found.pod.spec.tolerations}


# StatefulSets


def db(*, partition=None, strategy="RollingUpdate", current_replicas=0, start=0):
    """Revision ``old`` asked for 1 CPU, revision ``new`` asks for 3."""
    owner = b.statefulset("db").cpu("3").replicas(9).template_label(app="db", track="new")
    owner = owner.set("spec.selector", {"matchLabels": {"app": "db"}})
    owner = owner.set("spec.updateStrategy.type", strategy).set("spec.ordinals", {"start": start})
    if partition is not None:
        owner = owner.set("spec.updateStrategy.rollingUpdate", {"partition": partition})
    status = {"currentRevision": "old", "updateRevision": "new", "currentReplicas": current_replicas}
    return owner.set("status", status)


def of_revision(owner, name, revision):
    small = owner.cpu("1").pod(name).label({"track": "old"})
    return (owner.pod(name) if revision == "new" else small).label({REVISION: revision}).on("n1")


@pytest.mark.parametrize(("fields", "ordinal", "revision"), [
    ({"partition": 2}, 1, "old"),
    ({"partition": 2}, 2, "new"),
    ({"partition": 2, "start": 5}, 6, "old"),
    ({"partition": 2, "start": 5}, 7, "new"),
    ({"partition": 0}, 0, "new"),
    ({"strategy": "OnDelete", "current_replicas": 3}, 0, "new"),
    ({"current_replicas": 2}, 1, "old"),
    ({"current_replicas": 2}, 2, "new"),
])  # fmt: skip
def test_the_partition_decides_from_which_revision_a_pod_comes_back(fields, ordinal, revision):
    owner = db(**fields)
    found = comes_back(f"db-{ordinal}", owner, of_revision(owner, f"db-{ordinal}", "old"))
    assert found.revision == revision
    assert found.pod.name == f"db-{ordinal}"
    assert found.pod.labels["track"] == revision
    assert found.pod.spec.requests.cpu_milli == (1000 if revision == "old" else 3000)


def test_below_the_partition_a_pod_of_the_new_revision_comes_back_as_its_siblings_of_the_old_one():
    owner = db(partition=3)
    found = comes_back("db-0", owner, of_revision(owner, "db-0", "new"), of_revision(owner, "db-1", "old"))
    assert (found.revision, found.source) == ("old", ReplacementSource.SIBLING)
    assert found.pod.labels["track"] == "old"
    assert "db-1" in found.origin


def test_a_pod_resized_in_place_comes_back_as_large_as_any_of_its_revision():
    """Its template is not known, and the resized one may be the newest."""
    owner = db(partition=3)
    resized = owner.cpu("10m").pod("db-2").label({REVISION: "old"}).on("n1")
    found = comes_back("db-2", owner, resized, of_revision(owner, "db-1", "old"))
    assert (found.revision, found.pod.spec.requests.cpu_milli) == ("old", 1000)


def test_a_revision_of_which_no_pod_is_left_is_not_guessed():
    owner = db(partition=3)
    found = comes_back("db-0", owner, of_revision(owner, "db-0", "new"))
    assert (found.pod, found.reason) == (None, NoReplacement.REVISION_NOT_KNOWN)
    assert "revision old of its StatefulSet default/db" in found.message


def test_each_pod_of_a_stateful_set_keeps_its_own_claims_name_and_number():
    owner = b.statefulset("db").replicas(2).claim("data-db-0")
    own = {"statefulset.kubernetes.io/pod-name": "db-1", "apps.kubernetes.io/pod-index": "1", "left": "over"}
    found = comes_back("db-1", owner, owner.pod("db-1").label(own).on("n1"))
    assert {k: v for k, v in found.pod.labels.items() if k in own} == {
        "statefulset.kubernetes.io/pod-name": "db-1",
        "apps.kubernetes.io/pod-index": "1",
    }


# Templates, and what admission adds


@pytest.mark.parametrize("make", [b.replicaset, b.statefulset])
def test_a_toleration_that_the_template_lost_does_not_come_back(make):
    before = make("web").tolerate("spot")
    found = comes_back("web-0", make("web"), before.pod("web-0").on("n1"))
    assert keys(found) == set()


@pytest.mark.parametrize(
    ("key", "effect"), [("node.kubernetes.io/not-ready", "NoExecute"), ("example.com/gpu", "NoSchedule")]
)
def test_tolerations_of_the_admission_plugins_of_kubernetes_come_back(key, effect):
    owner = b.replicaset("web").requests({"example.com/gpu": "1"})
    pod = owner.tolerate(key, effect=effect).pod("web-0").on("n1")
    assert keys(comes_back("web-0", owner, pod)) == {key}


def test_pods_of_a_deployment_show_what_admission_adds():
    owner = b.replicaset("web").owned_by(b.deployment("web"))
    pod = owner.tolerate("tenant-a").pod("web-0").on("n1")
    assert keys(comes_back("web-0", owner, pod)) == {"tenant-a"}


@pytest.mark.parametrize("deployed", [True, False])
def test_the_newest_pod_shows_what_is_added_since_the_old_one_was_created(deployed):
    owner = b.replicaset("web").replicas(2).cpu("1")
    owner = owner.owned_by(b.deployment("web")) if deployed else owner
    old = created(owner.pod("web-0").on("n1"), 1)
    injected = created(owner.cpu("1.5").pod("web-1").on("n2"), 9)
    found = comes_back("web-0", owner, old, injected)
    assert found.pod.spec.requests.cpu_milli == 1500


def test_the_room_is_never_smaller_than_template_or_old_pod():
    owner = b.replicaset("web").cpu("1").memory("2Gi")
    resized = created(owner.cpu("2").memory("1Gi").pod("web-0").on("n1"), 1)
    found = comes_back("web-0", owner, resized)
    assert (found.pod.spec.requests.cpu_milli, found.pod.spec.requests.memory_bytes) == (2000, 2 << 30)


SIDECAR = {"name": "proxy", "image": "proxy:1", "resources": {"requests": {"cpu": "200m"}}}


@pytest.mark.parametrize(("main", "milli"), [("1", 1000 + 1200), ("0.3", 1000 + 500)])
def test_there_is_room_for_a_sidecar_however_much_of_the_newest_pod_it_is(main, milli):
    """That pod may have been created from another template."""
    owner = b.replicaset("web").cpu("1").replicas(2)
    old = created(owner.pod("web-0").on("n1"), 1)
    injected = created(owner.cpu(main).container(SIDECAR).pod("web-1").on("n2"), 9)
    assert comes_back("web-0", owner, old, injected).pod.spec.requests.cpu_milli == milli


@pytest.mark.parametrize(("partition", "milli"), [(0, 3000 + 1200), (2, 1200)])
def test_a_pod_of_another_revision_shows_that_a_sidecar_is_added(partition, milli):
    """db-1 was created from the old revision and has the sidecar; db-0 comes back from the new or from the old one."""
    owner = db(partition=partition)
    old = created(of_revision(owner, "db-0", "old"), 1)
    small = owner.cpu("1").container(SIDECAR).pod("db-1").label({"track": "old", REVISION: "old"})
    found = comes_back("db-0", owner, old, created(small.on("n2"), 9))
    assert found.pod.spec.requests.cpu_milli == milli


@pytest.mark.parametrize(("minute", "milli"), [(9, 1000 + 200), (0, 1000)])
def test_a_newer_pod_of_another_replicaset_of_the_deployment_shows_what_admission_adds(minute, milli):
    """Its template asks for 4 CPUs, which say nothing about this one."""
    above = b.deployment("web")
    owner, other = (b.replicaset(name).owned_by(above) for name in ("web-1", "web-2"))
    owner, other = owner.cpu("1"), other.cpu("4")
    old = created(owner.pod("web-1-0").on("n1"), 1)
    injected = created(other.container(SIDECAR).pod("web-2-0").on("n2"), minute)
    found = comes_back("web-1-0", above, owner, other, old, injected)
    assert found.pod.spec.requests.cpu_milli == milli


def test_a_newer_pod_of_another_deployment_shows_nothing():
    owner, other = (b.replicaset(name).owned_by(b.deployment(name)) for name in ("web", "db"))
    old = created(owner.cpu("1").pod("web-0").on("n1"), 1)
    injected = created(other.container(SIDECAR).pod("db-0").on("n2"), 9)
    assert comes_back("web-0", owner.cpu("1"), other, old, injected).pod.spec.requests.cpu_milli == 1000


def test_what_this_controller_added_to_the_old_pod_does_not_come_back():
    owner = b.replicaset("web").replicas(2).owned_by(b.deployment("web"))
    pod = owner.tolerate(ANNOTATION_HANDOVER_TAINT).pod("web-0").on("n1")
    sibling = created(owner.pod("web-1").set("spec.schedulingGates", [{"name": GATE}]), 9)
    found = comes_back("web-0", owner, created(pod, 1), sibling)
    assert keys(found) == set()
    assert found.pod.spec.gates == ()


def test_pods_of_an_unknown_controller_come_back_as_its_newest_pod():
    mine = [b.pod(f"x-{i}").owner("CloneSet", "x", "x", "apps.kruise.io/v1alpha1").on("n1") for i in (0, 1)]
    found = comes_back(
        "x-0",
        created(mine[0].cpu("1"), 1),
        created(mine[1].cpu("2"), 2),
        rules=ReplacementRules(replacing=frozenset({("apps.kruise.io", "CloneSet")})),
    )
    assert (found.pod.spec.requests.cpu_milli, found.source) == (2000, ReplacementSource.OLD_POD)


# Dry-run creations


def test_a_dry_run_creation_goes_before_everything_else():
    owner = b.replicaset("web").cpu("1")
    cluster = b.snapshot(*NODES, owner, owner.cpu("4").pod("web-0").on("n1"))
    (uid,) = cluster.workloads
    spec = cluster.workloads[uid].template
    asked = AdmittedPod(spec=spec, labels=LabelSet({"app": "web", "injected": "yes"}), asked_at_s=1.0)
    found = comes_back(
        "web-0", owner, owner.cpu("4").pod("web-0").on("n1"), admitted={TemplateKey(uid): asked}
    )
    assert (found.source, found.pod.spec.requests.cpu_milli) == (ReplacementSource.DRY_RUN, 1000)
    assert found.pod.labels["injected"] == "yes"


def test_a_pod_that_the_api_server_refuses_has_no_replacement():
    owner = b.replicaset("web")
    (uid,) = b.snapshot(*NODES, owner).workloads
    refused = AdmittedPod(refusal="violates PodSecurity", asked_at_s=1.0)
    found = comes_back("web-0", owner, owner.pod("web-0").on("n1"), admitted={TemplateKey(uid): refused})
    assert (found.pod, found.reason) == (None, NoReplacement.NOT_ADMITTED)
    assert found.message.endswith("violates PodSecurity")


def test_a_pod_whose_labels_admission_changes_has_no_replacement():
    """Its ReplicaSet would not take the new pod for its own, and create the next one, without end."""
    owner = b.replicaset("web").replicas(1)
    (workload,) = b.snapshot(*NODES, owner).workloads.values()
    changed = AdmittedPod(spec=workload.template, labels=LabelSet({"app": "other"}), asked_at_s=1.0)
    admitted = {TemplateKey(workload.uid): changed}
    found = comes_back("web-0", owner, owner.pod("web-0").on("n1"), admitted=admitted)
    assert (found.pod, found.reason) == (None, NoReplacement.RELEASED)
    assert "ReplicaSet default/web takes none for its own" in found.message


GROUP = {"podGroupName": "gang"}


def test_a_pod_that_would_come_back_as_a_member_of_a_group_waits_for_the_others():
    """The old pod is none: the template, or admission, has changed since."""
    owner = b.replicaset("web")
    old = owner.pod("web-0").on("n1")
    grouped = owner.set("spec.template.spec.schedulingGroup", GROUP)
    found = comes_back("web-0", grouped, old)
    assert (found.pod, found.reason) == (None, NoReplacement.GROUP)
    assert "gang" in found.message
    (workload,) = b.snapshot(*NODES, grouped).workloads.values()
    admitted = {
        TemplateKey(workload.uid): AdmittedPod(
            spec=workload.template, labels=LabelSet({"app": "web"}), asked_at_s=1.0
        )
    }
    found = comes_back("web-0", owner, old, admitted=admitted)
    assert (found.pod, found.reason) == (None, NoReplacement.GROUP)


# None comes, or none that a scheduler places


@pytest.mark.parametrize(("change", "reason", "word"), [
    (("spec.template.spec.nodeName", "n1"), NoReplacement.TEMPLATE_NAMES_NODE, "node/n1"),
    (("spec.template.spec.schedulingGates", [{"name": "kueue.x-k8s.io/admission"}]), NoReplacement.TEMPLATE_GATED, "kueue.x-k8s.io/admission"),
])  # fmt: skip
def test_a_template_that_no_scheduler_places_is_left_alone(change, reason, word):
    owner = b.replicaset("web")
    pod = owner.pod("web-0").on("n1")
    found = comes_back("web-0", owner.set(*change), pod)
    assert (found.pod, found.reason) == (None, reason)
    assert word in found.message


def test_a_pod_without_a_controller_does_not_come_back():
    found = comes_back("lone", b.pod("lone").on("n1"))
    assert (found.pod, found.reason) == (None, NoReplacement.NEVER_MOVES)


def test_pods_that_share_their_spec_share_that_of_the_replacement():
    owner = b.replicaset("web").replicas(2).owned_by(b.deployment("web"))
    cluster = b.snapshot(*NODES, owner, owner.pod("web-0").on("n1"), owner.pod("web-1").on("n2"))
    found = Replacements(cluster)
    first, second = (found.of(pod).pod for pod in cluster.pods.values())
    assert first.spec is second.spec
    assert {first.name, second.name} == {"web-0-replacement", "web-1-replacement"}
    assert len({first.uid, second.uid}) == 2


def test_without_a_revision_in_the_status_the_template_counts():
    owner = b.statefulset("db").cpu("2")
    found = comes_back("db-0", owner, owner.cpu("1").pod("db-0").on("n1"))
    assert (found.pod.spec.requests.cpu_milli, found.revision) == (2000, "")


def test_tolerations_are_compared_as_a_whole():
    """The template tolerates the key for another effect than the old pod did."""
    before = b.replicaset("web").tolerate("node.kubernetes.io/not-ready", effect="NoSchedule")
    found = comes_back("web-0", b.replicaset("web"), before.pod("web-0").on("n1"))
    assert Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoSchedule") not in (
        found.pod.spec.tolerations
    )


def test_a_sibling_that_waits_for_another_program_shows_that_the_next_pod_would():
    owner = b.replicaset("web").replicas(3).owned_by(b.deployment("web"))
    old = created(owner.pod("web-0").on("n1"), 1)
    gates = [{"name": GATE}, {"name": "kueue.x-k8s.io/admission"}]
    waiting = created(owner.pod("web-1").set("spec.schedulingGates", gates), 5)
    newest = created(owner.pod("web-2").on("n2"), 9)
    found = comes_back("web-0", owner, old, waiting, newest)
    assert (found.pod, found.reason) == (None, NoReplacement.TEMPLATE_GATED)
    assert "kueue.x-k8s.io/admission" in found.message
    assert GATE not in found.message


def test_so_does_one_of_another_replicaset_of_the_deployment():
    owner, other = (b.replicaset(name).owned_by(b.deployment("web")) for name in ("web-1", "web-2"))
    waiting = other.pod("web-2-0").set("spec.schedulingGates", [{"name": "kueue.x-k8s.io/admission"}])
    found = comes_back("web-1-0", owner, other, owner.pod("web-1-0").on("n1"), waiting)
    assert (found.pod, found.reason) == (None, NoReplacement.TEMPLATE_GATED)
