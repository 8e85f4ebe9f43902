"""A controller whose Lease somebody else has taken, on a sandbox in real time."""

import threading
import time

import yaml
from structlog.testing import capture_logs

from harness.controlplane.controllers import QUIET
from kube_sandbox.installing import install
from kube_sandbox.sandbox import Sandbox
from rescheduler.controller.ports import LoopTimings
from rescheduler.controller.run import Controller, Options
from rescheduler.kube.client import KubeApi
from rescheduler.kube.connection import connect
from tests.waiting import until

LEASE = "/apis/coordination.k8s.io/v1/namespaces/rescheduler/leases/rescheduler"


def test_the_loss_is_told_once_whoever_notices_it_first(tmp_path):
    """The elector does, and the call that is not sent any more."""
    config, kubeconfig = tmp_path / "config.yaml", tmp_path / "kubeconfig"
    config.write_text(yaml.safe_dump({**QUIET, "leaderElection": {"enabled": True}}))
    with Sandbox(clock=time.time) as cluster, capture_logs() as logs:
        cluster.start(kubeconfig=kubeconfig)
        install(cluster.transport)
        api = KubeApi(cluster.transport)
        options = Options(config_file=str(config), serve=False, timings=LoopTimings(turn_s=0.2))
        controller = Controller(connect(str(kubeconfig)), options)
        thread = threading.Thread(target=controller.run, daemon=True)
        thread.start()
        until(lambda: [line for line in logs if line["event"] == "Elected"])
        api.merge_patch(LEASE, {"spec": {"holderIdentity": "other"}})
        thread.join(60)
    assert not thread.is_alive()
    assert controller.lost_leadership
    told = [line for line in logs if "eadership" in line["event"]]
    assert [line["reason"] for line in told] == ["the Lease was taken by other"]
