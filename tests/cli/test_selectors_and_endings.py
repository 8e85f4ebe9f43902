"""A dump and a cluster contradict each other, and a drain tells what became of it as one document."""

import json

import pytest


@pytest.mark.parametrize("words", [("plan",), ("ui",), ("explain", "pod", "a")], ids=" ".join)
@pytest.mark.parametrize("cluster", ["--kubeconfig", "--context"])
def test_a_dump_and_a_cluster_contradict_each_other(command, dump, untidy, words, cluster):
    done = command(*words, "--from", dump(untidy), cluster, "some")
    assert (done.exit_code, f"and {cluster} names a live cluster" in done.stderr) == (2, True)


def test_a_dump_is_read_whatever_cluster_the_environment_names(command, dump, untidy):
    done = command("plan", "--from", dump(untidy), env={"RESCHEDULER_KUBECONFIG": "/nowhere"})
    assert done.exit_code == 0, done.output


def test_a_drain_tells_what_went_where_as_one_document(work, drain):
    (pod,) = work.deploy("web", 1, node="n1")
    done = drain("n1", "-o", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["kind"], found["nodes"], found["drained"], found["evictions"]) == (
        "Drain", ["n1"], True, [],
    )  # fmt: skip
    (move,) = found["moves"]
    assert (move["pod"], move["from"], move["ended"]) == (pod, "n1", "Landed")
    assert move["to"] == work.node_of(work.pods("web")[0]["metadata"]["name"])
    assert "node/n1 drained" in done.stderr
    work.cordon("n1", on=False)
    work.remove("Deployment", "web")


def test_a_refused_drain_is_one_document_too(work, drain):
    (pod,) = work.deploy("web", 1, node="n1")
    work.budget("web", maxUnavailable=0)
    done = drain("n1", "-o", "json")
    assert (done.exit_code, "Nothing was changed." in done.stderr) == (1, True)
    found = json.loads(done.stdout)
    assert (found["kind"], [one["pod"]["name"] for one in found["refused"]]) == ("DrainPlan", [pod])
    work.remove("Deployment", "web")


def test_without_a_terminal_each_step_has_its_time_and_the_count(work, drain):
    work.deploy("web", 1, node="n1")
    done = drain("n1")
    assert done.exit_code == 0, done.output
    steps = [line for line in done.stderr.splitlines() if ": Succeeded: " in line]
    assert [line.split()[1] for line in steps] == ["1/1"]
    assert done.stderr.splitlines()[-1].startswith("1 pod moved, in ")
    work.cordon("n1", on=False)
    work.remove("Deployment", "web")
