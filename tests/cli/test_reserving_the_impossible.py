"""``reserve create`` refuses what no node of the cluster can hold, and leaves nothing behind."""

import pytest

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.reservation_client import manifests
from rescheduler.model.reservation import Reservation

RESERVATIONS = "/apis/rescheduler.dev/v1alpha1/reservations"
OWNER = ("--owner-selector", "app=x")
REFUSED = {
    "unknown node": (("--cpu", "1", "--node", "n99"), "there is no node/n99"),
    "more than any node has": (("--cpu", "9999"), "cpu 9999: the largest node has 4"),
    "more than the node has": (("--memory", "100Ti", "--node", "n1"), "memory 100Ti: node/n1 has "),
    "a resource that none has": (("--request", "nvidia.com/gpu=1"), "no node has any nvidia.com/gpu"),
    "no resource": (("--request", "gpu=1"), "--request: 'gpu' is no resource"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_node_can_hold_is_refused_and_leaves_nothing(work, command, name):
    words, said = REFUSED[name]
    done = command("reserve", "create", *words, *OWNER, "--kubeconfig", work.kubeconfig)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {said}")
    assert work.api.get(RESERVATIONS).items == []


def test_what_fits_into_an_empty_node_may_wait_for_it(work, command):
    done = command(
        "reserve",
        "create",
        "--cpu",
        "4",
        "--name",
        "large",
        "--no-wait",
        *OWNER,
        "--kubeconfig",
        work.kubeconfig,
    )
    assert done.exit_code == 0, done.output
    command("reserve", "release", "large", "--kubeconfig", work.kubeconfig)


def test_rooms_of_an_earlier_command_count(work, command):
    work.deploy("web", 1)
    words = ("reserve", "create", "deployment/web", "--replicas", "3", "-n", "default")
    first = command(*words, "--kubeconfig", work.kubeconfig)
    assert (first.exit_code, len(first.stdout.splitlines())) == (0, 2), first.output
    again = command(*words, "--kubeconfig", work.kubeconfig)
    assert (again.exit_code, again.stdout, again.stderr) == (
        0,
        "",
        "deployment/web has all of its rooms already\n",
    )
    more = command(*words[:-3], "4", *words[-2:], "--kubeconfig", work.kubeconfig)
    assert (more.exit_code, len(more.stdout.splitlines())) == (0, 1), more.output
    names = [one["metadata"]["name"] for one in work.api.get(RESERVATIONS).items]
    command("reserve", "release", *names, "--kubeconfig", work.kubeconfig)
    work.remove("Deployment", "web")


@pytest.mark.parametrize(("count", "fits"), [(1000, True), (1001, False), (999_999, False)])
def test_a_command_makes_no_more_than_a_thousand(count, fits):
    """``scale --replicas 1000000`` would else create rooms for hours before it finds that not all fit."""
    room = Reservation(name="room")
    if fits:
        assert len(manifests(room, count, "word")) == count
        return
    with pytest.raises(CommandError, match="at most 1,000 at once") as refused:
        manifests(room, count, "word")
    assert refused.value.exit_code == EXIT_USAGE


def test_what_exists_already_is_told_as_kubectl_tells_it(work, command):
    """The day after: the same command once more."""
    words = ("reserve", "create", "--no-wait", "--name", "twice", "--cpu", "1", "--owner-selector", "app=x")
    assert command(*words, "--kubeconfig", work.kubeconfig).exit_code == 0
    again = command(*words, "--kubeconfig", work.kubeconfig)
    assert again.exit_code == 1
    assert again.stderr.splitlines()[-1] == 'error: reservations.rescheduler.dev "twice" already exists'
    command("reserve", "release", "twice", "--kubeconfig", work.kubeconfig)
