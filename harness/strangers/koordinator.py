"""Koordinator's real scheduler and its CRDs beside a control plane. The CRDs are read from the Go module."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final, Self

import yaml

from harness.controlplane.processes import Process, free_port
from harness.controlplane.servers import ControlPlane
from harness.strangers.build import definitions, find
from harness.strangers.tools import KOORD_SCHEDULER

SCHEDULER: Final = KOORD_SCHEDULER.name
_EXTENSION_POINTS: Final = ("preFilter", "filter", "preScore", "reserve", "preBind")


class Koordinator:
    """Context manager: its CRDs on a control plane, and its scheduler beside the stock one.

    koord-scheduler 1.8.0 now and then dies by itself of a nil pointer (Fit.isSchedulableAfterPodEvent); in a
    cluster the kubelet starts it again, here a thread does.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._process = Process(SCHEDULER, [], plane.folder / f"{SCHEDULER}.log")

    def __enter__(self) -> Self:
        api = self._plane.api()
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for definition in definitions(KOORD_SCHEDULER, "config/crd/bases"):
            api.create(path, definition).expect()
        self._process.command = [
            str(find(KOORD_SCHEDULER)),
            "--config",
            str(self._configuration()),
            "--authentication-skip-lookup=true",
            "--secure-port=0",
            "--address=127.0.0.1",
            f"--port={free_port()}",
        ]
        self.start()
        threading.Thread(target=self._supervise, name="koordinator-supervisor", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.kill()

    def kill(self) -> None:
        """SIGKILL to its scheduler; it stays away until ``start``."""
        with self._lock:
            self._process.wanted = False
            self._process.kill()

    def start(self) -> None:
        """Starts its scheduler again."""
        with self._lock:
            self._process.start()

    def _supervise(self) -> None:
        while not self._ended.wait(0.2):
            with self._lock:
                if self._process.wanted and not self._process.running:
                    self._process.start()

    def log_tail(self) -> str:
        """The end of the scheduler's log."""
        return self._process.log_tail()

    def _configuration(self) -> Path:
        """One profile with the plugin Reservation at its places; the rest as in kube-scheduler."""
        ours = {"enabled": [{"name": "Reservation"}]}
        plugins: dict[str, Any] = dict.fromkeys(_EXTENSION_POINTS, ours)
        plugins["score"] = {"enabled": [{"name": "Reservation", "weight": 5000}]}
        plugins["postFilter"] = {"disabled": [{"name": "*"}], **ours}
        plugins["bind"] = {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": "Reservation"}, {"name": "DefaultBinder"}],
        }
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self._plane.kubeconfig), "qps": 500, "burst": 1000},
            "profiles": [{"schedulerName": SCHEDULER, "plugins": plugins}],
        }
        file = self._plane.folder / f"{SCHEDULER}.yaml"
        file.write_text(yaml.dump(document, Dumper=_Plain))
        return file


class _Plain(yaml.SafeDumper):
    """Without anchors for parts that occur several times."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the signature of the library
        return True
