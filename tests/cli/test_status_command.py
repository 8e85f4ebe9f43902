"""``rescheduler status`` on one screen, and as JSON."""

import json

import pytest

from harness import builders as b
from harness import documents
from rescheduler.cli import status_gathering as gathering
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.live_controller import ReadConfiguration
from rescheduler.configuration.document import Configuration
from rescheduler.configuration.policies_section import ConfiguredPolicy
from rescheduler.policies.node_taints import NodeTaintsArgs
from rescheduler.reports.cluster_status import ClusterPicture, SeenObjects
from rescheduler.reports.status_document import (
    Blocker,
    ClusterStatus,
    ControllerStatus,
    Presence,
    ShownMove,
    ShownPolicy,
)
from rescheduler.reports.status_text import status_text

MOVES = "/apis/rescheduler.dev/v1alpha1/namespaces/default/podmigrations"


def crowded(count=30):
    """A report with long names everywhere."""
    long = "a-very-long-name-of-something-" * 4
    move = ShownMove(
        namespace="shop", pod=long, source=long, target="n2", phase="Evicting", reason="DisruptionBudget",
        message=f"PDB {long} allows 0", by="user \x1b[2Jeve",
    )  # fmt: skip
    return ClusterStatus(
        controller=ControllerStatus(presence=Presence.LEADING, holder=long, leads_since="2026-11-21T10:00:00Z"),
        gate="InForce", configuration="", moves=(move,) * count,
        policies=tuple(ShownPolicy(name=f"P{i}", badly_placed=i) for i in range(count)),
        blocked=tuple(Blocker(reason="Protected", blocked_by=f"x{i}{long}", pods=9) for i in range(count)),
        warnings=("\x1b[31m" + long,),
    )  # fmt: skip


@pytest.mark.parametrize("width", [80, 100])
def test_it_is_one_screen_whatever_the_names_are(width):
    lines = status_text(crowded(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 40
    assert "\x1b" not in "".join(lines)
    assert "30 moves under way, the first 8" in lines


def test_a_controller_at_work_and_a_move_that_waits(work, status):
    (pod,) = work.deploy("web", 1)
    work.api.create(MOVES, documents.migration("rest", pod, paused=True, ttl="2m")).expect()
    work.wait(lambda: (work.api.get(f"{MOVES}/rest").body.get("status") or {}).get("reason") == "Paused")
    done = status()
    assert done.exit_code == 0, done.output
    assert "leads since" in done.stdout
    assert "in place: replacements wait for their room" in done.stdout
    assert "1 move under way" in done.stdout
    assert f"default/{pod}" in done.stdout
    found = json.loads(status("-o", "json").stdout)
    assert (found["kind"], found["controller"]["presence"], found["gate"]) == ("Status", "Leading", "InForce")
    assert [(m["pod"], m["reason"]) for m in found["moves"]] == [(pod, "Paused")]
    assert "what is badly placed is not known: the cluster was not read" in status("--no-plan").stdout
    assert "no policy is configured: nothing is badly placed" in done.stdout
    assert json.loads(status("-o", "json", "--no-plan").stdout)["moves"] == found["moves"]
    work.api.delete(f"{MOVES}/rest")
    work.remove("Deployment", "web")


def test_what_is_badly_placed_and_what_blocks_it(work, status):
    (pod,) = work.deploy("cache", 1, node="n1", volumes=[{"name": "scratch", "emptyDir": {}}])
    assert pod
    taint = {"spec": {"taints": [{"key": "old", "effect": "NoSchedule"}]}}
    work.api.patch("/api/v1/nodes/n1", taint).expect()
    path = "/api/v1/namespaces/rescheduler/configmaps/rescheduler"
    before = work.api.get(path).body["data"]["config.yaml"]
    document = {**json.loads(before), "interval": "1h", "policies": [{"name": "NodeTaints"}]}
    work.api.patch(path, {"data": {"config.yaml": json.dumps(document)}}).expect()
    found = json.loads(status("-o", "json").stdout)
    assert found["policies"] == [
        {"name": "NodeTaints", "badlyPlaced": 1},
        {"name": "WorkloadSpread", "badlyPlaced": 0},
    ]
    assert found["blocked"] == [{"reason": "Protected", "blockedBy": "protections.localStorage", "pods": 1}]
    told = status().stdout
    assert "1 badly placed pod; the next decision would begin 0 moves" in told
    assert "NodeTaints counts at once here" in " ".join(told.split())
    assert "(5m0s) since it was seen" in told
    work.api.patch(path, {"data": {"config.yaml": before}}).expect()
    work.api.patch("/api/v1/nodes/n1", {"spec": {"taints": None}}).expect()
    work.remove("Deployment", "cache")


def test_watching_reads_the_cluster_again_only_after_ten_times_as_long_as_that_took(work, monkeypatch):
    read = []

    def picture_of(*_, **__):
        read.append(1)
        return ClusterPicture(
            seen=SeenObjects.of(b.snapshot()),
            headline=f"look {len(read)}",
            warnings=("one kind is not read",),
        )

    monkeypatch.setattr(gathering, "picture_of", picture_of)
    policies = (ConfiguredPolicy(name="NodeTaints", args=NodeTaintsArgs()),)
    configured = ReadConfiguration(Configuration(policies=policies))
    monkeypatch.setattr(gathering, "controller_configuration", lambda *_: configured)
    cluster = NamedCluster(kubeconfig=work.kubeconfig)
    look = gathering.Gathering(
        cluster=cluster, api=cluster.api(), badly_placed=True,
        clock=iter((0.0, 1.0, 10.9, 11.0, 11.0, 12.0)).__next__,
    )  # fmt: skip
    reports = [look.report() for _ in range(3)]
    assert [report.headline for report in reports] == ["look 1", "look 1", "look 2"]
    assert {report.warnings for report in reports} == {("one kind is not read",)}


def test_a_configuration_that_is_refused_is_told(work, status):
    path = "/api/v1/namespaces/rescheduler/configmaps/rescheduler"
    before = work.api.get(path).body["data"]["config.yaml"]
    work.api.patch(path, {"data": {"config.yaml": "intervall: 5s"}}).expect()
    work.wait(lambda: "refused at" in status("--no-plan").stdout)
    assert "intervall" in json.loads(status("-o", "json").stdout)["configuration"]
    shown = status("--no-plan").stdout
    assert "'apiVersion' is missing" in " ".join(shown.split()), "a long line is wrapped, not cut"
    assert "in force" not in shown.replace("stays in force", "")
    assert "warning" not in shown
    work.api.patch(path, {"data": {"config.yaml": before}}).expect()
    assert "in force" in status("--no-plan").stdout, "the Event of an older version is past"


def test_no_controller_is_told_with_1(status):
    done = status("--controller-namespace", "elsewhere")
    assert done.exit_code == 1
    assert "NOT RUNNING: none has led here" in done.stdout
