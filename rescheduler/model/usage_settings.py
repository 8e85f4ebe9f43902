"""Section ``usage``: from where measured usage is read, over which time it counts, and which number stands for it. Values only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from rescheduler.model.measured import UsageStatistic
from rescheduler.model.written import SECONDS, DocumentSection, Mistake, is_url

_PODS: Final = 'container!="",container!="POD",pod!=""'


class PrometheusQueries(DocumentSection, frozen=True, kw_only=True):
    """What is asked: CPU in cores and memory in bytes, by labels ``node``, or ``namespace`` and ``pod``."""

    node_cpu: str = 'sum by (node) (rate(container_cpu_usage_seconds_total{id="/"}[2m]))'
    node_memory: str = 'sum by (node) (container_memory_working_set_bytes{id="/"})'
    pod_cpu: str = f"sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{{{_PODS}}}[2m]))"
    pod_memory: str = f"sum by (namespace, pod) (container_memory_working_set_bytes{{{_PODS}}})"


class PrometheusSettings(DocumentSection, frozen=True, kw_only=True):
    """A server with the HTTP API of Prometheus; its files are read anew when it refuses what was in them."""

    url: str = ""
    """"": metrics.k8s.io is read."""
    ca_file: str = ""
    """Of the authority that signed its certificate; "": the system's."""
    bearer_token_file: str = ""
    username: str = ""
    """With ``password_file``: basic authentication."""
    password_file: str = ""
    queries: PrometheusQueries = PrometheusQueries()

    def mistakes(self) -> Iterator[Mistake]:
        """A URL that is none, and credentials that contradict each other or travel in the clear."""
        if self.url and not is_url(self.url, "https?"):
            yield (
                ("url",),
                f"is {self.url!r}",
                "write https://HOST or https://HOST:PORT/PREFIX, without a query",
            )
        if bool(self.username) != bool(self.password_file):
            missing = "passwordFile" if self.username else "username"
            yield (), f"{missing} is missing", "basic authentication needs username and passwordFile"
        if self.bearer_token_file and self.username:
            yield ("bearerTokenFile",), "is given beside username", "keep one of them"
        if self.url.startswith("http://") and (self.bearer_token_file or self.username):
            yield (
                ("url",),
                "would send credentials in the clear",
                "write https://, or leave the credentials out",
            )


class UsageSettings(DocumentSection, frozen=True, kw_only=True):
    """How the usage of nodes and pods is measured, for policies with ``usage: actual``."""

    window_s: Annotated[float, SECONDS, msgspec.Meta(ge=120.0, le=7 * 86_400.0)] = 300.0
    """So old a sample may be. At least four of them; of a long window the means of 48 parts count."""
    statistic: UsageStatistic = UsageStatistic.MEAN
    prometheus: PrometheusSettings = PrometheusSettings()
