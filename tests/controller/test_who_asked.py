"""Who asked for a move or a room: noted by admission, shown in log and Events, and never what somebody writes himself."""

import json

import pytest
from scenes import Scene
from structlog.testing import capture_logs

from harness import documents
from kube_sandbox.apiserver.admission import acting_as
from rescheduler.kube.transport import Request
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import ANNOTATION_REQUESTED_BY, CREATED_BY, LABEL_CREATED_BY
from rescheduler.model.own_objects import LONGEST_USER, UNKNOWN, asked_by
from rescheduler.model.selectors import NO_LABELS, LabelSet

NAMES = {
    "alice": "user alice",
    "system:serviceaccount:shop:deployer": "user system:serviceaccount:shop:deployer",
    "eve\nby=policy NodeTaints": "user eve by=policy NodeTaints",
    "eve\x1b[2J\u202e": "user eve\\u001b[2J\\u202e",
    "x" * 1000: "user " + "x" * LONGEST_USER,
    " \n": UNKNOWN,
    "": UNKNOWN,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_shown_cut_on_one_line_and_without_what_is_not_seen(name):
    assert asked_by(LabelSet({ANNOTATION_REQUESTED_BY: name})) == NAMES[name]


def test_nobody_is_noted_before_the_policy_is_served():
    assert asked_by(NO_LABELS) == UNKNOWN


def test_a_planned_move_is_by_its_policy_whatever_is_noted():
    noted = LabelSet({ANNOTATION_REQUESTED_BY: "alice"})
    planned = {"policy": "NodeTaints", "labels": LabelSet({LABEL_CREATED_BY: CREATED_BY})}
    assert PodMigration(namespace="d", name="m", pod_name="p", annotations=noted, **planned).by == (
        "policy NodeTaints"
    )
    assert PodMigration(namespace="d", name="m", pod_name="p", annotations=noted).by == "user alice"


def ask(transport, method, path, body):
    answer = transport.send(Request(method=method, path=path, body=json.dumps(body).encode()))
    assert answer.status in (200, 201), answer.body
    return json.loads(answer.body)


@pytest.fixture
def scene():
    return Scene({"n1": 4, "n2": 4}).workload("Deployment", "web", ["n1", "n1"])


def test_log_and_events_name_the_user(scene):
    program = scene.start()
    with capture_logs() as lines:
        name = scene.move(scene.ready("web")[0], "n2")
        scene.until(lambda: scene.over(name))
        scene.advance(30.0)
        room = scene.held_room(node="n2")
    said = [line for line in lines if line.get("migration") == f"default/{name}"]
    assert {line["by"] for line in said} == {"user sandbox-admin"}
    (held,) = [line for line in lines if line.get("room") == room and line["event"] == "The room is reserved"]
    assert held["by"] == "user sandbox-admin"
    (moved,) = [told for told in program.events.told if told.startswith("PodRescheduled")]
    assert moved.endswith("; moved by user sandbox-admin")


def test_another_name_is_overwritten_at_creation_and_kept_by_every_change(scene):
    forged = {"annotations": {ANNOTATION_REQUESTED_BY: "alice", "example.com/note": "x"}}
    path = "/apis/rescheduler.dev/v1alpha1/namespaces/default/podmigrations"
    body = documents.migration("m", "no-such", meta=forged, paused=True)
    client = scene.cluster.transport
    with acting_as("mallory"):
        made = ask(client, "POST", path, body)
    assert made["metadata"]["annotations"] == {ANNOTATION_REQUESTED_BY: "mallory", "example.com/note": "x"}
    del made["metadata"]["annotations"]
    with acting_as("bob"):
        replaced = ask(client, "PUT", f"{path}/m", made)
    assert replaced["metadata"]["annotations"] == {ANNOTATION_REQUESTED_BY: "mallory"}
