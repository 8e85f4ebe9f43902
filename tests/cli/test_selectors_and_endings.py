"""What selects nothing is no success, what is no selector is wrong usage, and a drain tells what became of it as one document."""

import json

import pytest

NOTHING = {
    "drain": (("drain", "-l", "nosuch=label"), 1, "error: no node has the labels nosuch=label\n"),
    "uncordon": (("uncordon", "-l", "nosuch=label"), 1, "error: no node has the labels nosuch=label\n"),
    "move by labels": (("move", "-l", "a=b"), 1, "error: no pod in namespace default has the labels a=b\n"),
    "move off a node": (("move", "--from", "n77"), 2, "error: there is no node/n77"),
    "move off no name": (("move", "--from", "n1,spec.a=b"), 2, "error: there is no node/n1,spec.a=b\n"),
    "consolidate": (("consolidate", "--pool", "a=b"), 1, "error: no node has the labels a=b\n"),
    "nothing left to move": (("move", "--from", "n1", "-n", "kube-public"), 0, "no pods\n"),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_selects_nothing_is_no_success(work, command, name):
    words, code, said = NOTHING[name]
    done = command(*words, "--kubeconfig", work.kubeconfig)
    assert (done.exit_code, done.stdout) == (code, "")
    assert said in done.stderr


@pytest.mark.crossed
@pytest.mark.parametrize("verb", ["drain", "uncordon", "move"])
@pytest.mark.parametrize("selector", ["a=b=c", "=x", "a b", "a,,b"])
def test_what_is_no_selector_is_wrong_usage(work, command, verb, selector):
    done = command(verb, "-l", selector, "--kubeconfig", work.kubeconfig)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {selector!r} is no label selector: ")


@pytest.mark.parametrize("words", [("plan",), ("ui",), ("explain", "pod", "a")], ids=" ".join)
@pytest.mark.parametrize("cluster", ["--kubeconfig", "--context"])
def test_a_dump_and_a_cluster_contradict_each_other(command, dump, untidy, words, cluster):
    done = command(*words, "--from", dump(untidy), cluster, "some")
    assert (done.exit_code, f"and {cluster} names a live cluster" in done.stderr) == (2, True)


def test_a_dump_is_read_whatever_cluster_the_environment_names(command, dump, untidy):
    done = command("plan", "--from", dump(untidy), env={"RESCHEDULER_KUBECONFIG": "/nowhere"})
    assert done.exit_code == 0, done.output


def test_a_drain_tells_what_went_where_as_one_document(work, command):
    (pod,) = work.deploy("web", 1, node="n1")
    done = command("drain", "n1", "-o", "json", "--kubeconfig", work.kubeconfig)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["kind"], found["nodes"], found["drained"], found["evictions"]) == (
        "Drain",
        ["n1"],
        True,
        [],
    )
    (move,) = found["moves"]
    assert (move["pod"], move["from"], move["ended"]) == (pod, "n1", "Landed")
    assert move["to"] == work.node_of(work.pods("web")[0]["metadata"]["name"])
    assert "node/n1 drained" in done.stderr
    work.cordon("n1", on=False)
    work.remove("Deployment", "web")


def test_a_refused_drain_is_one_document_too(work, command):
    (pod,) = work.deploy("web", 1, node="n1")
    work.budget("web", maxUnavailable=0)
    done = command("drain", "n1", "-o", "json", "--kubeconfig", work.kubeconfig)
    assert (done.exit_code, "Nothing was changed." in done.stderr) == (1, True)
    found = json.loads(done.stdout)
    assert (found["kind"], [one["pod"]["name"] for one in found["refused"]]) == ("DrainPlan", [pod])
    work.remove("Deployment", "web")


def test_without_a_terminal_each_step_has_its_time_and_the_count(work, command):
    work.deploy("web", 1, node="n1")
    done = command("drain", "n1", "--kubeconfig", work.kubeconfig)
    assert done.exit_code == 0, done.output
    steps = [line for line in done.stderr.splitlines() if ": Succeeded: " in line]
    assert [line.split()[1] for line in steps] == ["1/1"]
    assert done.stderr.splitlines()[-1].startswith("1 pod moved, in ")
    work.cordon("n1", on=False)
    work.remove("Deployment", "web")
