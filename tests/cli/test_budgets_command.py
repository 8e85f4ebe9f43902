"""Which workloads lack a PodDisruptionBudget, or have one that holds up drains; the offered ones are budgets that the API server takes."""

import json

import pytest
import yaml
from click.testing import CliRunner

from harness import builders as b
from harness.controlplane.world import World
from rescheduler.cli.main import main


def run(*words):
    return CliRunner().invoke(main, ["budgets", *words], catch_exceptions=False)


@pytest.fixture
def dump(tmp_path, app):
    """In ``shop``: web without, api with, locked with one that allows nothing, twice with two, alone with one pod; in ``jobs``: batch without."""
    items = [b.node("n1").cpu(8), b.daemonset("agent", "shop")]
    for name, replicas, namespace in (
        ("web", 3, "shop"), ("api", 2, "shop"), ("locked", 2, "shop"), ("twice", 2, "shop"), ("alone", 1, "shop"), ("batch", 4, "jobs"),
    ):  # fmt: skip
        items += app(
            name, ["n1"] * replicas, make=lambda spec, name=name: spec.label(app=name), namespace=namespace
        )
    items += [b.pdb(name, "shop").selects(app=name).allows(1, healthy=2) for name in ("api", "twice")]
    items.append(b.pdb("other", "shop").selects(app="twice").allows(1, healthy=2))
    items.append(b.pdb("locked", "shop").selects(app="locked").allows(0, healthy=2))
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [one.manifest() for one in items]}))
    return str(path)


def test_each_workload_is_shown_with_what_is_wrong(dump):
    done = run("--from", dump, "-A")
    assert done.exit_code == 0
    found = {line.split()[1]: line for line in done.stdout.splitlines()[1:]}
    assert list(found) == [
        f"ReplicaSet/{name}" for name in ("batch", "alone", "api", "locked", "twice", "web")
    ]
    assert "all of its pods may be evicted at once" in found["ReplicaSet/web"]
    assert "locked never allows a disruption" in found["ReplicaSet/locked"]
    assert "the API server never evicts such a pod" in found["ReplicaSet/twice"]
    assert all(found[f"ReplicaSet/{name}"].endswith("OK") for name in ("api", "alone"))
    assert "6 workloads shown; 2 lack one" in done.stderr


def test_a_budget_that_allows_nothing_is_passed_by_a_deployment_that_starts_first(tmp_path):
    labels = {"app": "web", "pod-template-hash": "1"}

    def found(top, owner=None):
        owner = owner or top
        pod, budget = owner.pod("web-0").on("n1"), b.pdb("web").selects(app="web").allows(0, healthy=1)
        objects = {id(one): one.manifest() for one in (b.node("n1"), top, owner, pod, budget)}
        path = tmp_path / "dump.json"
        path.write_text(json.dumps({"kind": "List", "items": list(objects.values())}))
        return run("--from", str(path), "-A").stdout.splitlines()[1]

    above = b.deployment("web").replicas(1)
    declared = above.annotate({"rescheduler.dev/mode": "StartFirst"})
    owner = b.replicaset("web-1").template_label(labels).replicas(1)
    told = found(above, owner.owned_by(above))
    assert told.endswith(": loosen it, or annotate the Deployment rescheduler.dev/mode=StartFirst")
    assert found(declared, owner.owned_by(declared)).endswith("OK")
    stateful = found(b.statefulset("web").template_label(labels).replicas(1))
    assert stateful.endswith("never allows a disruption: loosen it"), "StatefulSets have no such mode"


@pytest.mark.parametrize(("words", "names"), [
    ((), ["batch", "web"]),
    (("-n", "shop"), ["web"]),
    (("-l", "app in (batch)"), ["batch"]),
    (("--min-replicas", "4"), ["batch"]),
    (("-n", "nowhere"), []),
])  # fmt: skip
def test_budgets_are_offered_where_there_are_none(dump, words, names):
    assert run("--from", dump, *words, "-o", "name").stdout.split() == [f"replicaset/{n}" for n in names]
    offered = json.loads(run("--from", dump, *words, "-o", "json").stdout)["items"]
    assert [one["metadata"]["name"] for one in offered] == names
    assert all(one["spec"]["maxUnavailable"] == "25%" for one in offered)


def test_the_limit_is_chosen(dump):
    (web,) = yaml.safe_load(run("--from", dump, "-n", "shop", "--max-unavailable", "1", "-o", "yaml").stdout)[
        "items"
    ]
    assert web["spec"]["maxUnavailable"] == 1
    assert web["spec"]["selector"] == {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize("most", ["0", "0%", "100%", "-1", "1.5", "a few", "٣", "25 %", ""])
def test_a_limit_that_is_none_is_refused(dump, most):
    done = run("--from", dump, "--max-unavailable", most)
    assert done.exit_code == 2
    assert "neither a number of pods (1) nor a share of them (25%)" in done.stderr


def test_a_budget_of_another_workload_with_that_name_stays(tmp_path, app):
    items = [
        b.node("n1"),
        b.pdb("web", "shop").selects(app="other"),
        *app("web", ["n1", "n1"], namespace="shop"),
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [one.manifest() for one in items]}))
    (offered,) = json.loads(run("--from", str(path), "-o", "json").stdout)["items"]
    assert offered["metadata"]["name"] == "web-pods"


@pytest.mark.realcluster
def test_the_api_server_takes_what_is_offered_and_then_nothing_is_lacking(control_plane):
    with World(control_plane.api(), "budgets") as world:
        world.node("n1", cpu="4")
        world.running("Deployment", "web", 3)
        words = ("-n", world.namespace, "--kubeconfig", str(control_plane.kubeconfig))
        offered = json.loads(run(*words, "-o", "json").stdout)["items"]
        assert [one["metadata"]["name"] for one in offered] == ["web"]
        world.api.create(world.path("poddisruptionbudgets", group="policy/v1"), offered[0]).expect()
        path = world.path("poddisruptionbudgets", "web", group="policy/v1")
        world.wait(lambda: world.api.get(path).expect().body["status"].get("disruptionsAllowed") == 1, 30)
        assert "OK" in run(*words).stdout
        assert not json.loads(run(*words, "-o", "json").stdout)["items"]
