"""An API server that refuses everything: each command names the right that is missing, and where to get it."""

import json

import pytest

from rescheduler.kube.kubeconfig import default_namespace

REFUSED = {
    "kind": "Status",
    "status": "Failure",
    "reason": "Forbidden",
    "message": "eve \x1b[2J cannot",
    "code": 403,
}


@pytest.fixture
def refusing(answering, kubeconfig_of):
    """A kubeconfig whose context is of namespace ``shop``."""
    return str(kubeconfig_of(answering(403, json.dumps(REFUSED).encode()), namespace="shop"))


@pytest.mark.parametrize(("words", "said"), [
    (("move", "pod", "web-1"), "you may not list pods in namespace shop"),
    (("drain", "n1"), "you may not list nodes"),
    (("uncordon", "n1"), "you may not list nodes"),
    (("history",), "you may not list podmigrations in namespace shop"),
    (("history", "-A"), "you may not list podmigrations in all namespaces"),
    (("reserve", "list"), "you may not do this"),
    (("reserve", "window", "list"), "you may not list reservationwindows"),
    (("scale", "deployment/web", "--replicas", "2"), "you may not do this"),
], ids=str)  # fmt: skip
def test_the_missing_right_is_named(command, refusing, words, said):
    done = command(*words, "--kubeconfig", refusing)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {said}: eve \\u001b[2J cannot (")


@pytest.mark.parametrize("words", [("plan",), ("explain", "pod", "web-1")], ids=str)
def test_whoever_may_not_read_the_cluster_is_sent_to_the_roles(command, refusing, words):
    done = command(*words, "--kubeconfig", refusing)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "error: you may not do this: eve" in done.stderr
    assert "docs/security.md" in done.stderr


@pytest.mark.parametrize("words", [("uninstall", "--dry-run"), ("release-gates",)], ids=str)
def test_whoever_may_not_take_it_out_is_sent_to_an_administrator(command, refusing, words):
    done = command(*words, "--kubeconfig", refusing)
    assert done.exit_code == 1
    assert "run it again as an administrator" in done.stderr


def test_a_reservation_whose_creation_was_refused_is_not_left_over(command, refusing):
    words = ("--cpu", "1", "--owner-selector", "app=web", "--name", "room", "--kubeconfig", refusing)
    done = command("reserve", "create", *words)
    assert done.exit_code == 1
    assert "error: you may not do this" in done.stderr
    assert "Not released" not in done.stderr


def test_status_shows_what_it_can(command, refusing):
    done = command("status", "--kubeconfig", refusing)
    assert done.exit_code == 0
    assert "controller     not known: the Lease may not be read" in done.stdout
    assert "you may not read the cluster" in done.stdout
    assert "moves under way are not known" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_the_namespace_is_that_of_the_context(refusing):
    assert default_namespace(refusing, None) == "shop"
