"""Reads a ClusterState from dumps: files, folders, standard input; JSON or YAML, plain, gzip or zstd.

A damaged object is skipped with a warning that names file and object. A file that is no dump is an ``InputError``
with the place and a remedy.
"""

from __future__ import annotations

import gc
import math
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from rescheduler.cli.dump_files import (
    STANDARD_INPUT,
    ByteStream,
    InputError,
    SourceWarning,
    looked_at,
    opened,
)
from rescheduler.cli.dump_yaml import yaml_items
from rescheduler.kube.errors import parse_status
from rescheduler.kube.gc_pause import PROCESS_PAUSE
from rescheduler.model.cluster import ClusterState, key_of
from rescheduler.model.config_map import ConfigMap
from rescheduler.model.counted import plural, verb
from rescheduler.model.decode import BadObject, Decoder, Record, forget_selectors
from rescheduler.model.decode.dump import DumpError, Item, ItemBatch, TypeName, items_of
from rescheduler.model.decode.usage_metrics import GROUP as METRICS_GROUP
from rescheduler.model.decode.usage_metrics import (
    NODE_METRICS,
    POD_METRICS,
    decode_node_metrics,
    decode_pod_metrics,
)
from rescheduler.model.kinds import Kind
from rescheduler.model.measured import NodeUsage
from rescheduler.model.names import HISTORY_CONFIG_MAP
from rescheduler.model.past_moves import decode_past_moves
from rescheduler.model.usage import PodUsage, Readings

__all__ = ["InputError", "SourceWarning", "read_sources"]

Progress = Callable[[int, int, str], None]
"""(bytes read, total bytes or 0, name of the file)."""

_ENDINGS: Final = (".json", ".yaml", ".yml", ".jsonl")
_COMPRESSED: Final = (".gz", ".zst", ".zstd")
_DAMAGED_NAMED: Final = 50
_NAMELESS: Final = 10_000
"""Objects without a kind, and no other: an endless stream of something else ends here."""
_MOST_BLANK: Final = 1 << 20
_STATUS: Final = TypeName("v1", "Status")
_REMEDY: Final = "give what 'kubectl get -o json' or '-o yaml' writes"


def read_sources(
    paths: Sequence[str], decoder: Decoder, progress: Progress
) -> tuple[ClusterState, tuple[SourceWarning, ...]]:
    """The objects of all files, and warnings about objects that were skipped or repeated.

    ``paths``: files, folders (read recursively, sorted by name) and ``-`` for standard input.

    Raises:
        InputError: a path cannot be read, or a file is no dump.
    """
    files = [file for path in paths for file in _files(path)]
    sizes = [0 if file == STANDARD_INPUT else looked_at(file).st_size for file in files]
    total = 0 if STANDARD_INPUT in files else sum(sizes)
    collection = _Collection(decoder)
    with PROCESS_PAUSE.during():
        done = 0
        for file, size in zip(files, sizes, strict=True):
            _read_file(file, collection, partial(_advance, progress, done, total, file))
            done += size
        collection.state.forget_versions()
        forget_selectors()
        gc.freeze()  # all that is there now stays
    return collection.state, collection.warnings()


def _advance(progress: Progress, before: int, total: int, path: str, done: int) -> None:
    progress(before + done, total, path)


def _files(path: str) -> Iterator[str]:
    """The files of a path in a stable order."""
    if path == STANDARD_INPUT:
        yield path
        return
    if not stat.S_ISDIR(looked_at(path).st_mode):
        yield path
        return
    named = (file for file in Path(path).rglob("*") if _is_dump(file.name))
    found = sorted(str(file) for file in named if stat.S_ISREG(looked_at(str(file)).st_mode))
    if not found:
        raise InputError(path, 0, "the folder has no .json or .yaml file", "check the path")
    yield from found


def _is_dump(name: str) -> bool:
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name.endswith(_ENDINGS) and not name.startswith(".")


def _read_file(path: str, collection: _Collection, advance: Callable[[int], None]) -> None:
    with opened(path, advance) as stream:
        first = _first_byte(path, stream)
        try:
            if first in (b"{", b"["):
                collection.take(path, items_of(stream.read, take_batch=partial(collection.take_batch, path)))
            else:
                collection.take(path, yaml_items(path, stream, collection.warn))
        except DumpError as error:
            raise InputError(path, error.line, error.message, _REMEDY) from error


def _first_byte(path: str, stream: ByteStream) -> bytes:
    """The first byte that is not white space. White space that comes alone is taken off the stream."""
    blank = 0
    while piece := stream.peek():
        if text := piece.lstrip(b"\xef\xbb\xbf \t\r\n"):
            return text[:1]
        blank += len(stream.read(len(piece)))
        if blank > _MOST_BLANK:
            raise InputError(path, 0, f"more than {_MOST_BLANK >> 20} MiB of white space", _REMEDY)
    raise InputError(
        path, 0, "the file is empty", "the command that wrote it may have failed; write it again"
    )


def refuse_status(path: str, item: Item) -> NoReturn:
    """A Status is what an API server answers instead of objects. Raises InputError."""
    status = parse_status(bytes(item.raw))
    said = f": {status.code} {status.reason}: {status.message}" if status else ""
    message = f"no dump, but an answer of the API server (Status){said}"
    raise InputError(path, item.line, message, "write it again with credentials that may read the cluster")


class _Collection:
    """The records of all files, and the warnings."""

    def __init__(self, decoder: Decoder) -> None:
        self.state = ClusterState()
        self._decoder = decoder
        self._warnings: list[SourceWarning] = []
        self._unknown: dict[str, tuple[str, int]] = {}
        self._repeated: dict[Kind, tuple[str, str, int]] = {}
        self._damaged: Counter[str] = Counter()
        self._objects = 0
        self._usage: dict[str, NodeUsage] = {}
        self._pod_usage: dict[int, tuple[int, float, float, float]] = {}

    def warn(self, warning: SourceWarning) -> None:
        """Add a warning about one object. Only the first warnings are listed, the others are counted."""
        self._damaged[warning.path.partition(":")[0]] += 1
        if sum(self._damaged.values()) <= _DAMAGED_NAMED:
            self._warnings.append(warning)

    def take(self, path: str, items: Iterable[Item]) -> None:
        """Add the objects of one file."""
        attempt, state = self._decoder.attempt, self.state
        before, problem, nameless = self._objects, None, 0
        for item in items:
            if item.problem:
                problem = problem or item
                self.warn(SourceWarning(f"{path}:{item.line}", f"skipped: {item.problem}"))
                continue
            kind = item.type.known
            nameless += not item.type.kind
            if nameless > _NAMELESS and self._objects == before:
                message = f"{nameless:,} objects, and none that says its kind"
                raise InputError(path, item.line, message, _REMEDY)
            if kind is None:
                if not self._take_history(item) and not self._take_usage(path, item):
                    self._note_unknown(path, item)
                continue
            self._objects += 1
            record = attempt(kind, item.raw)
            if isinstance(record, BadObject):
                name = f"{record.kind} {record.name}"
                self.warn(SourceWarning(f"{path}:{item.line}", f"skipped: {record.error}", name))
                continue
            self._note_repeated(path, kind, state.add(kind, (record,)))
        pods = PodUsage.of_readings(Readings.of(self._pod_usage.values())) if self._pod_usage else None
        state.set_usage(self._usage.values(), pods)
        if problem is not None and self._objects == before:
            raise InputError(path, problem.line, problem.problem, _REMEDY)

    def _take_history(self, item: Item) -> bool:
        """True if the object is the ConfigMap with the past moves; no other ConfigMap is used."""
        if item.type.kind != Kind.CONFIG_MAP or HISTORY_CONFIG_MAP.encode() not in bytes(item.raw):
            return False
        record = self._decoder.attempt(Kind.CONFIG_MAP, item.raw)
        if not isinstance(record, ConfigMap) or record.name != HISTORY_CONFIG_MAP:
            return False
        self.state.set_past_moves(decode_past_moves(record.data, math.inf)[0])
        return True

    def _take_usage(self, path: str, item: Item) -> bool:
        """True if the object is the usage of a node or a pod; the newest of each counts."""
        if not item.type.api_version.startswith(f"{METRICS_GROUP}/"):
            return False
        if item.type.kind == POD_METRICS:
            self._take_pod_usage(path, item)
            return True
        if item.type.kind != NODE_METRICS:
            return False
        usage = decode_node_metrics(item.raw)
        if usage is None:
            message = "skipped: NodeMetrics without a name, a usage of cpu and memory, or a valid time"
            self.warn(SourceWarning(f"{path}:{item.line}", message))
            return True
        known = self._usage.get(usage.node)
        if known is None or usage.measured_at_s > known.measured_at_s:
            self._usage[usage.node] = usage
        return True

    def _take_pod_usage(self, path: str, item: Item) -> None:
        usage = decode_pod_metrics(item.raw)
        if usage is None:
            message = "skipped: PodMetrics without a name, containers with a usage of cpu and memory, or a valid time"
            self.warn(SourceWarning(f"{path}:{item.line}", message))
            return
        known = self._pod_usage.get(usage[0])
        if known is None or usage[1] > known[1]:
            self._pod_usage[usage[0]] = usage

    def take_batch(self, path: str, batch: ItemBatch) -> int:
        """Add many objects of one file at once, if they are of a known kind and undamaged; how many."""
        kind = batch.type.known
        records = self._decoder.batch(kind, batch) if kind is not None else None
        if kind is None or records is None:
            return 0
        self._note_repeated(path, kind, self.state.add(kind, records))
        self._objects += len(records)
        return len(records)

    def warnings(self) -> tuple[SourceWarning, ...]:
        """All warnings: about single objects, repeated objects, and kinds that are not used."""
        found = list(self._warnings)
        more = sum(self._damaged.values()) - _DAMAGED_NAMED
        if more > 0:
            found.append(
                SourceWarning(
                    ", ".join(self._damaged),
                    f"{plural(more, 'more object')} {verb(more, 'is', 'are')} skipped",
                )
            )
        for kind, (path, name, count) in self._repeated.items():
            message = f"{plural(count, f'{kind} object')} {verb(count, 'is', 'are')} repeated; the newest of each is used"
            found.append(SourceWarning(path, message, f"{name} and others" if count > 1 else name))
        for kind_name, (path, count) in sorted(self._unknown.items()):
            found.append(
                SourceWarning(
                    path, f"{plural(count, 'object')} of kind {kind_name} {verb(count, 'is', 'are')} not used"
                )
            )
        return tuple(found)

    def _note_repeated(self, path: str, kind: Kind, again: Sequence[Record]) -> None:
        for record in again:
            first = self._repeated.get(kind, (path, str(key_of(record)), 0))
            self._repeated[kind] = (*first[:2], first[2] + 1)

    def _note_unknown(self, path: str, item: Item) -> None:
        name = item.type.kind or "(none)"
        if item.type == _STATUS:
            refuse_status(path, item)
        if item.type.api_version:
            name = f"{name} ({item.type.api_version})"
        first, count = self._unknown.get(name, (path, 0))
        self._unknown[name] = (first, count + 1)
