"""Another version of the program, from git: its sources in a folder, its manifests, and its controller as a process.

It runs in this virtual environment, since releases share their dependencies. A clone without that commit has no other version.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import yaml

from harness.controlplane.processes import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = ("rescheduler", "manifests", "pyproject.toml")
_ENDS_S: Final = 30.0
_PRUNED: Final = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")


def check_out(commit: str, folder: Path) -> bool:
    """Write the sources of a commit into the folder; False if this clone does not have it."""
    git = ["git", "-C", str(ROOT)]
    known = subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False)  # noqa: S603 - words of this module
    if known.returncode:
        return False
    packed = subprocess.run([*git, "archive", commit, *PARTS], capture_output=True, check=True).stdout  # noqa: S603 - words of this module
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return True


def apply(sources: Path, kubectl: str, kubeconfig: Path) -> list[dict[str, Any]]:
    """What docs/upgrading.md says, in both directions; without the Deployment, since the controller runs beside the cluster. Gives the objects."""
    tool = [kubectl, "--kubeconfig", str(kubeconfig)]
    built = subprocess.run(  # noqa: S603 - words of this module
        [*tool, "kustomize", str(sources / "manifests")], capture_output=True, check=True, text=True
    )
    objects = [obj for obj in yaml.safe_load_all(built.stdout) if obj and obj["kind"] != "Deployment"]
    allowed = [f"--prune-allowlist=admissionregistration.k8s.io/v1/{kind}" for kind in _PRUNED]
    done = subprocess.run(  # noqa: S603 - words of this module
        [*tool, "apply", "--prune", "-l", "app.kubernetes.io/name=rescheduler", *allowed, "-f", "-"],
        input=yaml.safe_dump_all(objects),
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    return objects


@dataclass
class ControllerProcess:
    """The controller of one version."""

    sources: Path
    kubeconfig: Path
    folder: Path
    configuration: dict[str, Any]
    log: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Start it."""
        document = {**self.configuration, "server": {"port": free_port()}}
        path = self.folder / f"{self.sources.name}.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        words = ["run", "--kubeconfig", str(self.kubeconfig), "--config", str(path), "--log-level", "debug"]
        self._output = (self.folder / f"{self.sources.name}.log").open("a+", encoding="utf-8")
        self._process = subprocess.Popen(  # noqa: S603 - words of this module
            [sys.executable, "-c", "from rescheduler.cli.main import main; main()", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.sources)},
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        return self

    def __exit__(self, *_: object) -> None:
        """End it as a rollout does, with SIGTERM."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_ENDS_S)
        self._output.seek(0)
        self.log = self._output.read().splitlines()
        self._output.close()
