"""``reserve create`` refuses what no node of the cluster can hold, and leaves nothing behind."""

import pytest

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.reservation_client import manifests
from rescheduler.model.reservation import Reservation

RESERVATIONS = "/apis/rescheduler.dev/v1alpha1/reservations"
OWNER = ("--owner-selector", "app=x")


def test_what_fits_into_an_empty_node_may_wait_for_it(work, command):
    done = command(
        "reserve", "create", "--cpu", "4", "--name", "large", "--no-wait", *OWNER, "--kubeconfig",
        work.kubeconfig,
    )  # fmt: skip
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
