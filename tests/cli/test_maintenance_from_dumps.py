"""Drains and consolidations planned from a dump, as in CI; label queries there; what policies that are off would find."""

import json

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from harness import builders as b
from rescheduler.cli.errors import CommandError
from rescheduler.cli.label_query import label_query
from rescheduler.cli.main import main
from rescheduler.cli.move_checks import check_moves
from rescheduler.configuration.document import default_configuration
from rescheduler.model.selectors import LabelSet
from rescheduler.planning.limits import Protections
from rescheduler.policies.wire import NamespaceFilter

WEB = {"app": "web", "tier": "front"}


@pytest.fixture
def dump(tmp_path, app):
    """A dump of three nodes, the first two of pool old, with three pods on the first."""
    owner, *pods = app("web", ["n1", "n1", "n2"], make=lambda spec: spec.cpu("500m"), namespace="shop")
    nodes = [b.node(f"n{i}").cpu(4).label(pool="old" if i < 3 else "new") for i in (1, 2, 3)]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [one.manifest() for one in (*nodes, owner, *pods)]}))
    return str(path)


def run(*words):
    return CliRunner().invoke(main, [*words], catch_exceptions=False)


def test_a_drain_is_planned_from_a_dump(dump):
    done = run("drain", "n1", "--from", dump, "--plan", "-o", "json")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert plan["kind"] == "DrainPlan"
    assert plan["nodes"] == ["n1"]
    assert [move["from"] for move in plan["moves"]] == ["n1", "n1"]
    assert {move["to"] for move in plan["moves"]} <= {"n2", "n3"}


def test_a_drain_from_a_dump_chooses_nodes_by_labels(dump):
    done = run("drain", "-l", "pool in (old,older)", "--from", dump, "--dry-run", "-o", "json")
    assert json.loads(done.stdout)["nodes"] == ["n1", "n2"]
    assert {move["to"] for move in json.loads(done.stdout)["moves"]} == {"n3"}


def test_a_consolidation_is_planned_from_a_dump(dump):
    done = run("consolidate", "--from", dump, "--plan", "-o", "json")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert plan["kind"] == "Consolidation"
    assert len(plan["nodes"]) == 2


@pytest.mark.parametrize("words", [("drain", "n1"), ("consolidate",)])
def test_nothing_can_be_changed_in_a_dump(dump, words):
    done = run(*words, "--from", dump)
    assert done.exit_code == 2
    assert "add --plan" in done.stderr


@pytest.mark.parametrize(("words", "message"), [
    (("drain", "n9"), "there is no node/n9"),
    (("drain", "-l", "pool=none"), "no node has the labels pool=none"),
])  # fmt: skip
def test_what_a_dump_does_not_have_is_refused(dump, words, message):
    done = run(*words, "--from", dump, "--plan")
    assert done.exit_code in (1, 2)
    assert message in done.stderr


@pytest.mark.parametrize(("query", "selected"), [
    ("", True),
    ("app=web", True),
    ("app==web,tier", True),
    ("app!=web", False),
    ("other!=web", True),
    ("!other", True),
    ("!app", False),
    ("app in (db, web)", True),
    ("app notin (db,web),tier", False),
    ("app in (db),tier=front", False),
])  # fmt: skip
def test_label_queries_select_as_with_kubectl(query, selected):
    assert label_query("-l", query).matches(LabelSet(WEB)) is selected


@pytest.mark.parametrize("query", ["=web", "app in web", "app=web,", "app=(web)", "a b", "!", "app in ()x"])
def test_what_is_no_label_query_is_refused_with_an_example(query):
    with pytest.raises(CommandError, match="write it like") as refused:
        label_query("-l", query)
    assert refused.value.exit_code == 2


def test_plan_takes_whole_label_queries(dump):
    done = run("plan", "--from", dump, "-l", "app in (web),!canary")
    assert done.exit_code == 0, done.output


def test_plan_names_policies_that_are_off_and_would_move_pods(dump):
    done = run("plan", "--from", dump)
    assert "HighNodeUtilization is off: it would move" in done.stderr
    assert "HighNodeUtilization" not in done.stdout
    assert "is off" not in run("plan", "--from", dump, "-o", "json").stderr


@pytest.mark.parametrize(("threshold", "moves"), [(1, False), (50, True)])
def test_a_policy_that_is_off_is_judged_by_its_own_arguments(dump, tmp_path, threshold, moves):
    """With its defaults it would move pods of this dump."""
    off = f"{{name: HighNodeUtilization, enabled: false, thresholds: {{cpu: {threshold}}}, targetThresholds: {{cpu: 90}}}}"
    path = tmp_path / "config.yaml"
    head = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
    path.write_text(f"{head}policies: [{off}, {{name: NodeTaints}}]\n")
    done = run("plan", "--from", dump, "--config", str(path))
    assert ("HighNodeUtilization is off" in done.stderr) is moves, done.output


def test_plan_lists_the_names_of_pods_that_move(tmp_path, app):
    owner, *pods = app("web", ["n1"], namespace="shop")
    items = [b.node("n1").taint("old"), b.node("n2"), owner, *pods]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [one.manifest() for one in items]}))
    assert run("plan", "--from", str(path), "-o", "name").stdout == "pod/web-0\n"
    assert yaml.safe_load(run("plan", "--from", str(path), "-o", "yaml").stdout)["kind"] == "Plan"


def test_a_move_of_a_pod_under_two_budgets_is_refused_as_a_drain_does(app):
    owner, pod = app("web", ["n1"], namespace="shop")
    budgets = [b.pdb(name, "shop").selects(app="web") for name in ("one", "two")]
    snapshot = b.snapshot(b.node("n1"), b.node("n2"), owner, pod, *budgets)
    (checked,) = check_moves(snapshot, default_configuration(), list(snapshot.pods.values()))
    assert "2 PodDisruptionBudgets select it (shop/one, shop/two)" in checked.refusal


@pytest.mark.parametrize(("change", "protections", "refusal"), [
    (lambda p: p.claim("data"), {}, "uses persistent volumes (protections.persistentVolumes)"),
    (lambda p: p.priority(2_000_000), {}, "has priority 2000000, at or above 1000000 (protections.priorityThreshold)"),
    (lambda p: p.label(a="b"), {"without_budget": True}, "is selected by no PodDisruptionBudget (protections.withoutBudget)"),
    (lambda p: p.label(a="b"), {"namespaces": NamespaceFilter(exclude=("shop",))}, "is in a namespace that is left alone (protections.namespaces (shop))"),
    (lambda p: p.label(a="b"), {"min_replicas": 2}, "belongs to ReplicaSet shop/web, which has 1 of at least 2 replicas (protections.minReplicas)"),
    (lambda p: p.annotate({"rescheduler.dev/evict": "false"}), {}, "is annotated rescheduler.dev/evict=false"),
])  # fmt: skip
def test_the_refusal_of_a_move_names_the_key_of_the_configuration_that_keeps_the_pod(
    app, change, protections, refusal
):
    owner, pod = app("web", ["n1"], namespace="shop")
    snapshot = b.snapshot(b.node("n1"), b.node("n2"), owner, change(pod))
    configured = msgspec.structs.replace(default_configuration(), protections=Protections(**protections))
    (checked,) = check_moves(snapshot, configured, list(snapshot.pods.values()))
    assert checked.refusal == f"the pod {refusal}"
