"""Commands warn where they judge by another configuration than the leader goes by, as its Lease says."""

import pytest

from rescheduler.cli.live_controller import ReadConfiguration
from rescheduler.configuration.document import default_configuration
from rescheduler.reports.status_document import ControllerStatus, Presence

MAP = "ConfigMap rescheduler/rescheduler"
LEADERS = {
    "the same": ("v1 configmap rescheduler/rescheduler config.yaml", ""),
    "a newer version, which is taken in seconds": ("v0 configmap rescheduler/rescheduler config.yaml", ""),
    "of a release that does not say": ("", ""),
    "a file": ("v2 /etc/its.yaml", f"c-1 does not go by {MAP}, but by /etc/its.yaml: judge by it with --config"),
    "another ConfigMap": ("v2 configmap rescheduler/other config.yaml",
        f"c-1 does not go by {MAP}, but by configmap rescheduler/other config.yaml: judge by it with --config"),
    "no document": ("careful ", f"c-1 does not go by {MAP}, but by no document"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEADERS)
def test_another_configuration_than_that_of_the_leader_is_told(name):
    told, warning = LEADERS[name]
    read = ReadConfiguration(default_configuration(), source=MAP, version="v1")
    leader = ControllerStatus(presence=Presence.LEADING, holder="c-1", configuration=told)
    assert read.beside(leader).warning == warning
    stopped = ControllerStatus(presence=Presence.STOPPED, holder="c-1", configuration=told)
    assert read.beside(stopped) is read


def test_the_leader_says_on_its_lease_by_what_it_goes(work):
    path = "/apis/coordination.k8s.io/v1/namespaces/rescheduler/leases/rescheduler"

    def told():
        annotations = work.api.get(path).body["metadata"].get("annotations") or {}
        return annotations.get("rescheduler.dev/configuration", "").partition(" ")[2]

    assert work.wait(told) == "configmap rescheduler/rescheduler config.yaml"
