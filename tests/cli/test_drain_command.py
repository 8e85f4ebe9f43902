"""``rescheduler drain`` and ``uncordon`` as people type them, on the sandbox with the controller at work."""

import json
import threading

import pytest

from harness import documents

EVICT = "rescheduler.dev/evict"


@pytest.fixture(autouse=True)
def tidy(work):
    """Each test begins with no workload and every node in service."""
    yield
    for node in work.nodes():
        work.cordon(node, on=False)
    for kind in ("Deployment", "DaemonSet", "StatefulSet"):
        path = f"/apis/apps/v1/namespaces/default/{kind.lower()}s"
        for found in work.api.get(path).items:
            work.remove(kind, found["metadata"]["name"])
    for pod in work.pods():
        work.api.delete(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}")
    work.wait(lambda: not work.api.get("/api/v1/namespaces/default/pods").items)


def nodes_of(work, app, count):
    return {pod["spec"]["nodeName"] for pod in work.ready(app, count)}


def test_every_pod_lands_elsewhere_with_its_room_reserved_first(work, drain, uncordon):
    work.deploy("web", 2, node="n1")
    work.deploy("db", 1, kind="StatefulSet", node="n1")
    work.budget("web", minAvailable=1)
    done = drain("node/n1")
    assert done.exit_code == 0, done.output
    assert done.stdout == "node/n1 cordoned\nnode/n1 drained\n"
    assert "n1" in work.cordoned()
    assert "n1" not in nodes_of(work, "web", 2) | nodes_of(work, "db", 1)
    moves = [m for m in work.moves() if m["spec"]["podRef"]["name"].startswith(("web", "db"))]
    assert {m["status"]["reason"] for m in moves} == {"Landed"}
    assert all(m["status"]["reservedAt"] < m["status"]["evictedAt"] for m in moves)
    again = drain("n1")
    assert (again.exit_code, again.stdout) == (0, "node/n1 already cordoned\nnode/n1 drained\n")
    freed = uncordon("n1")
    assert (freed.exit_code, freed.stdout) == (0, "node/n1 uncordoned\n")
    assert "n1" not in work.cordoned()
    assert uncordon("n1").stdout == "node/n1 already uncordoned\n"


def test_the_plan_shows_each_place_and_changes_nothing(work, drain):
    (pod,) = work.deploy("web", 1, node="n1")
    before = len(work.moves())
    shown = drain("n1", "--plan")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[0] == "node/n1: 1 pod would be moved"
    document = json.loads(drain("n1", "--plan", "-o", "json").stdout)
    (move,) = document["moves"]
    assert (document["kind"], move["pod"]["name"], move["from"], move["stage"]) == ("DrainPlan", pod, "n1", 0)
    assert move["to"] in ("n2", "n3", "n4")
    assert len(work.moves()) == before
    assert "n1" not in work.cordoned()


def test_what_has_nowhere_to_go_is_told_before_the_node_is_cordoned(work, drain):
    work.deploy("big", 1, cpu="3500m", node="n1")
    for node in ("n2", "n3", "n4"):
        work.deploy(f"full-{node}", 1, cpu="3500m", node=node)
    before = len(work.moves())
    done = drain("n1")
    assert done.exit_code == 1
    assert "node/n1 cannot be drained because of 1 pod:" in done.stderr
    assert "Insufficient cpu" in done.stderr
    assert "Nothing was changed." in done.stderr
    assert "n1" not in work.cordoned()
    assert len(work.moves()) == before
    assert drain("n1", "--plan").exit_code == 1


def test_pods_of_daemonsets_and_pods_without_a_controller_are_treated_as_by_kubectl(work, drain):
    work.deploy("agent", 4, cpu="100m", kind="DaemonSet")
    container = {"name": "c", "image": "registry.example/app:1"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}}
    body["spec"] = {"nodeName": "n1", "terminationGracePeriodSeconds": 1, "containers": [container]}
    work.api.create("/api/v1/namespaces/default/pods", body).expect()
    refused = drain("n1")
    assert refused.exit_code == 1
    assert "leave it there with --ignore-daemonsets" in refused.stderr
    assert (
        "default/alone: no controller would bring it back: evict it for good with --force" in refused.stderr
    )
    assert "n1" not in work.cordoned()
    done = drain("n1", "--ignore-daemonsets", "--force")
    assert done.exit_code == 0, done.output
    assert "default/alone: evicted without room: no controller brings it back" in done.stderr
    assert {pod["metadata"]["name"][:5] for pod in work.pods()} == {"agent"}


def test_local_data_is_lost_only_if_allowed_although_it_is_protected_from_other_moves(work, drain, move):
    volume = {"name": "scratch", "emptyDir": {}}
    (pod,) = work.deploy("cache", 1, node="n1", volumes=[volume])
    kept = move("pod", pod)
    assert (kept.exit_code, "has data on its node" in kept.stderr) == (1, True)
    refused = drain("n1")
    assert (refused.exit_code, "allow that with --delete-emptydir-data" in refused.stderr) == (1, True)
    done = drain("n1", "--delete-emptydir-data")
    assert done.exit_code == 0, done.output
    assert "n1" not in nodes_of(work, "cache", 1)


def test_the_annotation_lifts_no_protection_off_a_node_in_service(work):
    (pod,) = work.deploy("cache", 1, node="n1", volumes=[{"name": "scratch", "emptyDir": {}}])
    path = "/apis/rescheduler.dev/v1alpha1/namespaces/default/podmigrations"
    body = documents.migration("sly", pod, meta={"annotations": {EVICT: "true"}})
    work.api.create(path, body).expect()
    found = work.wait(lambda: (work.api.get(f"{path}/sly").body.get("status") or {}).get("reason"))
    assert found == "NotMovable"


def test_a_budget_that_never_allows_it_is_told(work, drain):
    work.deploy("web", 2, node="n1")
    work.budget("web", maxUnavailable=0)
    refused = drain("n1")
    assert refused.exit_code == 1
    assert (
        "PodDisruptionBudget default/web never allows a disruption (2 of 2 pods must be healthy)"
        in refused.stderr
    )
    assert "n1" not in work.cordoned()


def test_an_interrupted_drain_is_taken_up_or_ended(work, drain, uncordon):
    work.deploy("web", 2, node="n1")
    work.deploy("web2", 1, node="n1")
    work.budget("web", minAvailable=1)
    work.interrupt("drain", "n1", once=work.cordoned)
    done = drain("n1")
    assert done.exit_code == 0, done.output
    assert "n1" not in nodes_of(work, "web", 2) | nodes_of(work, "web2", 1)


def test_uncordon_withdraws_the_moves_that_have_disturbed_nothing(work, uncordon):
    (pod,) = work.deploy("web", 1, node="n1")
    work.cordon("n1")
    path = "/apis/rescheduler.dev/v1alpha1/namespaces/default/podmigrations"
    for name, annotations in (("of-a-drain", {EVICT: "true"}), ("of-somebody", {})):
        body = documents.migration(name, pod, meta={"annotations": annotations}, paused=True, ttl="1m")
        work.api.create(path, body).expect()
    done = uncordon("n1")
    assert done.stdout == "podmigration/of-a-drain -n default withdrawn\nnode/n1 uncordoned\n"
    assert not work.api.get(f"{path}/of-a-drain").ok
    assert work.api.get(f"{path}/of-somebody").ok
    work.api.delete(f"{path}/of-somebody")


def test_wrong_usage_is_told(drain, uncordon):
    assert "Use kubectl drain --disable-eviction" in drain("n1", "--disable-eviction").stderr
    assert drain("n1", "--disable-eviction").exit_code == 2
    assert drain().exit_code == 2
    assert uncordon("n1", "-l", "a=b").exit_code == 2
    mistyped = drain("nn1")
    assert (
        mistyped.exit_code,
        mistyped.stderr.startswith("error: there is no node/nn1; did you mean n1"),
    ) == (2, True)


def test_without_a_controller_the_node_is_not_cordoned(work, drain):
    work.deploy("web", 1, node="n1")
    done = drain("n1", "--controller-namespace", "elsewhere")
    assert done.exit_code == 1
    assert "no controller is running" in done.stderr
    assert "n1" not in work.cordoned()


def test_a_controller_that_elects_no_leader_by_its_file_is_asked_all_the_same(work, drain, without_lease):
    work.deploy("web", 1, node="n1")
    done = drain("n1", *without_lease)
    assert done.exit_code == 0, done.output
    assert "n1" not in nodes_of(work, "web", 1)


def test_a_target_that_is_lost_is_planned_again_and_not_waited_for(work, drain):
    work.deploy("web", 1, node="n1")
    done = []
    thread = threading.Thread(target=lambda: done.append(drain("n1", "--timeout", "10m")))
    with work.no_moves():
        thread.start()

        def waiting():
            moves = [m for m in work.moves() if m["spec"]["podRef"]["name"].startswith("web")]
            said = [m for m in moves if m.get("status", {}).get("reason") == "LimitMovesPerHour"]
            return [m["spec"]["target"]["nodeName"] for m in said]

        (lost,) = work.wait(waiting)
        work.cordon(lost)
    thread.join(120)
    assert done, "it waits for a node that takes no pods"
    assert done[0].exit_code == 0, done[0].output
    assert nodes_of(work, "web", 1).isdisjoint({"n1", lost})
    assert "1 pod moved, in " in done[0].stderr, "what it withdrew and planned again is told once"
