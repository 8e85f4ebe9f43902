"""``explain pod --replacement``: what comes back, from where it is known, and why nothing does."""

import json

import pytest

from harness import builders as b

WIDGETS = """\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
replacements: {jobs: true, controllers: [{apiGroup: example.com, kind: Widget}]}
"""
IGNORE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


@pytest.fixture
def configured(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(WIDGETS)
    return path


def items():
    top = b.deployment("web", "shop").replicas(2)
    web = b.replicaset("web-7d9", "shop").cpu("1").memory("2Gi").replicas(2).owned_by(top)
    web = web.tolerate("spot").node_selector({"disk": "ssd"})
    fresh = web.cpu("1100m")
    sibling = fresh.pod("web-7d9-k8s").on("n2").created("2026-11-21T09:00:00Z")
    bare = b.replicaset("bare", "shop").cpu("2").tolerate("new", "x", "NoExecute")
    work = b.job("work", "shop").cpu("1").set("spec.podFailurePolicy", IGNORE)
    return [
        b.node("n1"),
        b.node("n2"),
        top,
        web,
        web.pod("web-7d9-x2x").on("n1").created("2026-11-20T09:00:00Z"),
        sibling,
        b.pdb("web", "shop").selects(app="web-7d9").allows(1),
        bare,
        b.replicaset("bare", "shop").cpu("1").tolerate("spot").pod("bare-1").on("n1"),
        work,
        work.pod("work-1").on("n1"),
        b.pod("widget-1", "shop").cpu("1").on("n1").owner("Widget", "w", "w", "example.com/v1"),
    ]


@pytest.fixture
def asked(command, dump, configured):
    path = dump([each.manifest() for each in items()])

    def asked(name, *more, config=True):
        words = ["explain", "pod", f"shop/{name}", "--replacement", "--from", path, *more]
        result = command(*words, *(["--config", configured] if config else []))
        assert result.exit_code == 0, result.output
        return result.stdout

    return asked


def test_a_person_sees_what_comes_back_and_can_check_it(asked):
    assert asked("web-7d9-x2x").splitlines() == [
        "shop/web-7d9-x2x (on n1): another pod comes back",
        "  controller   ReplicaSet web-7d9 of Deployment web",
        "  known from   pod web-7d9-k8s and the template of ReplicaSet web-7d9 (Sibling)",
        "  created      at once, while the old pod still ends",
        "  requests     cpu 1.1, memory 2Gi",
        "  size         cpu 1 -> 1.1",
        "  budgets      web (allows 1 disruption)",
    ]


def test_every_difference_to_the_old_pod_is_shown(asked):
    shown = asked("bare-1")
    assert "  size         cpu 1 -> 2\n" in shown
    assert "  tolerations  + new=x:NoExecute, - spot op=Exists\n" in shown
    assert "  budgets      no PodDisruptionBudget counts it\n" in shown


def test_a_pod_of_a_job_comes_back_later(asked):
    assert "once the old pod has ended, after the back-off of its Job" in asked("work-1")
    assert json.loads(asked("work-1", "-o", "json"))["created"] == "AfterTheOldPodEnded"


@pytest.mark.parametrize(("name", "reason", "word"), [
    ("widget-1", "ControllerNotKnown", "does not show whether it replaces its pods"),
    ("work-1", "Job", "replacements.jobs: true"),
])  # fmt: skip
def test_a_pod_that_does_not_come_back_says_why(asked, name, reason, word):
    """Without a configuration, which could say otherwise."""
    shown = asked(name, config=False)
    assert shown.startswith(f"shop/{name} (on n1): no pod comes back ({reason})\n  The pod belongs to ")
    assert word in shown
    document = json.loads(asked(name, "-o", "json", config=False))
    assert (document["replaced"], document["reason"]) == (False, reason)
    assert word in document["message"]


def test_the_configuration_decides_about_custom_controllers(asked):
    document = json.loads(asked("widget-1", "-o", "json"))
    assert (document["replaced"], document["source"]) == (True, "OldPod")
    assert document["controller"] == {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"}


def test_the_json_has_exact_amounts(asked):
    document = json.loads(asked("web-7d9-x2x", "-o", "json"))
    assert document["kind"] == "Replacement"
    assert document["requests"] == {"cpu": "1100m", "memory": str(2 << 30)}
    assert document["oldRequests"] == {"cpu": "1000m", "memory": str(2 << 30)}
    assert document["budgets"] == [{"name": "web", "disruptionsAllowed": 1}]
    assert document["nodeSelector"] == {"disk": "ssd"}
    assert document["origin"] == "pod web-7d9-k8s and the template of ReplicaSet web-7d9"


def test_a_statefulset_keeps_the_name(command, dump):
    owner = b.statefulset("db").cpu("1")
    path = dump([b.node("n1").manifest(), owner.manifest(), owner.pod("db-0").on("n1").manifest()])
    shown = command("explain", "pod", "db-0", "--replacement", "--from", path).stdout
    assert "once the old pod has ended, with the same name" in shown


def test_one_look_at_a_cluster_sees_no_other_kind_replace_a_pod(command, cluster):
    """A ConfigMap stands for a custom resource without a scale subresource."""
    api, kubeconfig = cluster
    head = {"apiVersion": "v1", "metadata": {"name": "x", "namespace": "default"}}
    uid = api.create("/api/v1/namespaces/default/configmaps", {**head, "kind": "ConfigMap"}).expect().uid
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": uid, "controller": True}
    metadata = {"name": "kept", "namespace": "default", "ownerReferences": [owner]}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    api.create("/api/v1/namespaces/default/pods", body).expect()
    words = ["explain", "pod", "--replacement", "--kubeconfig", kubeconfig]
    shown = command(*words, "kept").stdout
    assert "no pod comes back (ControllerNotKnown)" in shown
    assert "a kind of Kubernetes that creates no pods" in shown
