"""Every protection refuses with its reason, and says what it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import builders as b
from harness.object_builders import Builder, object_manifest
from rescheduler.model.kinds import Kind
from rescheduler.planning.limits import Protections
from rescheduler.planning.protections import Protector
from rescheduler.policies.wire import NamespaceFilter
from rescheduler.replacements.replacement import Replacements

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def refusal(pod, owner, rules=None, *more, covered=False):
    cluster = b.snapshot(b.node("n1"), owner, pod, *more)
    protector = Protector(Replacements(cluster), rules or Protections(), covered=lambda _: covered)
    (record,) = cluster.pods.values()
    found = protector.refusal(record)
    return (str(found.reason), found.by) if found else None


@pytest.fixture
def owner():
    return b.replicaset("web").replicas(3)


@pytest.fixture
def web(owner):
    return owner.pod("web-0").on("n1")


def test_an_ordinary_pod_may_move(web, owner):
    assert refusal(web, owner) is None


@pytest.mark.parametrize(("change", "expected"), [
    (lambda p: p.deleting(), ("Protected", "deletionTimestamp")),
    (lambda p: p.phase("Succeeded"), ("Protected", "status.phase")),
    (lambda p: p.set("metadata.ownerReferences", []), ("Protected", "no controller")),
    (lambda p: p.owner("DaemonSet", "agent"), ("Protected", "DaemonSet agent")),
    (lambda p: p.owner("Node", "n1", api_version="v1"), ("Protected", "static pod")),
    (lambda p: p.annotate({"kubernetes.io/config.mirror": "x"}), ("Protected", "static pod")),
    (lambda p: p.priority(2_000_000_000), ("Protected", "priority")),
    (lambda p: p.priority(1_000_000), ("Protected", "protections.priorityThreshold")),
    (lambda p: p.empty_dir(), ("Protected", "protections.localStorage")),
    (lambda p: p.empty_dir().annotate({SAFE: "true"}), None),
    (lambda p: p.empty_dir().annotate({SAFE: "yes"}), ("Protected", "protections.localStorage")),
    (lambda p: p.empty_dir("a").empty_dir("b").annotate({SAFE_VOLUMES: "b, a"}), None),
    (lambda p: p.empty_dir("a").annotate({SAFE_VOLUMES: ""}), ("Protected", "protections.localStorage")),
    (lambda p: p.empty_dir("a").empty_dir("b").annotate({SAFE_VOLUMES: "a"}), ("Protected", "protections.localStorage")),
    (lambda p: p.volume({"name": "host", "hostPath": {"path": "/x"}}).annotate({SAFE_VOLUMES: "host"}), None),
    (lambda p: p.claim("data"), ("Protected", "protections.persistentVolumes")),
    (lambda p: p.claim("data").annotate({SAFE: "true"}), ("Protected", "protections.persistentVolumes")),
    (lambda p: p.scheduler("other"), ("NotSupported", "other")),
    (lambda p: p.set("spec.resourceClaims", [{"name": "gpu"}]), ("NotSupported", "spec.resourceClaims")),
    (lambda p: p.set("spec.volumes", [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]), ("NotSupported", "spec.volumes")),
    (lambda p: p.annotate({"rescheduler.dev/evict": "false"}), ("Protected", "rescheduler.dev/evict")),
    (lambda p: p.annotate({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}), ("Protected", "cluster-autoscaler.kubernetes.io/safe-to-evict")),
    (lambda p: p.annotate({"karpenter.sh/do-not-disrupt": "true"}), ("Protected", "karpenter.sh/do-not-disrupt")),
    (lambda p: p.annotate({"karpenter.sh/do-not-disrupt": "1000h"}), ("Protected", "karpenter.sh/do-not-disrupt")),
    (lambda p: p.annotate({"karpenter.sh/do-not-disrupt": "1h"}), None),
    (lambda p: p.annotate({"karpenter.sh/do-not-disrupt": "nonsense"}), None),
    (lambda p: p.empty_dir().annotate({"rescheduler.dev/evict": "true"}), None),
    (lambda p: p.claim("c").annotate({"descheduler.alpha.kubernetes.io/evict": ""}), None),
    (lambda p: p.owner("DaemonSet", "agent").annotate({"rescheduler.dev/evict": "true"}), ("Protected", "DaemonSet agent")),
])  # fmt: skip
def test_pods(web, owner, change, expected):
    assert refusal(change(web), owner) == expected


def test_devices_that_no_node_offers_itself_are_allocated_by_rules_that_are_not_judged(web, owner):
    """A DeviceClass stands behind the resource; where a device plugin offers it, NodeResourcesFit judges."""
    device = Builder(
        object_manifest(Kind.DEVICE_CLASS, "gpu", spec={"extendedResourceName": "example.com/gpu"})
    )
    using = web.requests({"example.com/gpu": "1"})
    assert refusal(using, owner, None, device) == ("NotSupported", "example.com/gpu")
    implicit = "deviceclass.resource.kubernetes.io/gpu"
    assert refusal(web.requests({implicit: "1"}), owner, None, device) == ("NotSupported", implicit)
    plugin = b.node("n2").allocatable({"example.com/gpu": "4"})
    assert refusal(using, owner, None, device, plugin) is None
    assert refusal(using, owner) is None
    assert refusal(web, owner, None, device) is None


@pytest.mark.parametrize("kind", [b.replicaset, b.statefulset])
@pytest.mark.parametrize("mode", ["ReadWriteOncePod", "ReadWriteOnce"])
def test_a_claim_for_one_pod_keeps_a_replacement_out_that_comes_while_the_old_pod_ends(kind, mode):
    """A StatefulSet creates the next pod once the old one has ended."""
    owner = kind("web").replicas(3)
    claim = b.claim("data").set("spec.accessModes", [mode]).bound_to("v")
    pod = owner.pod("web-0").claim("data").on("n1")
    found = refusal(pod, owner, Protections(persistent_volumes=False), claim)
    kept = kind is b.replicaset and mode == "ReadWriteOncePod"
    assert found == (("NotSupported", "ReadWriteOncePod (data)") if kept else None)


@pytest.mark.parametrize(("rules", "expected"), [
    (Protections(namespaces=NamespaceFilter(exclude=("default",))), "protections.namespaces (default)"),
    (Protections(namespaces=NamespaceFilter(include=("a",), exclude=())), "protections.namespaces (default)"),
    (Protections(min_replicas=4), "protections.minReplicas"),
    (Protections(min_age_s=1e9), "protections.minAge"),
    (Protections(without_budget=True), "protections.withoutBudget"),
])  # fmt: skip
def test_rules(web, owner, rules, expected):
    assert refusal(web, owner, rules)[1] == expected


def test_a_wish_to_stay_protects_only_where_it_is_asked_for(web, owner):
    wishing = web.annotate({"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""})
    asked = Protections(prefer_no_eviction=True)
    assert refusal(wishing, owner) is None
    assert refusal(wishing, owner, asked) == ("Protected", "protections.preferNoEviction")
    assert refusal(web, owner, asked) is None


def test_a_budget_satisfies_without_budget(web, owner):
    assert refusal(web, owner, Protections(without_budget=True), covered=True) is None


def test_a_workload_that_is_scaled_down_is_left_alone(web, owner):
    assert refusal(web, owner.replicas(0)) == ("WorkloadBusy", "ReplicaSet default/web")


def test_a_rollout_is_left_alone(web, owner):
    top = b.deployment("web").replicas(3).set("status.updatedReplicas", 1)
    assert refusal(web, owner.owned_by(top), None, top) == ("WorkloadBusy", "Deployment default/web")


UNREACHABLE = ("node.kubernetes.io/unreachable", "", "NoExecute")


@pytest.mark.parametrize(
    "broken", [lambda n: n.not_ready(), lambda n: n.taint(*UNREACHABLE)], ids=["not ready", "unreachable"]
)
def test_a_pod_whose_kubelet_does_not_answer_stays_and_its_siblings_move(decide, broken):
    """It could not end there: a StatefulSet would wait for it for ever."""
    owner = b.statefulset("db").replicas(2)
    nodes = [broken(b.node("n1").taint("old")), b.node("n2").taint("old"), b.node("n3")]
    pods = [owner.pod(f"db-{number}").cpu("1").on(f"n{number + 1}") for number in range(2)]
    plan = decide(b.snapshot(nodes, owner, pods), "NodeTaints")
    assert [move.pod.name for move in plan.moves] == ["db-1"]


def test_it_stays_even_if_somebody_drains_its_node(owner, web):
    cluster = b.snapshot(b.node("n1").not_ready(), owner, web)
    protector = Protector(Replacements(cluster), Protections(), covered=lambda _: False)
    (record,) = cluster.pods.values()
    found = protector.refusal(record, lifted=True)
    assert found.message == "cannot end: node/n1 is not Ready or unreachable"


NAMES = st.sampled_from(["a", "b", "data"])


@given(
    st.lists(
        st.tuples(NAMES, st.sampled_from(["emptyDir", "hostPath", "configMap"])), unique_by=lambda v: v[0]
    ),
    st.none() | st.lists(NAMES | st.just("other")).map(",".join),
    st.sampled_from([None, "true", "TRUE", ""]),
)
@settings(max_examples=80, deadline=None)
def test_local_data_protects_what_cluster_autoscaler_would_keep(volumes, listed, safe):
    notes = {key: text for key, text in ((SAFE_VOLUMES, listed), (SAFE, safe)) if text is not None}
    owner = b.replicaset("web").replicas(3)
    pod = owner.pod("web-0").on("n1").annotate(notes)
    for name, kind in volumes:
        pod = pod.volume({"name": name, kind: {}})
    local = {name for name, kind in volumes if kind != "configMap"}
    kept = safe != "true" and bool(local - set((listed or "").split(",")))
    assert refusal(pod, owner) == (("Protected", "protections.localStorage") if kept else None)
