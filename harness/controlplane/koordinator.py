"""Koordinator's real scheduler and its CRDs beside a test control plane: built once, never copied into this project.

``python -m harness.controlplane.koordinator`` builds (about 4 minutes, once). The CRDs are read from the Go module.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from harness.controlplane.binaries import MODULES, BinariesMissing, cache_folder
from harness.controlplane.processes import Process, free_port
from harness.controlplane.servers import ControlPlane

MODULE: Final = "github.com/koordinator-sh/koordinator"
PACKAGE: Final = f"{MODULE}/cmd/koord-scheduler"
SCHEDULER: Final = "koord-scheduler"
_APPROVAL: Final = "api-approved.kubernetes.io"
_EXTENSION_POINTS: Final = ("preFilter", "filter", "preScore", "reserve", "preBind")


def program_path() -> Path:
    """Where the built program is, named after what it is built from."""
    module = MODULES / "koordinator"
    digest = hashlib.sha256((module / "go.mod").read_bytes() + (module / "go.sum").read_bytes())
    return cache_folder().parent / f"koord-scheduler-{digest.hexdigest()[:12]}"


def find() -> Path:
    """The program, if it is there. Raises BinariesMissing otherwise."""
    target = program_path()
    if not target.exists():
        raise BinariesMissing(
            "Koordinator's scheduler is not built: run `make koordinator` (about 4 minutes, once)."
        )
    return target


def build() -> Path:
    """The program's path; builds it if need be. Raises BinariesMissing where Go is missing or the build fails."""
    target = program_path()
    if target.exists():
        return target
    if shutil.which("go") is None:
        raise BinariesMissing("Go is not installed: Koordinator's scheduler cannot be built.")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(fresh), PACKAGE]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(  # noqa: S603  a constant command
        command, cwd=MODULES / "koordinator", env=environment, check=False
    )
    if done.returncode:
        fresh.unlink(missing_ok=True)
        raise BinariesMissing(
            f"Building Koordinator's scheduler failed (go build ended with {done.returncode})."
        )
    fresh.rename(target)
    return target


def definitions() -> Iterator[dict[str, Any]]:
    """Its CustomResourceDefinitions; those in groups of Kubernetes itself say that nobody approved them."""
    for file in sorted((_source() / "config" / "crd" / "bases").glob("*.yaml")):
        document: dict[str, Any] = yaml.safe_load(file.read_text())
        if document["spec"]["group"].endswith(".k8s.io"):
            annotations = document["metadata"].setdefault("annotations", {})
            annotations.setdefault(_APPROVAL, "unapproved")
        yield document


def _source() -> Path:
    """The module in Go's cache."""
    done = subprocess.run(  # noqa: S603  a constant command
        ["go", "list", "-m", "-f", "{{.Dir}}", MODULE],  # noqa: S607  Go from the PATH
        cwd=MODULES / "koordinator",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not done.stdout.strip():
        raise BinariesMissing(f"The source of Koordinator is not there: {done.stderr.strip()}")
    return Path(done.stdout.strip())


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
        for definition in definitions():
            api.create(path, definition).expect()
        self._process.command = [
            str(find()),
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


def main() -> None:
    """Build, and say where."""
    try:
        sys.stdout.write(f"{build()}\n")
    except BinariesMissing as missing:
        sys.exit(str(missing))


if __name__ == "__main__":
    main()
