"""Servers that are too old to move pods on are refused at the start, with words; reading from them goes on."""

import sys

import pytest

from rescheduler.controller.run import Controller, MissingParts, Options
from rescheduler.kube.discovery import Capabilities, ServerVersion
from rescheduler.kube.installed_rules import InstalledRules

QUIET = "{apiVersion: rescheduler.dev/v1alpha1, kind: ReschedulerConfiguration, policies: []}"


@pytest.fixture
def start(tmp_path, monkeypatch):
    """start(version, there, dry_run): runs the controller against a server that says so of itself."""

    def start(version, *, there=True, dry_run=False):
        capabilities = Capabilities(version=version, reservations=there, pod_migrations=there)
        monkeypatch.setattr("rescheduler.controller.first_look.discover", lambda _api: capabilities)
        monkeypatch.setattr("rescheduler.controller.run.installed_rules", lambda _api: InstalledRules())
        path = tmp_path / "config.yaml"
        path.write_text(QUIET)

        def unreachable(*_, **__):
            raise ConnectionError("the start went on")

        monkeypatch.setattr("rescheduler.controller.run.Informers", unreachable)
        Controller(None, Options(config_file=str(path), serve=False, dry_run=dry_run)).run()

    return start


@pytest.mark.parametrize("minor", [24, 27, 29])
def test_before_1_30_nothing_is_begun(start, minor):
    with pytest.raises(
        MissingParts, match=r"Kubernetes 1\.30 or newer is needed .* this server is v1\.\d\d\.3"
    ):
        start(ServerVersion(1, minor, f"v1.{minor}.3"))


@pytest.mark.parametrize(
    "version", [ServerVersion(1, 30, "v1.30.0"), ServerVersion(1, 37, "v1.37.0"), ServerVersion(0, 0, "")]
)
def test_newer_ones_and_those_that_do_not_tell_are_taken(start, version):
    with pytest.raises(ConnectionError, match="the start went on"):
        start(version)


def test_calls_get_the_interpreter_soon_while_a_round_computes(start):
    """A thread that waits for an answer wakes beside one that computes; four times for each call."""
    before_s = sys.getswitchinterval()
    try:
        with pytest.raises(ConnectionError):
            start(ServerVersion(1, 37, "v1.37.0"))
        assert sys.getswitchinterval() <= 0.001
    finally:
        sys.setswitchinterval(before_s)


def test_a_dry_run_reads_from_any(start):
    with pytest.raises(ConnectionError, match="the start went on"):
        start(ServerVersion(1, 27, "v1.27.3"), there=False, dry_run=True)


def test_the_age_is_told_before_missing_kinds(start):
    with pytest.raises(MissingParts, match="is needed"):
        start(ServerVersion(1, 27, "v1.27.3"), there=False)
    with pytest.raises(MissingParts, match="kubectl apply -k manifests/crds"):
        start(ServerVersion(1, 30, "v1.30.3"), there=False)
