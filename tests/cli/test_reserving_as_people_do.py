"""``rescheduler reserve`` as people use it: what they see, Ctrl-C, things that are not there, an API server that is away."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from harness import documents
from tests.waiting import until

GROUP = "rescheduler.dev/v1alpha1"
ROOMS = f"/apis/{GROUP}/reservations"
PATIENCE_S = 90.0


LISTENS_TO_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
"""As in a terminal: a process that is started by a background job inherits that SIGINT is ignored."""


@pytest.fixture
def api(cluster):
    yield cluster[0]
    for room in cluster[0].get(ROOMS).items:
        cluster[0].delete(f"{ROOMS}/{room['metadata']['name']}")


@pytest.fixture
def reserve(cluster, api, command):
    return lambda *words, **more: command("reserve", *words, "--kubeconfig", cluster[1], **more)


@pytest.fixture
def begin(cluster, api):
    """begin("watch", ...): the program as a process of its own, as in a terminal."""
    started = []

    def begin(*words):
        program = f"{LISTENS_TO_CTRL_C}; from rescheduler.cli.main import main; main()"
        line = [sys.executable, "-c", program, "reserve", *words, "--kubeconfig", cluster[1]]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(line, env=environment, **pipes)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def room(api, name="room", owner=None, **spec):
    pod = documents.pod_spec("1500m")
    owners = spec.pop("owners", [owner or documents.owner("web", "shop")])
    body = documents.reservation(name, pod, owners, meta={"labels": {"team": "a"}}, **spec)
    api.create(ROOMS, body).expect()
    return name


def becomes(api, name, phase, message, *, kind="Ready", **status):
    """What a controller writes."""
    told = {"type": kind, "status": "False", "reason": "Because", "message": message}
    body = {"status": {"phase": phase, "observedGeneration": 1, "conditions": [told], **status}}
    api.patch(f"{ROOMS}/{name}/status", body).expect()


def wait_for(line, stream):
    """Reads until a line appears."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        if stream.readline().rstrip() == line:
            return
    raise AssertionError(f"{line!r} did not appear")


def test_watching_shows_each_change_once_and_ends_when_it_is_held(api, begin):
    room(api)
    process = begin("watch", "room", "--until", "available")
    wait_for("room: Pending: no controller has processed it yet", process.stdout)
    becomes(api, "room", "Pending", "0/3 nodes are available", kind="Scheduled")
    wait_for("room: Pending: 0/3 nodes are available", process.stdout)
    becomes(api, "room", "Available", "room is held on node/n1", nodeName="n1")
    rest, errors = process.communicate(timeout=PATIENCE_S)
    assert rest == "room: Available on n1: room is held on node/n1\n"
    assert (process.returncode, errors) == (0, "")


def test_watching_ends_with_1_when_one_has_failed(api, reserve):
    room(api)
    becomes(api, "room", "Failed", "expired before a pod used it")
    done = reserve("watch")
    assert (done.exit_code, done.stdout) == (1, "room: Failed: expired before a pod used it\n")


def test_watching_tells_of_a_release(api, begin):
    room(api)
    process = begin("watch", "room")
    wait_for("room: Pending: no controller has processed it yet", process.stdout)
    api.delete(f"{ROOMS}/room").expect()
    shown, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, shown, errors) == (0, "room: released\n", "")


def test_watching_gives_up_after_its_time(api, reserve):
    room(api)
    done = reserve("watch", "room", "--timeout", "1s")
    assert (done.exit_code, done.stderr) == (1, "error: the Reservations are not all finished after 1s\n")


def test_watching_nothing_says_so(reserve):
    done = reserve("watch", "-l", "team=none")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no Reservations\n")


@pytest.mark.parametrize("words", [("watch", "--until", "forever"), ("create", "-f", "-", "--timeout", "1h")])
def test_ctrl_c_ends_it_without_a_traceback_and_takes_nothing_back(api, begin, words, tmp_path):
    room(api)
    if words[0] == "create":
        body = api.get(f"{ROOMS}/room").body
        file = tmp_path / "rooms.yaml"
        file.write_text(yaml.safe_dump({**body, "metadata": {"name": "second"}, "status": None}))
        words = tuple(str(file) if word == "-" else word for word in words)
    process = begin(*words)
    seen = "second" if words[0] == "create" else "room"
    until(lambda: api.get(f"{ROOMS}/{seen}").ok, PATIENCE_S)
    if words[0] == "watch":
        wait_for("room: Pending: no controller has processed it yet", process.stdout)
    else:
        time.sleep(1.0)  # it waits for the controller now
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "interrupted"
    assert "Traceback" not in errors
    assert api.get(f"{ROOMS}/{seen}").ok


def test_what_may_have_been_made_all_the_same_is_told(command, kubeconfig_of, monkeypatch):
    monkeypatch.setattr("rescheduler.cli.reservation_client.API_TIMEOUT_S", 0.1)
    for check in ("check_owners", "check_nodes"):  # it went away since
        monkeypatch.setattr(f"rescheduler.cli.reserve_create.{check}", lambda *_: None)
    words = ("reserve", "create", "--cpu", "1", "--owner-selector", "app=x")
    done = command(*words, "--kubeconfig", kubeconfig_of())
    assert done.exit_code == 1
    first, note = done.stderr.splitlines()
    assert first.startswith("error: no answer from the API server: ")
    assert "rescheduler reserve release -l rescheduler.dev/group=" in note


def test_lists_are_tables_or_documents(api, reserve):
    room(api, "a")
    several = [{"object": {"namespace": "jobs"}, "labelSelector": {"matchLabels": {"app": "batch"}}}]
    room(api, "b", owners=several, ttl="0s")
    used = [{"namespace": "shop", "name": "web-1", "uid": "u"}]
    told = {"nodeName": "n1", "currentOwners": used, "allocated": {"cpu": "1500m"}}
    becomes(api, "a", "Succeeded", "shop/web-1 landed on node/n1", **told)
    text = reserve("list", "--all").stdout.splitlines()
    assert text[0].split() == ["NAME", "PHASE", "NODE", "FOR", "USED", "BY", "ENDS", "AGE"]
    assert text[1].split()[:6] == ["a", "Succeeded", "n1", "deployment/web", "of", "namespace"]
    assert "app=batch" in text[2]
    wide = reserve("list", "--all", "-o", "wide").stdout.splitlines()
    assert wide[0].split()[-3:] == ["ROOM", "ALLOCATED", "SAYS"]
    assert wide[1].split()[-7:] == ["1.5", "cpu", "1.5", "shop/web-1", "landed", "on", "node/n1"]
    assert "  never  " in wide[1], "its controller has said so"
    assert "never" not in wide[2], "nobody knows yet"
    assert wide[2].endswith("no controller has processed it yet")
    stored = [api.get(f"{ROOMS}/{name}").body for name in ("a", "b")]
    assert json.loads(reserve("list", "--all", "-o", "json").stdout)["items"] == stored
    assert yaml.safe_load(reserve("list", "--all", "-o", "yaml").stdout)["items"] == stored
    assert reserve("list", "b", "-l", "team=a").stdout.splitlines()[1].startswith("b ")


def test_an_empty_list_says_so(reserve):
    done = reserve("list")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no Reservations\n")


def test_making_shows_what_is_held_and_ends_with_what_became_of_it(api, begin):
    process = begin("create", "--cpu", "1", "--owner-selector", "app=x", "-n", "shop", "--name", "one")
    (made,) = until(lambda: api.get(ROOMS).items, PATIENCE_S)
    name = made["metadata"]["name"]
    becomes(api, name, "Available", "room is held on node/n1", nodeName="n1")
    shown, errors = process.communicate(timeout=PATIENCE_S)
    assert shown == f"{name}: Available on n1: room is held on node/n1\n"
    warning = "warning: namespace shop does not exist now, so no pod matches yet\n"
    assert (process.returncode, errors) == (0, warning)


def test_making_ends_with_3_while_some_wait_and_with_1_when_one_failed(api, begin):
    for phase, code in (("Waiting", 3), ("Failed", 1)):
        process = begin(
            "create", "--cpu", "1", "--owner-selector", "app=x", "--name", phase.lower(), "--timeout", "4s"
        )
        listed = lambda: [room["metadata"]["name"] for room in api.get(ROOMS).items]  # noqa: E731
        (name,) = until(lambda: [one for one in listed() if one.startswith(phase.lower())], PATIENCE_S)  # noqa: B023
        becomes(api, name, phase, "words")
        shown, _ = process.communicate(timeout=PATIENCE_S)
        assert (shown, process.returncode) == (f"{name}: {phase}: words\n", code)


def test_a_rehearsal_stores_nothing(api, reserve):
    done = reserve("create", "--cpu", "1", "--owner-selector", "app=x", "--dry-run", "-o", "json")
    (would,) = json.loads(done.stdout)["items"]
    assert would["spec"]["owners"] == [
        {"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": "x"}}}
    ]
    assert api.get(ROOMS).items == []


def test_what_somebody_depends_on_is_kept_unless_forced(api, reserve):
    room(api, "a")
    room(api, "b")
    used = [{"namespace": "shop", "name": "web-1", "uid": "u"}]
    becomes(api, "b", "Available", "claimed", nodeName="n1", currentOwners=used)
    done = reserve("release", "a", "b")
    assert (done.exit_code, done.stdout) == (1, "a released\n")
    assert (
        done.stderr
        == "error: b: pod shop/web-1 is being scheduled to it (use --force to release it anyway)\n"
    )
    forced = reserve("release", "b", "--force")
    assert (forced.exit_code, forced.stdout) == (0, "b released\n")
    assert reserve("release", "-l", "team=a").stderr == "no Reservations\n"
