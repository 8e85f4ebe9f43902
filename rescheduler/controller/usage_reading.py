"""Reads measured usage from where the configuration says. Runs on a thread of the pool; nothing waits for it.

A source that cannot be read is told when that begins and when its error changes; usage is unknown meanwhile, which is no number.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from rescheduler.configuration.live import LiveConfiguration
from rescheduler.coordination.usage_series import part_of
from rescheduler.kube.client import KubeApi
from rescheduler.kube.metrics_api import measured_usage
from rescheduler.kube.prometheus import Prometheus, PrometheusError, connect_to_prometheus
from rescheduler.kube.transport import TransportError
from rescheduler.model.usage import NOTHING_MEASURED, MeasuredUsage
from rescheduler.model.usage_settings import PrometheusSettings, UsageSettings


class UsageReader:
    """For one thread at a time."""

    def __init__(
        self,
        api: KubeApi,
        configuration: LiveConfiguration,
        now_s: Callable[[], float],
    ) -> None:
        self._api, self._configuration, self._now_s = api, configuration, now_s
        self._server: tuple[PrometheusSettings, Prometheus] | None = None
        self._filled: UsageSettings | None = None
        """The window for which the time before was asked."""
        self._problem = ""
        self._log = structlog.get_logger("rescheduler.usage")

    def read(self) -> MeasuredUsage:
        """What is measured now; the first time also what was before, where that is kept. Raises as ``measured_usage``."""
        configuration = self._configuration.current
        settings, wanted = configuration.usage, configuration.goes_by_measurement
        if not (settings.prometheus.url and wanted):
            return measured_usage(self._api, pods=wanted)
        try:
            found = self._ask(settings)
        except (TransportError, PrometheusError, OSError) as error:
            self._tell(str(error))
            return NOTHING_MEASURED
        self._tell("")
        return found

    def _ask(self, settings: UsageSettings) -> MeasuredUsage:
        if self._server is None or self._server[0] != settings.prometheus:
            connection = connect_to_prometheus(settings.prometheus)
            self._server = settings.prometheus, Prometheus(settings.prometheus, connection)
            self._filled = None
        server, now_s = self._server[1], self._now_s()
        if self._filled == settings:
            return server.usage(now_s)
        found = server.usage_since(now_s, settings.window_s, part_of(settings.window_s))
        self._filled = settings
        return found

    def _tell(self, problem: str) -> None:
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            self._log.warning(
                "Prometheus tells no usage: nodes take no part in policies with usage: actual meanwhile",
                problem=problem,
                remedy="correct usage.prometheus, or the server",
            )
        else:
            self._log.info("Prometheus tells the usage again")
