"""The live page and the report in a real browser: what they show while work is done, and that phones show all of it.

With RESCHEDULER_PICTURES=FOLDER each page is also stored there as PNG (those of the README, light and dark: ``docs/pictures``).
"""

import os
import re
from pathlib import Path

import pytest

from harness import builders as b
from rescheduler.configuration.document import Configuration
from rescheduler.configuration.policies_section import ConfiguredPolicy
from rescheduler.controller.crashes import CrashReports
from rescheduler.controller.cycle import Cycle
from rescheduler.controller.issuing import DryRunIssuer
from rescheduler.controller.live_page import Health, LivePage
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.server import HttpAnswer, Server
from rescheduler.model.measured import NodeUsage
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.own_objects import Condition
from rescheduler.model.reservation import (
    ControllerRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import HeadRoom, HeadRoomStatus, ReservationWindow, WindowPhase, WindowStatus
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import Limits
from rescheduler.policies.node_taints import NodeTaintsArgs
from rescheduler.reports.html.page import plan_html
from rescheduler.reports.status_document import ControllerStatus, Presence
from rescheduler.scheduling.state import SharedSchedulingState

CONFIGURATION = Configuration(
    limits=Limits(moves_at_once=4), policies=(ConfiguredPolicy(name="NodeTaints", args=NodeTaintsArgs()),)
)
RUNS = Health(
    controller=ControllerStatus(
        presence=Presence.LEADING, holder="rescheduler-6d9f", leads_since="2026-11-27T06:00:00Z"
    )
)
STOPPED = Health(
    controller=ControllerStatus(
        presence=Presence.STOPPED,
        holder="rescheduler-6d9f",
        renewed="2026-11-27T06:00:00Z",
        message="Deployment rescheduler-system/rescheduler has 0 replicas",
        remedy="kubectl -n rescheduler-system scale deployment rescheduler --replicas 1",
    ),
    configuration="policies[0].name: unknown policy NodeTains (did you mean NodeTaints?)",
)
MEASURE = """
addEventListener("load", () => setInterval(() => {
  const wide = [...document.querySelectorAll("td, p, dd, .card, h2, input, select")].filter(
    (one) => one.offsetParent && one.getBoundingClientRect().right > document.documentElement.clientWidth);
  document.body.dataset.window = innerWidth;  // full Chromium opens none below 500
  document.body.dataset.width = document.documentElement.scrollWidth;
  document.body.dataset.beyond = wide.map((one) => one.textContent.slice(0, 40)).join("|");
}, 100));
"""


def move(now_s, number, phase, reason, message="", **times):
    status = MigrationStatus(
        phase=phase, reason=reason, message=message, source_node="node-001",
        node_name=f"node-{number + 3:03}", **{key: now_s - ago for key, ago in times.items()},
    )  # fmt: skip
    return PodMigration(
        namespace="shop", name=f"m{number}", uid=f"m{number}", pod_name=f"web-{number}", status=status,
        created_at_s=now_s - 90,
    )  # fmt: skip


def moves(now_s):
    steps = MigrationPhase
    return (
        move(
            now_s,
            0,
            steps.EVICTING,
            "WaitingForReplacement",
            started_at_s=42,
            reserved_at_s=30,
            evicted_at_s=12,
        ),
        move(now_s, 1, steps.RESERVING, "Reserving", started_at_s=8),
        move(
            now_s,
            2,
            steps.RESERVING,
            "DisruptionBudget",
            "PodDisruptionBudget shop/web allows no disruption now: 2 of 3 pods are healthy",
            started_at_s=400,
            reserved_at_s=390,
        ),
        move(
            now_s,
            3,
            steps.SUCCEEDED,
            "Landed",
            "landed on node-006, as reserved",
            started_at_s=300,
            reserved_at_s=295,
            evicted_at_s=290,
            landed_at_s=280,
            finished_at_s=280,
        ),
    )


def held(now_s):
    owner = (ReservationOwner(controller=ControllerRef(kind="Deployment", name="web", namespace="shop")),)
    three = Resources(cpu_milli=3000, memory_bytes=4 << 30)
    free = ReservationStatus(phase=ReservationPhase.AVAILABLE, node_name="node-005", allocatable=three, expires_at_s=now_s + 3600, conditions=(
        Condition(type="Scheduled", status="True", reason="", last_transition_time="2026-11-27T07:00:00Z"),
    ))  # fmt: skip
    short = ReservationStatus(phase=ReservationPhase.PENDING, conditions=(
        Condition(type="Scheduled", status="False", reason="NoFeasibleNode", message="0 of 12 nodes fit: 12 have too little cpu"),
    ))  # fmt: skip
    return (
        Reservation(name="black-friday", uid="r1", owners=owner, created_at_s=now_s - 7000, status=free),
        Reservation(name="batch", uid="r2", owners=owner, created_at_s=now_s - 60, status=short),
    )


def cluster(nodes, *, busy):
    made = [b.node(f"node-{i:03}").zone(f"zone-{'abc'[i % 3]}").cpu(8) for i in range(1, nodes + 1)]
    made[0] = made[0].cordoned().taint("old")
    names = ("web", "api", "cart", "search", "mail", "auth", "pay", "stock")
    owners = {
        name: b.replicaset(name, "shop").replicas(3).requests(cpu=f"{500 + 200 * (i % 4)}m", memory="1Gi")
        for i, name in enumerate(names)
    }
    spread = min(nodes, 6) if busy else nodes
    pods = [
        owner.pod(f"{name}-{i}").on(f"node-{1 + (3 * n + i) % spread:03}")
        for n, (name, owner) in enumerate(owners.items())
        for i in range(3)
    ]
    seen = b.snapshot(*made, *owners.values(), *pods)
    now_s = seen.taken_at_s
    if not busy:
        return seen
    usage = {
        one: NodeUsage(node=one, cpu_milli=600 + 90 * i, memory_bytes=2 << 30)
        for i, one in enumerate(seen.nodes)
    }
    window = ReservationWindow(
        name="nightly",
        uid="w1",
        status=WindowStatus(
            phase=WindowPhase.GATHERING, start_s=now_s + 1800, end_s=now_s + 5400, wanted=10, gathered=7
        ),
    )
    spare = HeadRoom(
        name="spare",
        uid="h1",
        rooms=2,
        created_at_s=now_s - 90000,
        status=HeadRoomStatus(wanted=2, standing=2),
    )
    return Snapshot(
        taken_at_s=now_s, nodes=seen.nodes, pods=seen.pods, workloads=seen.workloads,
        reservations={one.name: one for one in held(now_s)}, windows={"nightly": window},
        head_rooms={"spare": spare}, migrations={one.key: one for one in moves(now_s)}, usage=usage,
    )  # fmt: skip


def decided(snapshot):
    cycle = Cycle(
        issuer=DryRunIssuer(),
        metrics=Metrics(),
        states=SharedSchedulingState(),
        crashes=CrashReports(),
        whole_plans=True,
    )
    return cycle.run(snapshot, CONFIGURATION, gate_ready=True)


@pytest.fixture
def show(browser):
    """show(page or the text of a report, name) -> its document, at the width of a desktop and of a phone."""
    servers = []

    def shown(page, name, **options):
        if isinstance(page, LivePage):
            routes = page.routes()
            script = routes["/live.js"]()
            measured = HttpAnswer(body=script.body + MEASURE.encode(), content_type=script.content_type)
            routes = {**routes, "/live.js": lambda: measured}
        else:
            answer = HttpAnswer(body=page.encode(), content_type="text/html; charset=utf-8")
            routes = {"/": lambda: answer}
        servers.append(Server(port=0, host="127.0.0.1", routes=routes))
        servers[-1].start()
        url = f"http://127.0.0.1:{servers[-1].port}/"
        if folder := os.environ.get("RESCHEDULER_PICTURES"):
            browser(url, picture=Path(folder).resolve() / f"{name}.png", **options)
        return browser(url, **options)

    yield shown
    for one in servers:
        one.stop()


def live(snapshot, health=RUNS, **options):
    page = LivePage(health=lambda: health, source="rescheduler-6d9f", **options)
    page.publish(snapshot, decided(snapshot))
    return page


def text(dom):
    """What is seen, in one line."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r"<svg.*?</svg>", " ", dom, flags=re.DOTALL)))


def test_while_work_is_done_it_says_what_is_done_and_what_waits_for_whom(show):
    seen = text(show(live(cluster(12, busy=True)), "page-at-work", height=1500))
    assert "3 moves under way, 1 waits (DisruptionBudget 1)" in seen
    assert "Nothing to move" not in seen
    assert "1 pod evicted and not bound yet" in seen
    assert "node-003 Evicting 42 s reserved 12 s, evicted 30 s" in seen
    assert "rescheduler-6d9f leads since 2026-11-27T06:00:00Z" in seen
    assert "in place: replacements wait for their room" in seen


def test_what_is_held_is_shown_with_for_whom_since_when_and_until_when(show):
    seen = text(show(live(cluster(12, busy=True)), "page-at-work-dark", height=1500, dark=True))
    assert "reservation/black-friday Available deployment/web of namespace shop" in seen
    assert "in 60 min" in seen
    assert "0 of 12 nodes fit: 12 have too little cpu" in seen
    assert "window/nightly Gathering, 7 of 10 held" in seen
    assert "head-room/spare Standing, 2 of 2 held" in seen


def test_a_controller_that_has_stopped_and_a_refused_configuration_are_said_first(show):
    seen = text(show(live(cluster(3, busy=False), STOPPED), "page-stopped"))
    assert "NOT RUNNING: rescheduler-6d9f led last" in seen
    assert "kubectl -n rescheduler-system scale deployment rescheduler --replicas 1" in seen
    assert "unknown policy NodeTains" in seen
    assert seen.index("NOT RUNNING") < seen.index("Moves under way")


def test_before_the_first_decision_moves_are_shown_all_the_same(show):
    page = LivePage(health=lambda: RUNS)
    page.publish(cluster(12, busy=True), None)
    seen = text(show(page, "page-undecided"))
    assert "there was no decision yet" in seen
    assert "3 moves under way" in seen
    assert "shop/web-2" in seen


def test_an_old_state_is_told(show):
    now_s = 0.0
    page = live(cluster(3, busy=False), clock=lambda: now_s)
    now_s = 200.0
    dom = show(page, "page-old")
    assert re.search(r"State of [-0-9]+ [:0-9]+ UTC \(3 min ago\); decided", text(dom))
    assert 'id="about" class="faint warning"' in dom


def test_idle_it_says_so(show):
    calm = b.snapshot(*(b.node(f"node-{i}") for i in range(3)))
    assert "Nothing to move" in text(show(live(calm), "page-idle"))


@pytest.mark.parametrize(("nodes", "width"), [(12, 390), (5000, 390), (5000, 1440)])
def test_on_a_phone_and_on_a_desk_nothing_is_beyond_the_edge(show, nodes, width):
    dom = show(live(cluster(nodes, busy=True)), f"page-{width}-{nodes}", width=width, height=2400)
    (window,) = re.findall(r'data-window="(\d+)"', dom)
    assert width <= int(window) <= max(width, 500)
    assert f'data-width="{window}"' in dom
    assert 'data-beyond=""' in dom


def test_regions_tables_and_inputs_have_names(show):
    dom = show(live(cluster(12, busy=True)), "page-names")
    for tag in re.findall(r"<(?:section|select|input)\b[^>]*>", dom):
        assert "aria-label" in tag, tag
    for tag in re.findall(r'<div class="scroll"[^>]*>', dom):
        assert 'role="region"' in tag
        assert "aria-label=" in tag
    assert dom.count("<table") == dom.count("<caption")
    assert "<header" in dom
    assert "<main" in dom


@pytest.mark.parametrize("dark", [False, True])
def test_the_report_is_drawn(show, dark):
    plan = decided(cluster(12, busy=False)).plan
    dom = show(plan_html(plan), f"report{'-dark' if dark else ''}", dark=dark, height=1200)
    assert dom.count("<table") == dom.count("<caption")
    assert "shop/web-" in dom
