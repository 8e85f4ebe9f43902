"""Measured usage from a server with the HTTP API of Prometheus.

Four queries, of which each may be written by people: so what is wrong with one is said with its key. Promises: no answer within the time
limit is an error, however many bytes came; credentials are read from files, and anew when the server refuses them; redirects
are not followed, because they would carry a token elsewhere.
"""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from rescheduler.errors import ReschedulerError
from rescheduler.kube.connection import HttpTransport
from rescheduler.kube.kubeconfig import Access
from rescheduler.kube.transport import Request, Transport, TransportError
from rescheduler.model.measured import NodeUsage
from rescheduler.model.usage import DAY_S, NOTHING_MEASURED, MeasuredUsage, Readings, usage_key
from rescheduler.model.usage_settings import PrometheusSettings

LIMIT_S: Final = 10.0
"""For all queries of one look together."""
HOUR_S: Final = 3600.0
POINTS: Final = 500_000
"""So many numbers one answer may have: each takes 140 bytes while it is read. Of more pods the time before is not asked."""
_MILLI: Final = 1000.0
_QUERIES: Final = ("nodeCpu", "nodeMemory", "podCpu", "podMemory")


class PrometheusError(ReschedulerError):
    """The server answered, but not with what was asked for."""


class _Labels(msgspec.Struct, frozen=True, gc=False):
    node: str = ""
    namespace: str = ""
    pod: str = ""


_Point = tuple[float, str]


class _Series(msgspec.Struct, gc=False):
    metric: _Labels
    value: _Point | None = None
    values: list[_Point] = []

    def points(self) -> list[_Point]:
        return self.values if self.value is None else [self.value]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


_decode = msgspec.json.Decoder(_Answer).decode
Names = tuple[str, str]
"""Namespace and name; of a node the namespace is ""."""
Rounds = dict[float, dict[Names, float]]
"""By time the amounts of all."""


def connect_to_prometheus(settings: PrometheusSettings) -> HttpTransport:
    """A connection to the server; nothing is sent yet. Raises PrometheusError: a file cannot be read."""

    def load() -> Access:
        access = Access(host=settings.url)
        access.proxy = None
        access.ssl_ca_cert = settings.ca_file or None
        if settings.bearer_token_file:
            access.api_key["authorization"] = f"Bearer {_read(settings.bearer_token_file)}"
        elif settings.username:
            pair = f"{settings.username}:{_read(settings.password_file)}"
            access.api_key["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        if settings.ca_file:
            _read(settings.ca_file)
        return access

    return HttpTransport(load, pool_size=1)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PrometheusError(f"usage.prometheus: {path} cannot be read: {error}") from error


class Prometheus:
    """Asks one server. For one thread at a time."""

    def __init__(
        self,
        settings: PrometheusSettings,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._transport, self._clock = settings, transport, clock

    def usage(self, now_s: float) -> MeasuredUsage:
        """What it knows now. Raises TransportError, PrometheusError."""
        return self._measured({"time": _text(now_s)}, "query")

    def usage_since(self, now_s: float, window_s: float, step_s: float) -> MeasuredUsage:
        """The same with ``earlier``, one look for each step of the window before, and with ``day``; on a large cluster of nodes only."""
        now = self.usage(now_s)
        day = self._before(now_s, DAY_S, HOUR_S, now.pods.size) if window_s < DAY_S else ()
        return MeasuredUsage(now.nodes, now.pods, self._before(now_s, window_s, step_s, now.pods.size), day)

    def _before(self, now_s: float, window_s: float, step_s: float, pods: int) -> Sequence[MeasuredUsage]:
        steps = math.floor(window_s / step_s)
        first_s, last_s = now_s - steps * step_s, now_s - step_s
        times = {"start": _text(first_s), "end": _text(last_s), "step": f"{step_s:.3f}"}
        found = self._measured(times, "query_range", pods=pods * steps <= POINTS)
        return (*found.earlier, MeasuredUsage(found.nodes, found.pods))

    def _measured(self, times: Mapping[str, str], kind: str, *, pods: bool = True) -> MeasuredUsage:
        ends_s = self._clock() + LIMIT_S
        queries = self._settings.queries
        asked = (queries.node_cpu, queries.node_memory, queries.pod_cpu, queries.pod_memory)
        found: list[Rounds] = [
            self._rounds(key, {"query": query, **times}, kind, ends_s)
            if pods or key.startswith("node")
            else {}
            for key, query in zip(_QUERIES, asked, strict=True)
        ]
        node_cpu, node_memory, pod_cpu, pod_memory = found
        looks = [
            MeasuredUsage(
                nodes=tuple(
                    NodeUsage(name, round(cpu * _MILLI), round(memory), at_s)
                    for (_, name), cpu, memory in _both(node_cpu, node_memory, at_s)
                ),
                pods=Readings.of(
                    (usage_key(*names), at_s, cpu * _MILLI, memory)
                    for names, cpu, memory in _both(pod_cpu, pod_memory, at_s)
                ),
            )
            for at_s in sorted(node_cpu.keys() | pod_cpu.keys())
        ]
        if not looks and kind == "query_range":  # it has begun only now
            return NOTHING_MEASURED
        if not any(look.nodes for look in looks):
            found_by = (
                "nodeCpu and nodeMemory name no node that is in both: try them in the web page of Prometheus"
            )
            raise PrometheusError(f"{self._settings.url}: usage.prometheus.queries: {found_by}")
        return MeasuredUsage(looks[-1].nodes, looks[-1].pods, tuple(looks[:-1]))

    def _rounds(self, key: str, query: Mapping[str, str], kind: str, ends_s: float) -> Rounds:
        where = f"{self._settings.url}: usage.prometheus.queries.{key}"
        left_s = ends_s - self._clock()
        if left_s <= 0:
            raise TransportError(f"{where}: the queries together took longer than {LIMIT_S:g} s")
        answer = self._transport.send(
            Request(method="GET", path=f"/api/v1/{kind}", query=query, timeout_s=left_s)
        )
        try:
            found = _decode(answer.body)
        except msgspec.DecodeError as error:
            said = answer.body[:80].decode(errors="replace")
            raise PrometheusError(
                f"{where}: HTTP {answer.status}, and no answer of Prometheus: {said!r}"
            ) from error
        if answer.status != HTTPStatus.OK or found.status != "success" or found.data is None:
            raise PrometheusError(f"{where}: HTTP {answer.status}: {found.error or 'no result'}")
        return self._by_time(found.data.result, where, node=key.startswith("node"))

    def _by_time(self, result: Iterable[_Series], where: str, *, node: bool) -> Rounds:
        rounds: Rounds = {}
        nameless = number = 0
        for series in result:
            number += 1
            labels = series.metric
            names = ("", labels.node) if node else (labels.namespace, labels.pod)
            if not names[1] or not (node or names[0]):
                nameless += 1
                continue
            for at_s, text in series.points():
                if math.isfinite(amount := _number(text)):
                    rounds.setdefault(at_s, {})[names] = max(0.0, amount)
        if number and nameless == number:
            wanted = "sum by (node) (...)" if node else "sum by (namespace, pod) (...)"
            raise PrometheusError(f"{where}: none of its {number} series has the labels of {wanted}")
        return rounds


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _both(cpu: Rounds, memory: Rounds, at_s: float) -> Iterable[tuple[Names, float, float]]:
    """Those of which both are known at that time."""
    memories = memory.get(at_s, {})
    for names, amount in cpu.get(at_s, {}).items():
        if names in memories:
            yield names, amount, memories[names]


def _text(at_s: float) -> str:
    return f"{at_s:.3f}"
