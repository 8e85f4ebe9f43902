"""The admission policies of one release never deny what the controller of the release before, or after it, writes.

Whoever upgrades applies the manifests before or after the image, and whoever goes back leaves policies behind.
"""

import json
from pathlib import Path

import pytest
import yaml

from harness.histories.as_controller import AsController
from harness.recorded.recording import decode
from harness.recorded.restoring import put_back, restore
from harness.recorded.scenes import SCENES, record
from kube_sandbox.installing import install
from rescheduler.kube.client import KubeApi
from rescheduler.kube.installation import path_of
from rescheduler.kube.transport import Request

FOLDER = Path(__file__).parent / "recorded"
RELEASES = sorted(path.parent for path in FOLDER.glob("*/rules.yaml"))
RECORDINGS = sorted(path for release in RELEASES for path in release.glob("*.jsonl"))
RULES = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")


def current(value, sandbox, path):
    """The request's body with the versions of the objects that are stored now."""
    if isinstance(value, list):
        return [current(entry, sandbox, path) for entry in value]
    if not isinstance(value, dict):
        return value
    new = {key: current(entry, sandbox, path) for key, entry in value.items()}
    found = sandbox.transport.send(Request(method="GET", path=path)).body
    version = json.loads(found).get("metadata", {}).get("resourceVersion", "")
    if "resourceVersion" in new:
        new["resourceVersion"] = version
    if str(new.get("path", "")).endswith("/resourceVersion"):
        new["value"] = version
    return new


def object_of(path):
    parts = path.split("/")
    return "/".join(parts[:-1]) if parts[-1] in ("status", "eviction") else path


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_an_earlier_release_writes_is_admitted(recording):
    moments = list(decode(recording.read_text(encoding="utf-8").splitlines()))
    sandbox = restore(moments[0])
    controller, sent, denied = AsController(sandbox.transport), 0, []
    for moment in moments:
        put_back(sandbox, moment)
        for call in moment.sent:
            path = call["path"]
            body = json.dumps(current(call["body"], sandbox, object_of(path))).encode()
            request = Request(
                method=call["method"],
                path=path,
                query=call["query"],
                body=body if call["body"] else b"",
                content_type=call["type"],
            )
            answer, sent = controller.send(request), sent + 1
            if answer.status in (403, 422):
                denied.append(f"{call['method']} {path}: {json.loads(answer.body)['message']}")
    assert sent > 15
    assert not denied


@pytest.mark.crossed
@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
@pytest.mark.parametrize("scene", SCENES)
def test_pods_are_moved_under_the_rules_of_an_earlier_release(release, scene):
    def prepare(sandbox):
        install(sandbox.transport)
        for obj in sandbox.api.everything():
            if obj["kind"] in RULES:
                sandbox.api.delete(obj)
        api = KubeApi(sandbox.transport)
        for rule in yaml.safe_load_all((release / "rules.yaml").read_text(encoding="utf-8")):
            api.apply(path_of(rule), json.dumps(rule).encode(), manager="rescheduler")

    (move,) = record(SCENES[scene], prepare)[-1].of_kind("PodMigration")
    assert (move["status"]["phase"], move["status"]["reason"]) == ("Succeeded", "Landed"), move["status"]
