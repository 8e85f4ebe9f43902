"""``rescheduler consolidate`` as people type it, on the sandbox with the controller at work."""

import json

import pytest

LABEL = "rescheduler.dev/consolidation"


@pytest.fixture(autouse=True)
def tidy(work, uncordon):
    yield
    uncordon(*work.nodes())
    for kind in ("Deployment", "DaemonSet"):
        for found in work.api.get(f"/apis/apps/v1/namespaces/default/{kind.lower()}s").items:
            work.remove(kind, found["metadata"]["name"])


def marked(work, value):
    nodes = work.api.get("/api/v1/nodes", labelSelector=f"{LABEL}={value}").items
    return {node["metadata"]["name"] for node in nodes}


def spread(work, **more):
    """A pod on each of n1, n2 and n3; n4 is empty."""
    for name in ("n1", "n2", "n3"):
        work.deploy(f"on-{name}", 1, node=name, **more)


def test_nodes_are_emptied_and_cordoned_and_can_be_given_back(work, consolidate, uncordon):
    spread(work)
    work.deploy("agent", 4, cpu="100m", kind="DaemonSet")
    before = len(work.moves())
    shown = consolidate("--plan")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("3 of 4 nodes can go, with 2 moves; now 4 nodes with ")
    document = json.loads(consolidate("--dry-run", "-o", "json").stdout)
    assert (document["kind"], len(document["nodes"]), len(document["moves"])) == ("Consolidation", 3, 2)
    assert document["after"]["nodes"] == 1
    assert (len(work.moves()), work.cordoned()) == (before, set())

    done = consolidate()
    assert done.exit_code == 0, done.output
    going = {n["name"] for n in document["nodes"]}
    assert work.cordoned() == marked(work, "Emptied") == going
    assert all(f"node/{name} emptied, cordoned\n" in done.stdout for name in going)
    apps = [pod for name in ("n1", "n2", "n3") for pod in work.ready(f"on-{name}", 1)]
    assert {pod["spec"]["nodeName"] for pod in apps} == set(work.nodes()) - going
    assert consolidate().stdout.startswith("no node can go: ")

    freed = uncordon("-l", LABEL)
    assert freed.exit_code == 0, freed.output
    assert (work.cordoned(), marked(work, "Emptied")) == (set(), set())


def test_only_so_many_as_are_asked_for_and_never_more_than_can_go(work, consolidate):
    spread(work)
    refused = consolidate("--nodes", "4")
    assert refused.exit_code == 1
    assert "3 of 4 nodes can go, not 4; the others stay:" in refused.stderr
    assert "Nothing was changed." in refused.stderr
    assert work.cordoned() == set()
    done = consolidate("--nodes", "1")
    assert done.exit_code == 0, done.output
    assert work.cordoned() == {"n4"}, "the empty one costs nothing"


def test_an_interrupted_one_is_taken_up(work, consolidate):
    spread(work)
    work.cordon("n4")
    work.interrupt("consolidate", "--nodes", "2", once=lambda: len(work.cordoned()) > 1)
    resumed = consolidate("--resume")
    assert resumed.exit_code == 0, resumed.output
    assert marked(work, "Emptying") == set()
    work.cordon("n4", on=False)


def test_what_cannot_be_emptied_in_time_is_given_back(work, consolidate):
    spread(work)
    with work.no_moves():
        done = consolidate("--nodes", "2", "--timeout", "3s")
    assert done.exit_code == 3, done.output
    assert "the nodes are not empty; those with pods are given back" in done.stderr
    assert "LimitMovesPerHour" in done.stderr
    assert "node/n4 emptied, cordoned\n" in done.stdout
    assert "uncordoned: 1 pod stayed\n" in done.stdout
    assert work.cordoned() == marked(work, "Emptied") == {"n4"}
    assert marked(work, "Emptying") == set()


def test_wrong_usage_is_told(monkeypatch, consolidate):
    monkeypatch.setattr("rescheduler.cli.clients.NOTICE_S", 60.0)  # the machine may be busy
    assert consolidate("--pool", "a!=b").exit_code == 2
    assert consolidate("--until", "lots").exit_code == 2
    assert consolidate("--resume", "--nodes", "1").exit_code == 2
    assert consolidate("--resume").stdout == "no consolidation is under way\n"
    assert consolidate("--nodes", "0").exit_code == 2
    nobody = consolidate("--pool", "a=b")
    assert (nobody.exit_code, nobody.stdout, nobody.stderr) == (1, "", "error: no node has the labels a=b\n")


def test_without_a_controller_nothing_is_cordoned(work, consolidate):
    spread(work)
    done = consolidate("--controller-namespace", "elsewhere")
    assert (done.exit_code, "no controller is running" in done.stderr) == (1, True)
    assert work.cordoned() == set()


def test_a_controller_that_elects_no_leader_by_its_file_is_asked_all_the_same(
    work, consolidate, without_lease
):
    spread(work)
    work.cordon("n4")
    begun = {"metadata": {"labels": {LABEL: "Emptying"}}, "spec": {"unschedulable": True}}
    work.api.patch("/api/v1/nodes/n1", begun).expect()
    refused = consolidate("--resume", "--controller-namespace", "elsewhere")
    assert (refused.exit_code, "no controller is running" in refused.stderr) == (1, True)
    resumed = consolidate("--resume", *without_lease)
    assert resumed.exit_code == 0, resumed.output
    assert marked(work, "Emptied") == {"n1"}
    fewer = consolidate("--nodes", "1", *without_lease)
    assert fewer.exit_code == 0, fewer.output
    assert len(marked(work, "Emptied")) == 2
    work.cordon("n4", on=False)
