"""The Go program that runs kube-scheduler's own code: building it once, and talking to it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Self

import msgspec

from harness.controlplane.binaries import MODULES, BinariesMissing, cache_folder, compiled
from harness.differential.clusters import Question
from harness.differential.manifests import Manifest


class Moment(msgspec.Struct, frozen=True):
    """A state of a cluster and the pod that is asked about in it, by the ids of pods."""

    pods: list[str]
    """The pods that there are, the one that is asked about left out."""
    ask: str


class NodeAnswer(msgspec.Struct, frozen=True):
    """What kube-scheduler's code says of one pod on one node; scores are weighted."""

    feasible: bool = False
    plugin: str = ""
    reasons: tuple[str, ...] = ()
    unresolvable: bool = False
    scores: dict[str, int] = msgspec.field(default_factory=dict)
    total: int = 0


class PodAnswer(msgspec.Struct, frozen=True):
    """One asked pod on all nodes."""

    pod: str
    nodes: dict[str, NodeAnswer]


class Answer(msgspec.Struct, frozen=True):
    """All asked pods of one cluster, or why the code refused to judge it."""

    pods: tuple[PodAnswer, ...] | None = None
    error: str = ""


def build() -> Path:
    """The program's path; builds it (minutes, once) into the cache folder if its source changed. Raises BinariesMissing."""
    module = MODULES / "kubernetes"
    source = module / "differential" / "main.go"
    if not source.exists():
        raise BinariesMissing("the source of the comparison program is only in a checkout of the project")
    digest = hashlib.sha256(source.read_bytes() + (module / "go.mod").read_bytes()).hexdigest()[:12]
    return compiled(cache_folder().parent / f"differential-{digest}", "./differential", folder=module)


class Program:
    """The running program; a context manager."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603 -- the program that was just built
            [str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._decoder = msgspec.json.Decoder(Answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def ask(self, question: Question) -> Answer:
        """One question, one answer."""
        return self._answer(
            {"objects": question.objects, "asks": question.asks, "configuration": _text(question.configuration)},
        )  # fmt: skip

    def ask_moments(
        self,
        objects: list[Manifest],
        pods: dict[str, Manifest],
        moments: list[Moment],
        configuration: Manifest | None,
    ) -> Answer:
        """One question about several states of one cluster; an answer for each. ``objects``: all but the pods."""
        return self._answer(
            {"objects": objects, "pods": pods, "moments": moments, "configuration": _text(configuration)}
        )

    def _answer(self, body: dict[str, object]) -> Answer:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the program runs with pipes")
        self._process.stdin.write(msgspec.json.encode(body) + b"\n")
        self._process.stdin.flush()
        return self._decoder.decode(self._process.stdout.readline())


def _text(configuration: Manifest | None) -> str:
    return msgspec.json.encode(configuration).decode() if configuration else ""
