"""Installed CRDs and admission policies of another version are told with the command that mends it, and stop nothing."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from harness.controlplane.api import MERGE, Api
from kube_sandbox.installing import install
from kube_sandbox.sandbox import Sandbox
from rescheduler import __version__
from rescheduler.cli.main import main
from rescheduler.kube.client import KubeApi
from rescheduler.kube.installation import FOLDER, load
from rescheduler.kube.installed_rules import InstalledRules, installed_rules
from rescheduler.kube.transport import Response, TransportError

ROOT = Path(__file__).parents[2]
LABEL = "app.kubernetes.io/version"
KINDS = {"CustomResourceDefinition", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}


@pytest.fixture
def sandbox():
    sandbox = Sandbox()
    install(sandbox.transport)
    return sandbox


def found(sandbox):
    return installed_rules(KubeApi(sandbox.transport))


def label(sandbox, kind, version, name=""):
    for obj in sandbox.api.everything():
        if obj["kind"] == kind and name in obj["metadata"]["name"]:
            sandbox.api.patch(obj, {"metadata": {"labels": {LABEL: version}}})


def test_what_is_installed_with_the_program_is_of_its_version(sandbox):
    assert found(sandbox)._replace(names=frozenset()) == InstalledRules()


@pytest.mark.parametrize("folder", [FOLDER, FOLDER / "components" / "webhook"])
def test_every_rule_has_the_version_of_the_program(folder):
    versions = {obj["metadata"]["labels"].get(LABEL) for obj in load(folder) if obj["kind"] in KINDS}
    assert versions <= {__version__}


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("version", [None, "0.0.9"])
def test_older_ones_are_told_with_the_command(sandbox, kind, version):
    label(sandbox, kind, version)
    words = found(sandbox).others
    assert words.startswith(kind)
    assert f"is of {version or '0.1.0 or before'}" in words
    assert (
        f"this program is {__version__}: apply the manifests of {__version__}: kubectl apply -k manifests/"
        in words
    )


def test_a_newer_one_is_told_before_older_ones(sandbox):
    label(sandbox, "CustomResourceDefinition", "0.0.9")
    label(sandbox, "ValidatingAdmissionPolicy", "0.10.0", "reservation-limits")
    words = found(sandbox).others
    assert words.startswith(
        "ValidatingAdmissionPolicy reservation-limits.rescheduler.dev is of 0.10.0, and 4 more"
    )
    assert "--prune -l app.kubernetes.io/name=rescheduler" in words


class Refusing:
    """An API server that answers everything with one status; 0: nothing answers."""

    def __init__(self, status):
        self.status = status

    def send(self, request):
        if not self.status:
            raise TransportError("no route to host")
        body = b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"may not list","code":%d}'
        return Response(self.status, body % self.status, {})


def test_a_right_that_is_missing_is_told():
    answer = installed_rules(KubeApi(Refusing(403)))
    assert answer.others == ""
    assert "may not list" in answer.unknown


def test_what_cannot_be_seen_stops_nothing():
    for status in (0, 404, 422):
        assert installed_rules(KubeApi(Refusing(status))) == InstalledRules()


def test_status_shows_it(sandbox, tmp_path):
    label(sandbox, "ValidatingAdmissionPolicy", None)
    with sandbox:
        kubeconfig = tmp_path / "kubeconfig"
        sandbox.start(kubeconfig=kubeconfig)
        result = CliRunner().invoke(main, ["status", "--no-plan", "--kubeconfig", str(kubeconfig)])
    text = re.sub(r"\s+", " ", result.output)
    assert "warning: ValidatingAdmissionPolicy" in text
    assert "kubectl apply -k manifests/" in text


def test_a_release_writes_its_version_into_every_rule(tmp_path):
    """The command of ``make release``."""
    (line,) = re.findall(r"^\tsed -i '(/app.*)' \$\$\(grep", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for path in FOLDER.rglob("*.yaml"):
        text = path.read_text()
        if LABEL in text:
            copy = tmp_path / path.name
            copy.write_text(text)
            script = line.replace("$(RELEASE)", "9.8.7")
            subprocess.run(["sed", "-i", script, str(copy)], check=True)
            versions = {
                obj["metadata"].get("labels", {}).get(LABEL)
                for obj in yaml.safe_load_all(copy.read_text())
                if obj["kind"] in KINDS
            }
            assert versions == {"9.8.7"}


@pytest.mark.realcluster
def test_the_controller_may_read_the_versions_on_the_control_plane(control_plane):
    kubeconfig = control_plane.kubeconfig_for("rescheduler", "rescheduler")
    api = KubeApi(Api.from_kubeconfig(kubeconfig).transport)
    assert installed_rules(api)._replace(names=frozenset()) == InstalledRules()
    policy = (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/reservation-limits.rescheduler.dev"
    )
    admin = control_plane.api()
    admin.patch(policy, {"metadata": {"labels": {LABEL: "9.0.0"}}}, MERGE).expect()
    try:
        assert (
            "reservation-limits.rescheduler.dev is of 9.0.0, and this program" in installed_rules(api).others
        )
    finally:
        admin.patch(policy, {"metadata": {"labels": {LABEL: __version__}}}, MERGE).expect()
