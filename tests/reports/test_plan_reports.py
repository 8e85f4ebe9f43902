"""Reports of a Plan: complete, the same bytes each time, safe against names, openable anywhere."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import msgspec
import pytest
import yaml

from rescheduler.model.migration import MoveMode
from rescheduler.planning.plan import (
    ClusterSummary,
    Move,
    NodeSummary,
    OwnerName,
    Plan,
    PlanBound,
    PlanMetadata,
    PodRef,
    PolicySummary,
    Question,
    Skipped,
    SkipReason,
    stages_of,
)
from rescheduler.reports.html.page import plan_html
from rescheduler.reports.structured import pretty_json, pretty_yaml
from rescheduler.reports.text import plan_text


def node(name, cpu, memory, pods, zone="a"):
    return NodeSummary(
        name=name, zone=zone, pods=pods, pods_allocatable=110, cpu_requested_milli=cpu,
        cpu_allocatable_milli=4000, memory_requested_bytes=memory << 30, memory_allocatable_bytes=16 << 30,
    )  # fmt: skip


def summary(nodes, badly):
    return ClusterSummary(
        nodes=tuple(nodes),
        policies=(PolicySummary(name="LowNodeUtilization", badly_placed=badly, gain=0.3),),
        pods=sum(n.pods for n in nodes),
        pending_pods=1,
        empty_nodes=sum(1 for n in nodes if not n.pods),
        cpu_imbalance=0.41 if badly else 0.02,
        memory_imbalance=0.2,
    )


@pytest.fixture
def plan():
    return Plan(
        metadata=PlanMetadata(generated_at="2026-11-21T10:00:00Z", aggressiveness=0.5, source="dump.json"),
        moves=(
            Move(
                pod=PodRef("shop", "web-<b>1", "uid-1"),
                controller=OwnerName("ReplicaSet", "web"),
                source="n1",
                target="n2",
                policy="LowNodeUtilization",
                reason="Overloaded",
                message="n1 requests 95% of cpu",
                gain=0.3125,
                disruption=0.05,
                mode=MoveMode.RESERVE_FIRST,
            ),
        ),
        skipped=tuple(
            Skipped(
                pod=PodRef("shop", f"db-{i}"),
                policy="NodeTaints",
                reason=SkipReason.DISRUPTION_BUDGET,
                message="allows 0 of 3",
                blocked_by="shop/db",
                node="n1",
            )
            for i in range(3)
        ),
        before=summary([node("n1", 3800, 12, 20), node("n2", 0, 0, 0, "b")], 4),
        after=summary([node("n1", 2000, 6, 10), node("n2", 1800, 6, 10, "b")], 0),
    )


def test_json_is_the_contract_of_the_design(plan):
    document = json.loads(pretty_json(plan))
    assert document["apiVersion"] == "rescheduler.dev/v1alpha1"
    assert document["kind"] == "Plan"
    move = document["moves"][0]
    assert move["pod"] == {"namespace": "shop", "name": "web-<b>1", "uid": "uid-1"}
    assert (move["from"], move["to"], move["mode"]) == ("n1", "n2", "ReserveFirst")
    assert document["skipped"][0]["reason"] == "DisruptionBudget"
    assert set(document) == {"apiVersion", "kind", "metadata", "moves", "skipped", "rooms", "before", "after"}


def test_yaml_says_the_same_as_json(plan):
    assert yaml.safe_load(pretty_yaml(plan)) == json.loads(pretty_json(plan))


def test_text_names_moves_and_groups_what_stays(plan):
    text = plan_text(plan)
    assert "shop/web-<b>1  n1    n2  LowNodeUtilization" in text
    assert "DisruptionBudget     3  shop/db" in text
    assert "95% ->  50%" in text
    assert "\x1b" not in text


def test_text_of_a_plan_without_moves(plan):
    text = plan_text(msgspec.structs.replace(plan, moves=(), after=plan.before))
    assert "Nothing to move." in text


def test_moves_that_begin_after_others_name_them_everywhere(plan):
    assert "after" not in json.loads(pretty_json(plan))["moves"][0], (
        "nothing is said of moves that begin at once"
    )
    first = plan.moves[0]
    later = msgspec.structs.replace(first, pod=PodRef("shop", "db-9", "uid-9"), after=(first.pod,))
    staged = msgspec.structs.replace(plan, moves=(first, later))
    named = {"namespace": "shop", "name": "web-<b>1", "uid": "uid-1"}
    assert json.loads(pretty_json(staged))["moves"][1]["after"] == [named]
    assert msgspec.json.decode(msgspec.json.encode(staged), type=Plan) == staged
    lines = plan_text(staged).splitlines()
    assert any(line.split()[:3] == ["#", "AFTER", "POD"] for line in lines)
    assert any(line.split()[:3] == ["2", "1", "shop/db-9"] for line in lines)
    second = data_of(plan_html(staged))["moves"][1]
    assert (second["number"], second["after"], second["pod"]) == (2, "1", "shop/db-9")
    assert stages_of(staged.moves) == [1, 2]
    with pytest.raises(LookupError):
        stages_of((later, first))


def data_of(page):
    return json.loads(page.partition('id="plan">')[2].partition("</script>")[0])


class _Checker(HTMLParser):
    VOID = frozenset({"meta", "br", "input"})

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.stack, self.texts, self.fetched = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.stack.append(tag)
        self.fetched += [value for key, value in attrs if key in ("src", "href")]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.stack.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_html_is_well_formed_self_contained_and_escaped(plan):
    page = plan_html(plan)
    checker = _Checker()
    checker.feed(page)
    assert checker.stack == []
    assert checker.fetched == []
    assert "https" not in page
    assert data_of(page)["moves"][0]["pod"] == "shop/web-<b>1"
    assert "web-<b>1" not in page


def test_the_page_may_run_its_own_script_and_nothing_else(plan):
    hostile = "</script><script>document.title=1</script>"
    renamed = msgspec.structs.replace(plan.moves[0], pod=PodRef(hostile, hostile), message=hostile)
    page = plan_html(msgspec.structs.replace(plan, moves=(renamed,)))
    assert page.count("<script") == page.count("</script>") == 2
    assert data_of(page)["moves"][0]["pod"] == f"{hostile}/{hostile}"
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)[0]
    style = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)[0]
    for text in (script, style):
        assert (
            base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in page.partition("<body>")[0]
        )
    assert "default-src 'none'" in page
    assert "unsafe" not in page.partition("<style>")[0]
    assert " style=" not in page
    assert " onclick=" not in page


def test_the_same_plan_gives_the_same_bytes(plan):
    again = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)
    assert plan_html(plan) == plan_html(again)
    assert pretty_json(plan) == pretty_json(again)
    assert plan_text(plan) == plan_text(again)


def test_a_large_plan_stays_readable_and_says_what_it_leaves_out(plan):
    many = tuple(msgspec.structs.replace(plan.skipped[0], pod=PodRef("shop", f"p-{i}")) for i in range(1000))
    page = plan_html(msgspec.structs.replace(plan, skipped=many))
    assert "and 800 more" in page
    assert ">1,000</td>" in page


def test_the_bounds_of_a_proved_plan_are_in_text_and_page(plan):
    bounds = (
        PlanBound(question=Question.NODES_EMPTIED, reached=3, bound=4, gap=0.25, solver_seconds=1.5, notes=("a <note>",)),
        PlanBound(question=Question.ROOMS_MADE, reached=2, bound=2, gap=0.0, proven=True),
    )  # fmt: skip
    assert "Beside the best plan" not in plan_html(plan)
    proved = msgspec.structs.replace(plan, bounds=bounds)
    page = plan_html(proved)
    for cell in ("nodes emptied", "25.0%", "1.5 s", "a &lt;note&gt;", "rooms made", "none: proven"):
        assert f">{cell}</td>" in page
    assert "BESIDE THE BEST PLAN THERE CAN BE" in plan_text(proved)
    assert "none: proven" in plan_text(proved)


def test_the_report_shows_its_moves_in_a_real_browser(plan, browser, tmp_path):
    path = tmp_path / "plan.html"
    path.write_text(plan_html(plan), encoding="utf-8")
    dom = browser(path.as_uri())
    assert "shop/web-&lt;b&gt;1</td>" in dom
    assert 'class="cell load-' in dom
    assert ">DisruptionBudget</td>" in dom
