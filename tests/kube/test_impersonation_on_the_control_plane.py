"""As whom the real API server sees us with an impersonating kubeconfig, and that kubectl is seen the same."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from rescheduler.kube.connection import connect
from rescheduler.kube.transport import Request

pytestmark = pytest.mark.realcluster

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
ACTS_AS = {
    "as": "Jürgen",
    "as-uid": "42",
    "as-groups": ["dev", "a, b"],
    "as-user-extra": {"example.com/Scope %": ["one", "two"]},
}


def test_the_server_sees_the_user_groups_uid_and_extra_that_kubectl_sends(control_plane, tmp_path):
    document = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    for user in document["users"]:
        user["user"].update(ACTS_AS)
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    asked = Request(
        method="POST",
        path="/apis/authentication.k8s.io/v1/selfsubjectreviews",
        body=json.dumps(REVIEW).encode(),
    )
    answer = connect(str(path)).send(asked)
    assert answer.status == 201, answer.body
    ours = json.loads(answer.body)["status"]["userInfo"]
    assert (ours["username"], ours["uid"]) == ("Jürgen", "42")
    assert set(ours["groups"]) == {"dev", "a, b", "system:authenticated"}
    assert ours["extra"] == {"example.com/scope %": ["one", "two"]}
    done = subprocess.run(
        [control_plane.kubectl, "--kubeconfig", str(path), "auth", "whoami", "-o", "json"],
        capture_output=True,
        check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert json.loads(done.stdout)["status"]["userInfo"] == ours
