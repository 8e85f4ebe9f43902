"""What others script against: the JSON of ``plan``, its bytes, its exit codes, and its files."""

import json
import random

import pytest

from harness.builders import node, replicaset
from rescheduler.model.names import LABEL_PLACEHOLDER, SCHEDULER_PROBE

from .conftest import NOW

KEYS = ["apiVersion", "kind", "metadata", "moves", "skipped", "rooms", "before", "after"]
MOVE_KEYS = [
    "pod", "controller", "from", "to", "policy", "reason", "message", "gain", "disruption", "mode",
    "effects",
]  # fmt: skip


@pytest.fixture
def crowded():
    """Three apps on one tainted node, room for them on several others that look alike."""
    items = [node("n0").taint("maintenance").manifest()]
    items += [node(f"n{index}").zone("ab"[index % 2]).manifest() for index in range(1, 6)]
    for name in ("web", "api", "db"):
        owner = replicaset(name, "shop").cpu("300m").replicas(4)
        items += [owner.manifest(), *(owner.pod(f"{name}-{i}").on("n0").manifest() for i in range(4))]
    return items


def planned(command, path, *more):
    result = command("plan", "--from", path, "--now", NOW, "-o", "json", *more)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_document_is_the_one_that_is_promised(command, dump, untidy):
    plan = json.loads(planned(command, dump(untidy)))
    assert list(plan) == KEYS
    assert (plan["apiVersion"], plan["kind"]) == ("rescheduler.dev/v1alpha1", "Plan")
    assert len(plan["moves"]) == 1
    move = plan["moves"][0]
    assert list(move) == MOVE_KEYS
    assert list(move["pod"]) == ["namespace", "name", "uid"]
    assert (move["pod"]["name"], move["from"], move["mode"]) == ("web-1", "n1", "ReserveFirst")
    assert move["controller"] == {"kind": "ReplicaSet", "name": "web"}
    assert move["gain"] > move["disruption"] > 0
    skipped = plan["skipped"][0]
    assert (skipped["pod"]["name"], skipped["reason"], skipped["blockedBy"]) == (
        "api-1",
        "DisruptionBudget",
        "shop/api",
    )
    assert skipped["message"]


def test_the_same_input_gives_the_same_bytes(command, dump, crowded):
    path = dump(crowded)
    assert planned(command, path) == planned(command, path)
    assert (
        command("plan", "--from", path, "-o", "html").stdout
        == command("plan", "--from", path, "-o", "html").stdout
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_objects_does_not_matter(command, dump, crowded, seed):
    shuffled = random.Random(seed).sample(crowded, len(crowded))  # noqa: S311 - a seeded order
    assert planned(command, dump(shuffled)) == planned(command, dump(crowded))


def test_exit_code_3_says_that_something_stays(command, dump, untidy):
    path = dump(untidy)
    assert command("plan", "--from", path, "--exit-code").exit_code == 3
    assert command("plan", "--from", path).exit_code == 0
    without_budget = dump([each for each in untidy if each["kind"] != "PodDisruptionBudget"], "free.json")
    assert command("plan", "--from", without_budget, "--exit-code").exit_code == 0


def test_next_cycle_keeps_to_the_limits(command, dump, crowded):
    path = dump(crowded)
    everything = json.loads(planned(command, path))
    now = json.loads(planned(command, path, "--next-cycle"))
    assert len(everything["moves"]) == 12
    assert 0 < len(now["moves"]) < 12
    assert now["moves"][0] == everything["moves"][0]
    assert {s["reason"] for s in now["skipped"]} <= {
        "LimitPerWorkload", "LimitPerNode", "LimitMovesAtOnce", "LimitPerNamespace",
    }  # fmt: skip


def test_a_plan_ends_with_the_most_moves_and_counts_the_rest(command, dump, crowded):
    path = dump(crowded)
    everything = json.loads(planned(command, path, "--max-moves", "all"))
    some = json.loads(planned(command, path, "--max-moves", "5"))
    assert some["moves"] == everything["moves"][:5]
    assert some["before"]["policies"][0] == everything["before"]["policies"][0]
    assert [s["reason"] for s in some["skipped"]] == ["LimitMovesOfPlan"] * 7
    assert {s["blockedBy"] for s in some["skipped"]} == {"--max-moves"}
    assert some["after"]["policies"][0]["badlyPlaced"] == 7
    words = "and 7 more badly placed pods: --max-moves all plans their moves too"
    for form in ("text", "html"):
        assert words in command("plan", "--from", path, "--max-moves", "5", "-o", form).stdout
        assert words not in command("plan", "--from", path, "-o", form).stdout
    assert command("plan", "--from", path, "--max-moves", "5", "--exit-code").exit_code == 3
    assert json.loads(planned(command, path, "--max-moves", "0"))["moves"] == []
    refused = command("plan", "--from", path, "--max-moves", "many")
    assert refused.exit_code == 2
    assert "is neither a number up to 1000000 nor 'all'" in refused.stderr


def test_files_and_standard_output_hold_the_same(command, dump, untidy, tmp_path):
    path = dump(untidy)
    target = tmp_path / "plan.html"
    result = command("plan", "--from", path, "-o", "html", "--output-file", target)
    assert result.stdout == ""
    assert target.read_text() == command("plan", "--from", path, "-o", "html").stdout


def test_no_colour_where_there_is_no_terminal(command, dump, untidy):
    path = dump(untidy)
    assert "\x1b[" not in command("plan", "--from", path).output
    coloured = command("plan", "--from", path, env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[1mMOVES" in coloured


def test_explain_says_why_for_every_node(command, dump, untidy):
    path = dump(untidy)
    result = command("explain", "pod", "shop/web-1", "--from", path, "-o", "json")
    document = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    verdicts = {each["name"]: each for each in document["nodes"]}
    assert verdicts["n1"]["feasible"] is False
    assert verdicts["n1"]["reasons"][0]["plugin"] == "TaintToleration"
    assert verdicts["n2"]["feasible"] is True
    assert verdicts["n2"]["score"] > verdicts["n2"]["scores"]["NodeResourcesFit"] > 0
    text = command("explain", "pod", "-n", "shop", "web-1", "--from", path).stdout
    assert "2 of 3 nodes would take it" in text


def test_all_pending_says_of_each_pod_what_is_said_of_it_alone(command, dump):
    """Interchangeable pods are judged once; one with another request, or nominated, is judged for itself."""
    web, api = replicaset("web", "shop").cpu("900m"), replicaset("api", "shop").cpu("100m")
    nominated = web.pod("web-nominated").nominated("n1")
    waiting = [*(web.pod(f"web-{n}") for n in range(3)), api.pod("api-0"), nominated]
    question = web.pod("question").label({LABEL_PLACEHOLDER: SCHEDULER_PROBE})
    items = [node("n1").cpu("1"), node("n2").cpu("500m"), web, api, *waiting, question]
    path = dump([item.manifest() for item in items])
    together = command("explain", "pod", "--all-pending", "--from", path, "-o", "json").stdout.splitlines()
    each = sorted(f"shop/{item.manifest()['metadata']['name']}" for item in waiting)
    alone = [command("explain", "pod", name, "--from", path, "-o", "json").stdout.strip() for name in each]
    assert together == alone
    plan = json.loads(command("plan", "--from", path, "-o", "json").stdout)
    assert plan["before"]["pendingPods"] == len(waiting)
    verdicts = {json.loads(line)["pod"]["name"]: json.loads(line)["nodes"] for line in together}
    assert verdicts["web-0"] == verdicts["web-1"] != verdicts["api-0"]
    assert [each["feasible"] for each in verdicts["web-nominated"]] == [True, False]
    assert [each["feasible"] for each in verdicts["web-0"]] == [False, False]


def test_a_report_on_a_terminal_tells_each_warning_once(command, dump, crowded, monkeypatch):
    path, warning = dump(crowded), "the dump has no PodDisruptionBudgets"
    apart = command("plan", "--from", path)
    assert warning in apart.stderr
    assert warning in apart.stdout
    monkeypatch.setattr("rescheduler.cli.plan.terminal_width", lambda: 2000)
    report = command("plan", "--from", path)
    assert warning in report.stdout
    assert warning not in report.stderr
    assert warning in command("plan", "--from", path, "-o", "json").stderr
