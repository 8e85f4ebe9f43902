"""What the webhook costs a pod's creation, and how fast a switch is in force, on the real control plane.

``python bench/webhook.py [--pods N]``: starts a control plane without MutatingAdmissionPolicy, serves the
webhook from this process and creates pods in dry runs. Milliseconds; other load on the machine shows.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable

from harness.controlplane import manifests
from harness.controlplane.processes import free_port
from harness.controlplane.servers import ControlPlane, without_policies
from harness.controlplane.world import keys_on
from kube_sandbox.kubelet import KubeletThread
from rescheduler.kube.client import KubeApi
from rescheduler.kube.gate import probe_pod
from rescheduler.model.controller_key import controller_key
from rescheduler.model.records import OwnerRef
from rescheduler.webhook.match_conditions import MOST_KEYS
from rescheduler.webhook.registration import WebhookSettings
from rescheduler.webhook.webhook import Webhook

HELD = "uid-of-a-held-controller"
GATE_KEYS = "/api/v1/namespaces/rescheduler/configmaps/gate-keys"


class Bench:
    """One control plane, one webhook."""

    def __init__(self, plane: ControlPlane, pods: int) -> None:
        self.transport = plane.api().transport
        self.api = KubeApi(self.transport)
        self.pods = pods

    def held(self, uid: str) -> bool:
        body = probe_pod(OwnerRef("apps/v1", "ReplicaSet", "x", uid), "default", {})
        return b"rescheduler.dev/hold" in self.api.create(
            "/api/v1/namespaces/default/pods", body, dry_run=True
        )

    def switch_on(self, uid: str) -> None:
        self.api.merge_patch(GATE_KEYS, keys_on({controller_key("default", uid): "room"}))

    def show(self, what: str, call: Callable[[], object], times: int | None = None) -> None:
        found = sorted(timed_ms(call) for _ in range(times or self.pods))
        print(f"{what:62} median {statistics.median(found):7.2f}  p99 {found[int(len(found) * 0.99)]:7.2f}")

    def switch(self) -> float:
        """Milliseconds from the patch of the ConfigMap to the first pod that is held."""
        uid = f"uid-{time.monotonic_ns()}"
        self.switch_on(uid)
        begun_s = time.monotonic()
        while not self.held(uid):
            pass
        ms = (time.monotonic() - begun_s) * 1000
        self.api.merge_patch(GATE_KEYS, {"data": {controller_key("default", uid): None}})
        return ms

    def until(self, wanted: Callable[[], bool]) -> None:
        limit_s = time.monotonic() + 30
        while not wanted():
            if time.monotonic() > limit_s:
                raise SystemExit("not in force within 30 s")
            time.sleep(0.02)

    def run(self) -> None:
        port = free_port()
        settings = WebhookSettings(namespace="rescheduler", port=port, url=f"https://127.0.0.1:{port}")
        self.show("no webhook at all", lambda: self.held(HELD))
        webhook = Webhook(self.transport, settings, leads=lambda: True)
        webhook.start()
        self.until(lambda: webhook.in_force)
        self.show("webhook, nothing is switched on", lambda: self.held(HELD))
        self.switch_on(HELD)
        self.until(lambda: self.held(HELD))
        self.show("pods of another controller", lambda: self.held("uid-of-another"))
        self.show("pods that are held", lambda: self.held(HELD))
        switched = sorted(self.switch() for _ in range(40))
        print(
            f"{'switched on -> held':62} median {statistics.median(switched):7.2f}  max {switched[-1]:7.2f}"
        )
        self.busy()
        uids = [f"{n:08d}-0000-4000-8000-000000000000" for n in range(MOST_KEYS - 1)]
        path = "/api/v1/namespaces/rescheduler/configmaps/gate-keys"
        self.api.merge_patch(path, keys_on({controller_key("default", uid): "room" for uid in uids}))
        self.until(lambda: self.held(uids[-1]))
        self.show(f"pods of another controller, {MOST_KEYS} keys", lambda: self.held("uid-of-another"))
        self.show(f"pods that are held, {MOST_KEYS} keys", lambda: self.held(HELD))
        self.api.merge_patch(path, keys_on({controller_key("default", "one-more"): "room"}))
        self.until(lambda: self.held("one-more"))
        self.show(f"pods of another controller, {MOST_KEYS + 1} keys", lambda: self.held("uid-of-another"))
        webhook.stop()
        self.show("pods that should be held, webhook down", lambda: self.held(HELD))

    def busy(self) -> None:
        """A thread of the same process that computes in Python all the time, as a decision does."""
        ended = threading.Event()

        def compute() -> None:
            while not ended.is_set():
                sum(range(10_000))

        thread = threading.Thread(target=compute)
        thread.start()
        self.show("pods that are held, while a decision computes", lambda: self.held(HELD))
        ended.set()
        thread.join()


def timed_ms(call: Callable[[], object]) -> float:
    begun_s = time.monotonic()
    call()
    return (time.monotonic() - begun_s) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=300)
    with ControlPlane(apiserver_flags=without_policies()) as plane, KubeletThread(plane.api().transport):
        manifests.apply(plane.api(), manifests.of("webhook"))
        Bench(plane, parser.parse_args().pods).run()


if __name__ == "__main__":
    main()
