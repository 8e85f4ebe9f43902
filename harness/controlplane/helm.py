"""Helm, with which the chart is rendered in tests: built once from the Go module proxy, never copied into this project.

``python -m harness.controlplane.helm`` builds (2 to 10 minutes, once).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from harness.controlplane.binaries import BinariesMissing, cache_folder

VERSION: Final = "v3.19.0"
_PACKAGE: Final = f"helm.sh/helm/v3/cmd/helm@{VERSION}"


def program_path() -> Path:
    """Where the built program is."""
    return cache_folder().parent / f"helm-{VERSION}"


def find() -> Path:
    """The program, if it is there. Raises BinariesMissing otherwise."""
    target = program_path()
    if target.exists():
        return target
    if shutil.which("go") is None:
        raise BinariesMissing("Helm is not built and Go is not installed: the chart is not rendered.")
    raise BinariesMissing(
        "Helm is not built: run `python -m harness.controlplane.helm` (2 to 10 minutes, once)."
    )


def build() -> Path:
    """The program's path; builds it if need be. Raises BinariesMissing where Go is missing or the build fails."""
    target = program_path()
    if target.exists():
        return target
    if shutil.which("go") is None:
        raise BinariesMissing("Go is not installed: Helm cannot be built.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": folder}
        command = ["go", "install", "-trimpath", "-ldflags", "-s -w", _PACKAGE]
        done = subprocess.run(command, env=environment, cwd=folder, check=False)  # noqa: S603  a constant command
        if done.returncode != 0:
            raise BinariesMissing(f"Building Helm failed (go install ended with {done.returncode}).")
        (Path(folder) / "helm").replace(target)
    return target


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build()}\n")
    except BinariesMissing as missing:
        sys.exit(str(missing))
