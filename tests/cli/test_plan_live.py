"""``rescheduler plan`` on a live cluster shows what its controller would do, and by whose configuration."""

import json
import time

import pytest
from msgspec.structs import replace

from rescheduler.cli.live_controller import hindrances
from rescheduler.configuration.document import default_configuration, parse_configuration
from rescheduler.kube.client import KubeApi
from rescheduler.kube.transport import Response
from rescheduler.model.migration import MoveMode
from rescheduler.model.past_moves import PastMove, encode_past_move
from rescheduler.reports.status_document import ControllerStatus, Presence

from .conftest import CONFIGURATION

CONFIG_MAP = "/api/v1/namespaces/rescheduler/configmaps/rescheduler"
HISTORY = "/api/v1/namespaces/rescheduler/configmaps/move-history"


@pytest.fixture
def tainted(work):
    """A pod on a tainted node, and a controller that acts only when it is asked."""
    (pod,) = work.deploy("web", 1, node="n1")
    before = work.api.get(CONFIG_MAP).body["data"]["config.yaml"]
    # Nothing is moved by the controller meanwhile, though the taint makes it decide again before the hour is over.
    none = {"limits": {"movesPerHour": 0}}
    document = {**CONFIGURATION, **none, "aggressiveness": 0.25, "policies": [{"name": "NodeTaints"}]}
    work.api.patch(CONFIG_MAP, {"data": {"config.yaml": json.dumps(document)}}).expect()
    time.sleep(1.0)
    work.cordon("n1")
    work.api.patch(
        "/api/v1/nodes/n1", {"spec": {"taints": [{"key": "old", "effect": "NoSchedule"}]}}
    ).expect()
    yield pod
    work.api.patch("/api/v1/nodes/n1", {"spec": {"taints": None}}).expect()
    work.api.patch(CONFIG_MAP, {"data": {"config.yaml": before}}).expect()
    work.cordon("n1", on=False)
    work.remove("Deployment", "web")


def past(workload_uid):
    now_s = time.time() // 1
    return PastMove(begun_s=now_s, evicting_s=now_s, ended_s=now_s, workload_uid=workload_uid)


def of(done):
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_configuration_and_the_history_are_those_of_the_controller(work, command, tainted, tmp_path):
    def plan(*words):
        return command("plan", *words, "--kubeconfig", work.kubeconfig)

    text = plan().stdout
    assert text.splitlines()[1] == "configuration: ConfigMap rescheduler/rescheduler"
    assert "aggressiveness 0.25" in text
    by_controller = of(plan("-o", "json"))
    assert by_controller["metadata"]["configuration"] == "ConfigMap rescheduler/rescheduler"
    assert by_controller["metadata"]["warnings"] == []
    assert {m["policy"] for m in by_controller["moves"]} <= {"NodeTaints"}

    pod = work.api.get(f"/api/v1/namespaces/default/pods/{tainted}").body
    owner = pod["metadata"]["ownerReferences"][0]["uid"]
    replicaset = work.api.get(
        f"/apis/apps/v1/namespaces/default/replicasets/{pod['metadata']['ownerReferences'][0]['name']}"
    )
    uids = {owner, replicaset.body["metadata"]["ownerReferences"][0]["uid"]}
    moved = {uid: encode_past_move(past(uid)) for uid in uids}
    work.api.patch(HISTORY, {"data": moved}).expect()
    try:
        rests = of(plan("-o", "json"))
        assert rests["moves"] == []
        assert {(s["pod"]["name"], s["reason"]) for s in rests["skipped"]} == {(tainted, "WorkloadCooldown")}
    finally:
        work.api.patch(HISTORY, {"data": dict.fromkeys(moved)}).expect()

    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({**CONFIGURATION, "policies": []}))
    mine = plan("--config", file).stdout
    assert mine.splitlines()[1] == f"configuration: {file}"
    assert "Nothing to move" in mine


def test_without_a_controller_the_built_in_default_is_taken_and_said(work, command):
    done = command("plan", "--controller-namespace", "elsewhere", "--kubeconfig", work.kubeconfig)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1] == "configuration: the built-in default: no controller has led here"
    assert "no controller is running" in done.stderr


def test_a_dump_has_no_controller(command, dump, untidy):
    found = of(command("plan", "--from", dump(untidy), "-o", "json"))
    assert "configuration" not in found["metadata"]
    assert "configuration:" not in command("plan", "--from", dump(untidy)).stdout


class Answers:
    """An API server with or without the gate and the right to evict."""

    def __init__(self, *, gate, evicts, installed=True):
        self._gate, self._evicts, self._installed = gate, evicts, installed

    def send(self, request):
        if request.path.endswith("/subjectaccessreviews"):
            assert b"system:serviceaccount:ours:rescheduler" in request.body
            return Response(201, json.dumps({"status": {"allowed": self._evicts}}).encode())
        there = self._gate if "admissionregistration" in request.path else self._installed
        return Response(200, b"{}") if there else Response(404, b'{"kind":"Status","reason":"NotFound"}')


@pytest.mark.parametrize(("server", "presence", "mode", "said"), [
    (Answers(gate=True, evicts=True), Presence.LEADING, MoveMode.AUTO, ()),
    (Answers(gate=True, evicts=True), Presence.UNKNOWN, MoveMode.AUTO, ()),
    (Answers(gate=True, evicts=True), Presence.STOPPED, MoveMode.AUTO, ("no controller is running",)),
    (Answers(gate=False, evicts=True), Presence.LEADING, MoveMode.AUTO, ("the gate is missing",)),
    (Answers(gate=False, evicts=True), Presence.LEADING, MoveMode.SOFT, ()),
    (Answers(gate=True, evicts=False), Presence.LEADING, MoveMode.AUTO, ("no right to evict pods",)),
    (Answers(gate=True, evicts=False, installed=False), Presence.LEADING, MoveMode.AUTO, ()),
])  # fmt: skip
def test_what_keeps_the_controller_from_carrying_it_out_is_told(server, presence, mode, said):
    configuration = replace(default_configuration(), mode=mode)
    found = list(hindrances(KubeApi(server), ControllerStatus(presence=presence), "ours", configuration))
    assert len(found) == len(said)
    assert all(words in text for words, text in zip(said, found, strict=True))


@pytest.mark.parametrize("presence", [Presence.ABSENT, Presence.STOPPED])
def test_a_controller_that_elects_no_leader_is_not_missed(presence):
    document = json.dumps({**CONFIGURATION, "leaderElection": {"enabled": False}})
    server = Answers(gate=True, evicts=True)
    configuration = parse_configuration(document, "file")
    assert not list(hindrances(KubeApi(server), ControllerStatus(presence=presence), "ours", configuration))
