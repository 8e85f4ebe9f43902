"""Another version of the program, from git: its sources in a folder, its manifests, and its controller as a process.

It runs in this virtual environment, since releases share their dependencies. A clone without that commit has no other version.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from harness.controlplane.processes import Process, free_port

ROOT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = ("rescheduler", "manifests", "pyproject.toml")
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


def controller(sources: Path, kubeconfig: Path, folder: Path, configuration: Mapping[str, Any]) -> Process:
    """The controller of one version; nobody has started it yet."""
    path = folder / f"{sources.name}.yaml"
    path.write_text(yaml.safe_dump({**configuration, "server": {"port": free_port()}}), encoding="utf-8")
    # -P: what is in the folder from where it is started is no source.
    program = [sys.executable, "-P", "-c", "from rescheduler.cli.main import main; main()", "run"]
    options = ["--kubeconfig", str(kubeconfig), "--config", str(path), "--log-level", "debug"]
    command = ["/usr/bin/env", f"PYTHONPATH={sources}", *program, *options]
    return Process(f"controller of {sources.name}", command, folder / f"{sources.name}.log")
