"""Deployments and ReplicaSets on the sandbox."""

from kube_sandbox.controllers.unstructured import GroupKind, deleting, spec, status

DEPLOY = ("apps", "Deployment")
REPLICA_SET = GroupKind("apps", "ReplicaSet")


def sizes(lab):
    return sorted(spec(rs)["replicas"] for rs in lab.api.list(REPLICA_SET))


def test_rolling_update_stays_within_surge_and_unavailability(lab):
    one = lab(cpu="8")
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    one.deployment("web", 4, strategy=rolling)
    seen = []

    def rolled():
        alive = [p for p in one.pods("web") if not deleting(p)]
        seen.append((len(alive), len(one.ready("web"))))
        found = status(one.get(*DEPLOY, "web"))
        return found.get("updatedReplicas") == found.get("availableReplicas") == found.get("replicas") == 4

    one.patch(*DEPLOY, "web", {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}})
    one.until(lambda: sizes(one) != [4])
    one.until(rolled)
    assert max(alive for alive, _ in seen) <= 5
    assert min(ready for _, ready in seen) >= 3
    assert sizes(one) == [0, 4]
    assert {p["metadata"]["labels"].get("version") for p in one.pods("web") if not deleting(p)} == {"2"}


def test_rollback_reuses_the_old_replica_set(lab):
    one = lab()
    one.deployment("web", 2)
    for version in ("2", None):
        one.patch(*DEPLOY, "web", {"spec": {"template": {"metadata": {"labels": {"version": version}}}}})
        one.cluster.advance(10)
    assert sizes(one) == [0, 2]
    newest = next(rs for rs in one.api.list(REPLICA_SET) if spec(rs)["replicas"] == 2)
    assert newest["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_paused_deployment_scales_but_does_not_roll(lab):
    one = lab()
    one.deployment("web", 2)
    one.patch(*DEPLOY, "web", {"spec": {"paused": True}})
    change = {"spec": {"replicas": 3, "template": {"metadata": {"labels": {"version": "2"}}}}}
    one.patch(*DEPLOY, "web", change)
    one.cluster.advance(10)
    assert sizes(one) == [3]
    assert len(one.ready("web")) == 3


def test_scaling_in_the_middle_of_a_rollout_ends_at_the_new_size(lab):
    one = lab(cpu="16")
    one.deployment("web", 4, minReadySeconds=5)
    one.patch(*DEPLOY, "web", {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}})
    one.cluster.advance(1)
    assert len(sizes(one)) == 2
    one.patch(*DEPLOY, "web", {"spec": {"replicas": 8}})
    one.until(lambda: sizes(one) == [0, 8] and len(one.ready("web")) == 8, 120)


def test_min_ready_seconds_delays_availability(lab):
    one = lab()
    one.deployment("web", 1, minReadySeconds=30)
    assert status(one.get(*DEPLOY, "web")).get("availableReplicas", 0) == 0
    waited_s = one.until(lambda: status(one.get(*DEPLOY, "web")).get("availableReplicas") == 1)
    assert 25 <= waited_s <= 31


def test_relabelled_pod_is_released_and_replaced(lab):
    one = lab()
    one.deployment("web", 2)
    name = one.pods("web")[0]["metadata"]["name"]
    one.patch("", "Pod", name, {"metadata": {"labels": {"app": "debug"}}})
    one.until(lambda: len(one.ready("web")) == 2)
    released = one.get("", "Pod", name)
    assert not released["metadata"].get("ownerReferences")
