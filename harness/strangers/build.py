"""Building one Go program of others from the module proxy into the cache.

Promises: the program at that version, built with the versions that its own ``go.mod`` names and the checksums of its own ``go.sum``,
or ``BinariesMissing`` with one plain sentence. Never builds without being asked: ``find`` looks, ``built`` builds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.controlplane.binaries import BinariesMissing, cache_folder, compiled


@dataclass(frozen=True, slots=True)
class Tool:
    """A program of others, and what it is built from."""

    name: str
    module: str
    version: str
    package: str
    """Its folder in the module, as ``./cmd/descheduler``."""
    toolchain: str = ""
    """A Go that the module needs and the machine may lack, as ``go1.27.3``; "" is the machine's own."""
    flags: tuple[str, ...] = ()
    minutes: int = 5
    """What building takes on two cores, once."""

    @property
    def path(self) -> Path:
        """Where the built program is."""
        return cache_folder().parent / f"{self.name}-{self.version}"


def find(tool: Tool) -> Path:
    """The program, if it is there. Raises BinariesMissing otherwise."""
    if tool.path.exists():
        return tool.path
    if shutil.which("go") is None:
        raise BinariesMissing(f"{tool.name} is not built and Go is not installed.")
    raise BinariesMissing(
        f"{tool.name} is not built: run `python -m harness.strangers {tool.name}` (about {tool.minutes} minutes, once)."
    )


def built(tool: Tool) -> Path:
    """The program's path; builds it if need be. Raises BinariesMissing where Go is missing or the build fails."""
    if tool.path.exists():
        return tool.path
    module = source(tool)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("go.mod", "go.sum"):  # the module's folder is read-only, and go writes beside go.mod
            (Path(folder) / name).write_bytes((module / name).read_bytes())
        return compiled(
            tool.path, tool.package, f"-modfile={folder}/go.mod", "-ldflags=-s -w", *tool.flags,
            folder=module, toolchain=tool.toolchain,
        )  # fmt: skip


def definitions(tool: Tool, *folders: str) -> Iterator[dict[str, Any]]:
    """The CustomResourceDefinitions in these folders of its module; those in groups of Kubernetes itself say that nobody approved them."""
    files = [file for folder in folders for file in sorted((source(tool) / folder).glob("*.yaml"))]
    for document in (yaml.safe_load(file.read_text()) for file in files):
        if document["spec"]["group"].endswith(".k8s.io"):
            annotations = document["metadata"].setdefault("annotations", {})
            annotations.setdefault("api-approved.kubernetes.io", "unapproved")
        yield document


def source(tool: Tool) -> Path:
    """The folder of its module in Go's cache, downloaded if need be: its CRDs are there. Raises BinariesMissing."""
    if shutil.which("go") is None:
        raise BinariesMissing(f"Go is not installed: {tool.name} is not to be had.")
    tool.path.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOTOOLCHAIN": tool.toolchain} if tool.toolchain else None
    done = subprocess.run(  # noqa: S603  constants of a Tool
        ["go", "mod", "download", "-json", f"{tool.module}@{tool.version}"],  # noqa: S607  Go from the PATH
        cwd=tool.path.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(done.stdout or "{}")
    if done.returncode or not answer.get("Dir"):
        raise BinariesMissing(
            f"{tool.module} {tool.version} cannot be had: {answer.get('Error') or done.stderr.strip()}"
        )
    return Path(answer["Dir"])
