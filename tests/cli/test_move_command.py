"""``rescheduler move`` as people type it, on the sandbox with the controller at work."""

import json

import pytest

from rescheduler.cli.by_name import pod_names
from rescheduler.cli.errors import CommandError

SPEC = {"containers": [{"name": "main", "image": "pause"}]}


@pytest.fixture
def web(work):
    """Two pods of a Deployment on n1."""
    yield work.deploy("web", 2, node="n1")
    work.remove("Deployment", "web")


def test_a_pod_lands_on_the_named_node_and_each_step_is_told(work, move, web):
    done = move("pod", web[0], "--to", "n3")
    assert done.exit_code == 0, done.output
    head, row = done.stdout.splitlines()
    assert head.split() == ["POD", "FROM", "TO", "STATE", "REASON"]
    assert row.split() == [f"default/{web[0]}", "n1", "n3", "Succeeded", "Landed"]
    assert f"default/{web[0]}: Succeeded: Landed" in done.stderr
    assert sorted(pod["spec"]["nodeName"] for pod in work.ready("web", 2)) == ["n1", "n3"]


def test_all_pods_of_a_label_leave_their_node_and_a_second_run_finds_none(work, move, web):
    done = move("-l", "app=web", "--from", "n1", "-o", "name")
    assert done.exit_code == 0, done.output
    assert [line.partition("/")[0] for line in done.stdout.splitlines()] == [
        "podmigration.rescheduler.dev"
    ] * 2
    assert "n1" not in {pod["spec"]["nodeName"] for pod in work.ready("web", 2)}
    again = move("-l", "app=web", "--from", "n1")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "no pods\n")


def test_a_pod_that_is_there_already_is_done(work, move, web):
    before = len(work.moves())
    done = move(f"pod/{web[0]}", "--to", "n1")
    assert (done.exit_code, done.stderr) == (0, f"default/{web[0]} is on node/n1 already\n")
    assert len(work.moves()) == before


def test_a_rehearsal_shows_the_place_and_creates_nothing(work, move, web):
    before = len(work.moves())
    done = move("pod", web[0], "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1].split()[:2] == [f"default/{web[0]}", "n1"]
    (body,) = json.loads(move("pod", web[0], "--to", "n2", "--dry-run", "-o", "json").stdout)["items"]
    assert (body["kind"], body["spec"]["target"]) == ("PodMigration", {"nodeName": "n2"})
    assert len(work.moves()) == before


def test_what_does_not_fit_is_refused_before_anything_is_created(work, move, web):
    work.deploy("big", 1, cpu="3900m", node="n4")
    before = len(work.moves())
    done = move("pod", *web, "--to", "n4")
    assert done.exit_code == 1
    assert "2 pods cannot be moved, and nothing was begun" in done.stderr
    assert "Insufficient cpu" in done.stderr
    assert "there is no node/n9" in move("pod", web[0], "--to", "n9").stderr
    assert len(work.moves()) == before
    work.remove("Deployment", "big")


def _explained(command, work, pod):
    text = command("explain", "pod", pod, "--kubeconfig", work.kubeconfig).stdout
    return text if "asks the node autoscaler" in text else ""


def test_without_room_it_is_refused_or_waits_for_a_node_where_one_may_be_asked_for(work, move, command):
    (big,) = work.deploy("big", 1, cpu="3900m", node="n4")
    others = [name for name in work.nodes() if name != "n4"]
    for name in others:
        work.cordon(name)
    assert "cannot be moved" in move("pod", big).stderr
    made = work.api.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"karpenter.sh/nodepool": "a"}}})
    assert made.ok
    asked = move("pod", big, "--no-wait")
    assert f"default/{big} waits, and the node autoscaler is asked for a node" in asked.stderr, asked.output
    found = [m for m in work.moves() if m["spec"]["podRef"]["name"] == big]
    assert [m["spec"].get("target") for m in found] == [None]
    (name,) = [m["metadata"]["name"] for m in found]
    ours = "/api/v1/namespaces/rescheduler/pods"
    work.wait(lambda: any(p["metadata"]["name"].startswith("node-for-") for p in work.api.get(ours).items))
    explained = work.wait(lambda: _explained(command, work, big))
    assert f"note: PodMigration default/{name}: Pending: NoTarget: no node has room; pending pod" in explained
    work.api.delete(f"/apis/rescheduler.dev/v1alpha1/namespaces/default/podmigrations/{name}")
    work.wait(lambda: not work.api.get(ours).items)
    work.api.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"karpenter.sh/nodepool": None}}})
    for node in others:
        work.cordon(node, on=False)
    work.remove("Deployment", "big")


def test_pods_that_belong_to_their_node_are_refused(work, move):
    for name in work.deploy("agent", 4, kind="DaemonSet"):
        done = move("pod", name)
        assert done.exit_code == 1
        assert "belongs to a DaemonSet, which has one pod on each node" in done.stderr
    work.remove("DaemonSet", "agent")


def test_what_belongs_to_a_node_stays_when_all_its_pods_are_moved_off(work, move, web):
    agents = set(work.deploy("agent", 4, kind="DaemonSet"))
    done = move("--from", "n1", "-o", "name")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == len(web)
    assert "n1" not in {pod["spec"]["nodeName"] for pod in work.ready("web", 2)}
    again = move("--from", "n1")
    assert (again.exit_code, again.stdout) == (0, "")
    (line,) = [line for line in again.stderr.splitlines() if "is terminating" not in line]
    left, _, why = line.partition(" is left out: the pod ")
    assert left.removeprefix("default/") in agents
    assert why == "belongs to a DaemonSet, which has one pod on each node"
    assert move("-l", "app=agent").exit_code == 1
    work.remove("DaemonSet", "agent")


def test_pods_that_are_over_are_not_meant_by_their_labels(work, move, web):
    over = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "over", "labels": {"app": "web"}}}
    made = work.api.create("/api/v1/namespaces/default/pods", {**over, "spec": {**SPEC, "nodeName": "n2"}})
    assert made.ok, made.body
    failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
    assert work.api.patch("/api/v1/namespaces/default/pods/over/status", failed).ok
    done = move("-l", "app=web", "--dry-run", "-o", "name")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, len(web)), done.output
    assert "default/over is left out: the pod has ended (Failed)" in done.stderr
    assert "default/over: the pod has ended (Failed)" in move("pod/over").stderr
    work.api.delete("/api/v1/namespaces/default/pods/over")


def test_a_mistyped_name_gets_a_suggestion(move, web):
    done = move("pod", web[0][:-1])
    assert done.exit_code == 2
    assert f"there is no pod/{web[0][:-1]} in namespace default; did you mean" in done.stderr
    assert web[0] in done.stderr


def test_a_node_that_does_not_exist_gets_a_suggestion(move, web):
    done = move("pod", web[0], "--to", "n11")
    assert (done.exit_code, "error: there is no node/n11; did you mean n1" in done.stderr) == (2, True)


def test_without_a_controller_nothing_is_created(work, move, web):
    before = len(work.moves())
    done = move("pod", web[0], "--controller-namespace", "elsewhere")
    assert done.exit_code == 1
    assert "no controller is running: there is no Lease elsewhere/rescheduler" in done.stderr
    assert len(work.moves()) == before


def test_a_controller_that_elects_no_leader_by_its_file_is_asked_all_the_same(work, move, web, without_lease):
    done = move("pod", web[0], *without_lease)
    assert done.exit_code == 0, done.output
    assert web[0] not in {pod["metadata"]["name"] for pod in work.ready("web", 2)}


def test_a_budget_that_allows_nothing_is_waited_for_and_ends_with_3(work, move, web):
    work.budget("web", maxUnavailable=0)
    done = move("pod", web[0], "--timeout", "4s")
    assert done.exit_code == 3, done.output
    assert "web allows 0 of 2" in done.stderr
    assert {pod["metadata"]["name"] for pod in work.ready("web", 2)} == set(web)


def test_moves_that_wait_are_followed_or_withdrawn_by_their_word(work, move, web):
    work.budget("web", maxUnavailable=0)
    begun = move("pod", web[0], "--no-wait")
    assert begun.exit_code == 0
    word = begun.stderr.split("--follow ")[1].split(";")[0]
    assert f"default/{web[0]}" in begun.stdout
    joined = move("pod", web[0], "--no-wait")
    assert "is being moved already, by PodMigration" in joined.stderr
    gone = move("--withdraw", word)
    assert gone.exit_code == 0, gone.output
    assert gone.stdout.endswith(" withdrawn\n")
    assert "there are no moves with" in move("--follow", word).stderr
    assert {pod["metadata"]["name"] for pod in work.ready("web", 2)} == set(web)


@pytest.mark.parametrize(
    "words", [(), ("pod", "a", "-l", "x=y"), ("--follow", "w", "pod", "a")], ids=["none", "both", "follow"]
)
def test_contradictions_are_usage_errors(move, words):
    assert move(*words).exit_code == 2


@pytest.mark.parametrize(("words", "names"), [
    (("pod", "a", "b"), ("a", "b")),
    (("pod/a", "po/b", "a"), ("a", "b")),
    (("a",), ("a",)),
    (("pods", "pod"), ("pod",)),
])  # fmt: skip
def test_pods_are_named_as_kubectl_takes_them(words, names):
    assert pod_names(words) == names


@pytest.mark.parametrize(
    "words", [("pod",), ("deployment/web",), ("deploy", "web"), ("shop/web-1",), ("pod/",)]
)
def test_other_words_are_refused_with_the_right_form(words):
    with pytest.raises(CommandError):
        pod_names(words)
