"""``reserve create`` refuses what no node of the cluster can hold, and leaves nothing behind."""

import pytest

OWNER = ("--owner-selector", "app=x")
REFUSED = {
    "unknown node": (("--cpu", "1", "--node", "n99"), "there is no node n99"),
    "more than any node has": (("--cpu", "9999"), "cpu 9999: the largest node has 4"),
    "more than the node has": (("--memory", "100Ti", "--node", "n1"), "memory 100Ti: n1 has "),
    "a resource that none has": (("--request", "nvidia.com/gpu=1"), "no node has any nvidia.com/gpu"),
    "no resource": (("--request", "gpu=1"), "--request: 'gpu' is no resource"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_node_can_hold_is_refused_and_leaves_nothing(work, command, name):
    words, said = REFUSED[name]
    done = command("reserve", "create", *words, *OWNER, "--kubeconfig", work.kubeconfig)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {said}")
    assert work.api.get("/apis/rescheduler.dev/v1alpha1/reservations").items == []


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
