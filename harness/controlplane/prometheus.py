"""promtool checks alerts and dashboard, and Prometheus is asked the dashboard's queries: built once from the Go module proxy.

``python -m harness.controlplane.prometheus`` builds both, without service discovery of clouds (about 10 minutes, once).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from harness.controlplane.binaries import MODULES, BinariesMissing, cache_folder

MODULE: Final = MODULES / "prometheus"
PROGRAMS: Final = ("promtool", "prometheus")


def program_path(program: str) -> Path:
    """Where a built program is, named after what it is built from."""
    digest = hashlib.sha256((MODULE / "go.mod").read_bytes() + (MODULE / "go.sum").read_bytes())
    return cache_folder().parent / f"{program}-{digest.hexdigest()[:12]}"


def find(program: str) -> Path:
    """The program, if it is there. Raises BinariesMissing otherwise."""
    target = program_path(program)
    if not target.exists():
        raise BinariesMissing(
            f"{program} is not built: run `python -m harness.controlplane.prometheus` (about 10 minutes, once; needs Go)."
        )
    return target


def build(program: str) -> Path:
    """The program's path; builds it if need be. Raises BinariesMissing where Go is missing or the build fails."""
    target = program_path(program)
    if target.exists():
        return target
    if shutil.which("go") is None:
        raise BinariesMissing(f"Go is not installed: {program} cannot be built.")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    package = f"github.com/prometheus/prometheus/cmd/{program}"
    flags = ("-tags", "remove_all_sd", "-trimpath", "-ldflags", "-s -w")
    environment = {**os.environ, "CGO_ENABLED": "0"}
    command = ["go", "build", *flags, "-o", str(fresh), package]
    done = subprocess.run(command, cwd=MODULE, env=environment, check=False)  # noqa: S603  a constant command
    if done.returncode != 0:
        fresh.unlink(missing_ok=True)
        raise BinariesMissing(f"Building {program} failed (go build ended with {done.returncode}).")
    fresh.replace(target)
    return target


if __name__ == "__main__":
    try:
        for each in PROGRAMS:
            sys.stdout.write(f"{build(each)}\n")
    except BinariesMissing as missing:
        sys.exit(str(missing))
