"""Carries out our Dockerfile without Docker, in a folder that stands for the machine: the instructions that it has, no others.

What begins with ``/opt`` or ``/build`` is in that folder; a COPY finds only what .dockerignore lets through. Of the second
stage only what it copies exists. ``USER`` is not carried out, for a process may not become another user.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.packaging.image import ROOT, copy_for_builder, instructions

_OURS = re.compile(r"(?<![\w./-])/(opt|build)\b")
_IGNORED = ("LABEL", "USER")


class RunError(Exception):
    """A RUN that failed; the text is what it printed."""


@dataclass
class Machine:
    """The folder ``/`` of a container, and what its image says of it."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    work: Path = Path("/")
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def start(self) -> None:
        """An image that has nothing but Python."""
        binaries = self.folder / "usr" / "bin"
        binaries.mkdir(parents=True)
        (binaries / "python").write_text(f'#!/bin/sh\nexec {sys._base_executable} "$@"\n')
        (binaries / "python").chmod(0o755)
        kept = ("HTTP", "http", "PIP_", "SSL_", "REQUESTS_", "TMP", "HOME", "no_proxy", "NO_PROXY")
        self.environment = {key: value for key, value in os.environ.items() if key.startswith(kept)}
        self.environment["PATH"] = f"{binaries}:/usr/bin:/bin"

    def inside(self, text: str) -> str:
        """``text`` with the paths of this machine."""
        return _OURS.sub(lambda found: str(self.folder / found[1]), text)

    def run(self, words: list[str], limit_s: float = 180.0) -> subprocess.CompletedProcess[str]:
        """A process in the container."""
        program = shutil.which(words[0], path=self.environment["PATH"])
        assert program is not None, f"{words[0]} is not in the image"
        return subprocess.run(
            [program, *words[1:]],
            env=self.environment,
            cwd=self.work,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
        )


def build(folder: Path, arguments: dict[str, str], root: Path = ROOT) -> Machine:
    """The image. Raises CopyError, RunError."""
    replay = _Replay(folder, arguments, root)
    for word, rest in instructions((root / "Dockerfile").read_text()):
        replay.carry_out(word, rest)
    for former in replay.stages.values():
        shutil.rmtree(former, ignore_errors=True)
    return replay.machine


class _Replay:
    """One machine at a time is in ``folder``; those of the stages before are beside it, for COPY --from."""

    def __init__(self, folder: Path, arguments: dict[str, str], root: Path) -> None:
        self.folder, self.arguments, self.root = folder, arguments, root
        self.machine = Machine(folder)
        self.stages: dict[str, Path] = {}
        self._stage = ""

    def carry_out(self, word: str, rest: str) -> None:
        if word in _IGNORED:
            return
        step = getattr(self, f"_{word.lower()}", None)
        assert step is not None, f"the Dockerfile has a new instruction, {word}: teach it to this module"
        step(rest)

    def _from(self, rest: str) -> None:
        if self._stage:
            self.stages[self._stage] = self.folder.with_name(f"{self.folder.name}.{self._stage}")
            self.folder.rename(self.stages[self._stage])
        self._stage = rest.rsplit(maxsplit=1)[-1]
        self.machine = Machine(self.folder)
        self.machine.start()

    def _arg(self, rest: str) -> None:
        name, _, default = rest.partition("=")
        self.machine.environment[name] = self.arguments.get(name, default)

    def _env(self, rest: str) -> None:
        environment = self.machine.environment
        for name, _, value in (pair.partition("=") for pair in shlex.split(rest)):
            environment[name] = self.machine.inside(value.replace("$PATH", environment["PATH"]))

    def _workdir(self, rest: str) -> None:
        self.machine.work = Path(self.machine.inside(rest))
        self.machine.work.mkdir(parents=True)

    def _run(self, rest: str) -> None:
        done = self.machine.run(["sh", "-euc", self.machine.inside(rest)], limit_s=900.0)
        if done.returncode != 0:
            raise RunError(done.stdout + done.stderr)

    def _copy(self, rest: str) -> None:
        if not rest.startswith("--from="):
            # All of the first stage at once: nothing between its COPY instructions depends on them.
            copy_for_builder(self.machine.work, self.root)
            return
        stage, source, target = shlex.split(rest)
        there = self.stages[stage.removeprefix("--from=")] / source.removeprefix("/")
        shutil.copytree(there, self.machine.inside(target), symlinks=True)

    def _entrypoint(self, rest: str) -> None:
        self.machine.entrypoint = json.loads(rest)

    def _cmd(self, rest: str) -> None:
        self.machine.command = json.loads(rest)
