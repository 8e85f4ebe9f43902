"""A cluster with the controller in virtual time, and what is asked of it about windows and head-rooms."""

import datetime as dt
import random

from harness import documents
from harness.histories.program import QUIET, Program, ProgramOptions
from kube_sandbox.controllers.unstructured import NODE, POD, GroupKind, spec, status
from kube_sandbox.installing import install
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox

WINDOW, HEAD_ROOM, RESERVATION = (
    GroupKind("rescheduler.dev", kind) for kind in ("ReservationWindow", "HeadRoom", "Reservation")
)
__all__ = ["NODE"]
OWNERS = [{"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": "nightly"}}}]
RUN_FOR = "sandbox.rescheduler.dev/run-for"


def template(cpu="2"):
    return {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}}


class WindowScene:
    def __init__(self, nodes=3, cpu="8", document=QUIET):
        self.cluster = Sandbox(kubelet=KubeletSettings(start_s=0.2, ready_s=0.3, stop_s=0.3))
        install(self.cluster.transport)
        for number in range(nodes):
            self.cluster.add_node(SandboxNode(name=f"n{number}", cpu=cpu))
        self.api = self.cluster.api
        self.program = Program(self.cluster, random.Random(1), ProgramOptions(document=document))  # noqa: S311 - reproducible
        self.cluster.add(self.program)
        self.cluster.advance(20)

    @property
    def now_s(self):
        return self.cluster.clock()

    def cron_in(self, seconds):
        """The cron of a window that begins at the first full minute after so many seconds, each day."""
        at = dt.datetime.fromtimestamp(self.now_s + seconds + 59.999, dt.UTC)
        return f"{at.minute} {at.hour} * * *"

    def window(self, name="nightly", **more):
        body = {
            "cron": self.cron_in(150), "duration": "1h", "podNumToReserve": 2, "startReserveAgo": "100s",
            "owners": OWNERS,
        }  # fmt: skip
        body |= more
        if "resources" not in body:
            body.setdefault("template", template())
        body = {key: value for key, value in body.items() if value is not None}
        return self.api.create(documents.own("ReservationWindow", name, body))

    def change(self, name="nightly", kind=WINDOW, **spec_):
        self.api.patch(self.api.get(kind, "", name), {"spec": spec_})

    def head_room(self, name="spare", **more):
        body = {"rooms": 2, "template": template(), "owners": OWNERS, **more}
        return self.api.create(documents.own("HeadRoom", name, body))

    def pod(self, name, cpu="2", *, node="", run_s=None, annotations=None, labels=None, **more):
        notes = {**(annotations or {}), **({RUN_FOR: str(run_s)} if run_s is not None else {})}
        body = {**template(cpu)["spec"], **more}
        if node:
            body["nodeSelector"] = {"kubernetes.io/hostname": node}
        meta = {"name": name, "namespace": "default", "labels": labels or {}, "annotations": notes}
        self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body})

    def owner(self, name, cpu="2", **more):
        self.pod(name, cpu, labels={"app": "nightly"}, **more)

    def node_of(self, name):
        pod = self.api.get(POD, "default", name)
        return spec(pod).get("nodeName", "") if pod else None

    def state(self, name="nightly", kind=WINDOW):
        return status(self.api.get(kind, "", name))

    def phase(self, name="nightly"):
        return self.state(name).get("phase")

    def rooms(self, phase=None):
        found = self.api.list(RESERVATION)
        return [r for r in found if phase is None or status(r).get("phase") == phase]

    def live(self):
        return [r for r in self.rooms() if status(r).get("phase") not in ("Succeeded", "Failed")]

    def until(self, predicate, limit_s=600.0):
        return self.cluster.run_until(predicate, limit_s)

    def advance(self, seconds):
        self.cluster.advance(seconds)

    def told(self, reason):
        return [line for line in self.program.events.told if line.startswith(f"{reason}:")]
