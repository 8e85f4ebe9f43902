"""``rescheduler history``: moves that are there, and those that only the ConfigMap remembers."""

import json

from rescheduler.cli.history import entries
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.past_moves import PastMove
from tests import records

HISTORY = "/api/v1/namespaces/rescheduler/configmaps/move-history"


def move(name, phase, reason, began_s, uid):
    ended_s = began_s + 7 if phase is not MigrationPhase.EVICTING else 0.0
    status = {"source_node": "n1", "node_name": "n2", "started_at_s": began_s, "finished_at_s": ended_s}
    return records.move(
        f"{name}-x", phase, reason=reason, namespace="shop", uid=uid, pod_name=name, policy="P", **status
    )


def test_the_newest_is_last_and_no_move_is_told_twice():
    moves = [
        move("b", MigrationPhase.FAILED, "Timeout", 2_000.0, "u2"),
        move("a", MigrationPhase.SUCCEEDED, "Landed", 1_000.0, "u1"),
        move("c", MigrationPhase.EVICTING, "DisruptionBudget", 3_000.0, "u3"),
    ]
    past = {
        "u1": PastMove(begun_s=1_000.0, namespace="shop", pod_uid="p1", ended_s=1_007.0),
        "u0": PastMove(
            begun_s=500.0, requested=True, namespace="shop", pod_uid="p0", ended_s=510.0, failed=True
        ),
        "u4": PastMove(begun_s=600.0, evicting_s=600.0, requested=True, namespace="shop", pod_uid="p4"),
    }
    found = entries(moves, past, 0.0)
    assert [(e.pod, e.ended, e.seconds) for e in found] == [
        ("", "Failed", 10.0), ("", "Deleted", 0.0), ("a", "Landed", 7.0), ("b", "Timeout", 7.0), ("c", "", 0.0),
    ]  # fmt: skip
    assert (found[0].by, found[0].pod_uid) == ("a request", "p0")
    assert [e.pod for e in entries(moves, past, 1_500.0)] == ["b", "c"]


def test_a_move_that_was_asked_for_and_one_that_only_the_config_map_remembers(work, command, history):
    (pod,) = work.deploy("web", 1, node="n1")
    assert command("move", "pod", pod, "--to", "n2", "--kubeconfig", work.kubeconfig).exit_code == 0
    row = history().stdout.splitlines()[-1].split()
    assert row[1:5] == [f"default/{pod}", "n1", "n2", "Landed"]
    (found,) = json.loads(history("-o", "json").stdout)["moves"]
    assert (found["pod"], found["from"], found["to"], found["ended"]) == (pod, "n1", "n2", "Landed")
    assert "asked for with rescheduler move" in history("-o", "wide").stdout
    assert history("-o", "name").stdout == f"podmigration.rescheduler.dev/{found['podMigration']}\n"
    assert history("--failed", "-A").stderr == "no failed moves\n"
    assert history("-n", "elsewhere").stderr == "no moves in namespace elsewhere; -A looks in all\n"
    name = found["podMigration"]
    work.wait(lambda: "ended=" in str(work.api.get(HISTORY).body.get("data")))
    work.api.delete(f"/apis/rescheduler.dev/v1alpha1/namespaces/default/podmigrations/{name}").expect()
    (kept,) = json.loads(history("-A", "-o", "json").stdout)["moves"]
    assert (kept["podUid"], kept["ended"], "pod" in kept) == (found["podUid"], "Landed", False)
    work.remove("Deployment", "web")
