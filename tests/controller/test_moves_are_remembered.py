"""Limits, cool-down and back-off hold although PodMigrations are deleted: through the whole program on the sandbox."""

import pytest
from scenes import CONFIG_MAP, MOVE, Scene

from harness import documents
from kube_sandbox.controllers.unstructured import deleting, status
from rescheduler.kube.election import LeaseTiming
from rescheduler.model.names import HISTORY_CONFIG_MAP

HOUR_S = 3600.0
SELDOM = LeaseTiming(duration_s=300.0, renew_s=200.0, retry_s=100.0)
"""Of hours that are about something else than the Lease."""


def document(limits="", *, policies="{name: NodeTaints, after: 0s}", finished_ttl="5s", interval="10s"):
    """One move at once, without rest, unless ``limits`` says otherwise."""
    rest = "" if "workloadCooldown: 2h" in limits else "workloadCooldown: 0s, "
    return f"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: {interval}
limits: {{movesAtOnce: 1, {rest}{limits}}}
reservations: {{ttl: 20s, finishedTtl: {finished_ttl}}}
policies: [{policies}]
""".encode()


@pytest.fixture
def scene():
    return Scene({"n1": 4, "n2": 4}).workload(nodes=["n1"] * 3)


def history(scene):
    """The stored entries, each as a mapping of its words."""
    found = scene.api.get(CONFIG_MAP, "rescheduler", HISTORY_CONFIG_MAP) or {}
    return [dict(part.split("=", 1) for part in v.split()) for v in (found.get("data") or {}).values()]


def moved(scene):
    return len(scene.on("n2"))


def delete_moves(scene):
    """As `kubectl delete podmigrations --all`."""
    for migration in scene.api.list(MOVE):
        scene.api.delete(migration)


def settled(scene):
    return all(status(m).get("phase") in ("Succeeded", "Failed") for m in scene.api.list(MOVE))


# Planned moves --------------------------------------------------------------------------------------


def test_one_move_in_the_hour_although_finished_moves_are_deleted_after_5_s(scene):
    scene.taint("n1")
    scene.start(document=document("movesPerHour: 1", interval="30s"), lease=SELDOM)
    scene.until(lambda: moved(scene) == 1)
    scene.advance(60.0)
    assert not scene.api.list(MOVE), "deleted by their ttl"
    scene.advance(HOUR_S - 75.0)
    assert moved(scene) == 1
    scene.advance(60.0)
    assert moved(scene) == 2, "the hour is over"


def test_a_cool_down_of_two_hours_lasts_two_hours(scene):
    scene.taint("n1")
    scene.start(document=document("workloadCooldown: 2h"), lease=SELDOM)
    scene.until(lambda: moved(scene) == 1)
    moved_s = scene.now_s
    delete_moves(scene)
    scene.advance(10.0)
    (first,) = history(scene)
    scene.advance(moved_s + 2 * HOUR_S - 30.0 - scene.now_s)
    assert moved(scene) == 1
    scene.advance(60.0)
    assert moved(scene) >= 2
    assert first not in history(scene), "nothing counts it any more"


@pytest.mark.parametrize("ends", ["people delete it", "its ttl ends"])
def test_back_off_after_a_failure_holds_although_the_move_was_deleted(ends):
    scene = Scene({"n1": 2, "n2": 2}).workload(nodes=["n1"])
    scene.taint("n1")
    created = []
    scene.calls.answer(
        lambda c: c.method == "POST" and c.path.endswith("/podmigrations"), lambda c: created.append(c.at_s)
    )
    scene.refuse(403, "Forbidden", lambda c: c.method == "POST" and c.path.endswith("/reservations"))
    scene.start(document=document(finished_ttl="1s"))
    scene.until(lambda: any(status(m).get("phase") == "Failed" for m in scene.api.list(MOVE)))
    failed_s = scene.now_s
    if ends == "people delete it":
        delete_moves(scene)
    scene.advance(55.0)
    assert not scene.api.list(MOVE)
    assert len(created) == 1
    scene.advance(failed_s + 75.0 - scene.now_s)
    assert len(created) == 2, "the first back-off is one minute"
    scene.advance(100.0)
    assert len(created) == 2, "the second one is two minutes"


@pytest.mark.parametrize("how", ["killed", "another leader"])
def test_the_next_process_counts_what_the_last_one_did(scene, how):
    scene.taint("n1")
    options = {"document": document("movesPerHour: 1"), "crashes": 0}
    first = scene.start(**options)
    scene.until(lambda: moved(scene) == 1)
    delete_moves(scene)
    if how == "killed":
        first.kill()
    else:
        first.frozen = True
        scene.start(identity="another", **options)
    scene.advance(120.0)
    assert moved(scene) == 1
    assert len(history(scene)) == 1


def test_a_process_that_is_killed_at_any_write_of_a_move_begins_no_second_one(scene):
    """Each process is killed within a few writes, and people delete every PodMigration as soon as its pod is evicted."""
    scene.taint("n1")
    program = scene.start(document=document("movesPerHour: 1"), crashes=8, writes_per_life=6)
    before = {p["metadata"]["uid"] for p in scene.pods()}
    scene.until(lambda: {p["metadata"]["uid"] for p in scene.pods() if not deleting(p)} != before)
    delete_moves(scene)
    scene.advance(120.0)
    assert program.died >= 1
    assert len([p for p in scene.pods() if p["metadata"]["uid"] not in before]) == 1


# What people do to the ConfigMap --------------------------------------------------------------------


def test_a_config_map_that_is_deleted_is_written_again_with_everything(scene):
    scene.taint("n1")
    scene.start(document=document("movesPerHour: 1"))
    scene.until(lambda: moved(scene) == 1)
    scene.advance(30.0)
    kept = history(scene)
    scene.api.delete(scene.api.get(CONFIG_MAP, "rescheduler", HISTORY_CONFIG_MAP))
    scene.advance(60.0)
    assert history(scene) == kept
    assert moved(scene) == 1


def test_after_a_restart_without_the_config_map_the_podmigrations_still_count(scene):
    scene.taint("n1")
    program = scene.start(document=document("movesPerHour: 1", finished_ttl="1h"))
    scene.until(lambda: moved(scene) == 1 and settled(scene))
    scene.api.delete(scene.api.get(CONFIG_MAP, "rescheduler", HISTORY_CONFIG_MAP))
    program.kill()
    scene.advance(60.0)
    assert moved(scene) == 1
    assert len(history(scene)) == 1


def test_nonsense_in_the_config_map_is_removed_and_stops_nothing(scene):
    nonsense = {
        "no-time": "begun=yesterday by=policy",
        "no-words": "\x00" * 5,
        "far": "begun=9999-01-01T00:00:00Z by=policy",
        "long": "x" * 10_000,
    }
    found = scene.api.get(CONFIG_MAP, "rescheduler", HISTORY_CONFIG_MAP)
    scene.api.patch(found, {"data": nonsense})
    scene.taint("n1")
    scene.start(document=document("movesPerHour: 2", interval="30s"), lease=SELDOM)
    scene.until(lambda: moved(scene) == 1)
    scene.advance(30.0)
    stored = scene.api.get(CONFIG_MAP, "rescheduler", HISTORY_CONFIG_MAP)["data"]
    assert set(nonsense) & set(stored) == {"far"}, "a time in the far future counts as now"
    assert moved(scene) == 1, "the limit is two, of which the entry is one"
    scene.advance(HOUR_S)
    assert moved(scene) > 1


# Nothing is evicted that is not counted -------------------------------------------------------------


def to_history(call):
    return call.writes and call.path.endswith(f"/configmaps/{HISTORY_CONFIG_MAP}")


def test_begin_eviction_and_end_are_stored_before_what_follows_from_them(scene):
    scene.start()
    name = scene.move(scene.pods()[0], "n2")
    seen = {}

    def stored():
        (entry,) = history(scene) or [{}]
        return set(entry)

    steps = {
        "reserve": lambda c: c.method == "POST" and c.path.endswith("/reservations"),
        "evict": lambda c: c.evicts,
        "delete": lambda c: c.method == "DELETE" and "/podmigrations/" in c.path,
    }
    for what, chosen in steps.items():
        scene.calls.answer(chosen, lambda _, what=what: seen.setdefault(what, stored()) and None)
    scene.until(lambda: scene.over(name))
    scene.program.document.content = document(policies="")
    scene.until(lambda: scene.phase(name) == "Deleted")
    assert {"begun", "pod", "workload"} <= seen["reserve"]
    assert "evicting" in seen["evict"]
    assert "ended" in seen["delete"]


def test_a_finished_move_is_kept_beyond_its_ttl_until_its_end_is_stored(scene):
    scene.refuse(503, "ServiceUnavailable", lambda c: to_history(c) and "ended=" in str(c.body))
    scene.start(document=document(policies="", finished_ttl="1s"))
    name = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: scene.over(name))
    scene.advance(60.0)
    assert scene.phase(name) == "Succeeded"
    scene.calls.answers.clear()
    scene.until(lambda: scene.phase(name) == "Deleted")
    assert "ended" in history(scene)[0]


def test_while_the_config_map_cannot_be_written_no_move_begins_and_no_plan_is_made(scene):
    scene.refuse(403, "Forbidden", to_history)
    scene.taint("n1")
    scene.start(document=document("movesPerHour: 5"))
    name = scene.move(scene.pods()[0], "n2", ttl="90s")
    scene.advance(60.0)
    assert scene.state(name)["reason"] == "Recording"
    assert "cannot be written" in scene.state(name)["message"]
    assert not scene.calls.of(lambda c: c.evicts)
    assert [m["metadata"]["name"] for m in scene.api.list(MOVE)] == [name]
    scene.calls.answers.clear()
    scene.until(lambda: moved(scene) == 3)
    assert scene.phase(name) in ("Succeeded", "Deleted")


def test_an_eviction_that_cannot_be_recorded_is_not_sent(scene):
    scene.start()
    name = scene.move(scene.pods()[0], "n2", ttl="40s")
    scene.refuse(503, "ServiceUnavailable", lambda c: to_history(c) and "evicting=" in str(c.body))
    scene.until(lambda: scene.over(name))
    assert not scene.calls.of(lambda c: c.evicts)
    assert scene.state(name)["reason"] == "Timeout"
    assert "move-history" in scene.state(name)["message"]
    scene.advance(5.0)
    assert not scene.leftovers()


# What people ask for --------------------------------------------------------------------------------


def test_what_people_ask_for_has_a_limit_of_its_own_and_waits_until_it_allows_more(scene):
    scene.start(document=document("requested: {movesPerHour: 1}", policies=""), lease=SELDOM)
    first, second = (scene.move(pod, "n2", ttl="2h") for pod in scene.pods()[:2])
    scene.until(lambda: scene.over(first) or scene.over(second))
    delete_moves_that_ended(scene)
    scene.advance(60.0)
    (waiting,) = scene.api.list(MOVE)
    assert status(waiting)["reason"] == "LimitMovesPerHour"
    assert status(waiting).get("phase", "Pending") == "Pending"
    assert "limits.requested.movesPerHour is 1; the next one begins at 20" in status(waiting)["message"]
    scene.advance(HOUR_S - 90.0)
    assert moved(scene) == 1
    scene.advance(60.0)
    assert moved(scene) == 2


def delete_moves_that_ended(scene):
    for migration in scene.api.list(MOVE):
        if status(migration).get("phase") == "Succeeded":
            scene.api.delete(migration)


def test_moves_of_people_and_planned_ones_do_not_use_up_each_others_limit(scene):
    scene.start(document=document("movesPerHour: 1, requested: {movesPerHour: 1}"))
    asked = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: scene.over(asked))
    scene.taint("n1")
    scene.advance(120.0)
    assert moved(scene) == 2, "one of each"


def test_people_who_give_their_moves_the_mark_of_planned_ones_do_not_pass_the_limit(scene):
    scene.start(document=document("movesPerHour: 1, requested: {movesPerHour: 0}", policies=""))
    for pod in scene.pods():
        name, meta = pod["metadata"]["name"], {"labels": {"app.kubernetes.io/created-by": "rescheduler"}}
        wish = {"ttl": "10m", "policy": "NodeTaints"}
        scene.api.create(documents.migration(name, name, "n2", namespace="default", meta=meta, **wish))
    scene.advance(120.0)
    assert moved(scene) == 1
    reasons = [status(m).get("reason") for m in scene.api.list(MOVE)]
    assert reasons == ["LimitMovesPerHour"] * 2


def test_a_workload_rests_after_a_move_that_people_asked_for_if_they_want_that(scene):
    scene.start(document=document("requested: {workloadCooldown: 5m}", policies=""))
    first = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: scene.over(first))
    delete_moves(scene)
    second = scene.move(scene.on("n1")[0], "n2", ttl="1h")
    scene.advance(240.0)
    assert scene.state(second)["reason"] == "WorkloadCooldown"
    scene.until(lambda: scene.phase(second) in ("Succeeded", "Deleted"), 200.0)
    assert moved(scene) == 2


def test_a_pod_whose_requested_move_failed_waits_before_the_next_one(scene):
    scene.refuse(422, "Invalid", lambda c: c.method == "POST" and c.path.endswith("/reservations"))
    scene.start(document=document(policies=""))
    pod = scene.pods()[0]
    first = scene.move(pod, "n2", name="first", ttl="10s")
    scene.until(lambda: scene.over(first))
    failed_s = scene.now_s
    scene.calls.answers.clear()
    delete_moves(scene)
    second = scene.move(pod, "n2", name="second", ttl="10m")
    scene.advance(30.0)
    assert scene.state(second)["reason"] == "MoveBackoff"
    scene.until(lambda: moved(scene) == 1)
    assert 60.0 <= scene.now_s - failed_s < 90.0
