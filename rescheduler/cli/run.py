"""``rescheduler run``: the controller, in the cluster or outside of it."""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

import click

from rescheduler import logs
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.dump_files import read_text
from rescheduler.cli.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from rescheduler.cli.output import emit, style, terminal_width
from rescheduler.configuration.live import UnreadableConfigurationError
from rescheduler.controller.run import AnotherLeadsError, Controller, MissingParts, Options
from rescheduler.controller.server import CannotListenError
from rescheduler.kube.kubeconfig import inside_a_pod
from rescheduler.reports.text import outcomes_text, plan_text

PATIENCE_S: Final = 240.0
"""A Pod whose container ends is started again later and later, up to five minutes after the API server is back. With the last try
it is less than the startup probe in manifests/base/deployment.yaml allows."""


def run(
    *,
    cluster: NamedCluster,
    config_map: str | None,
    dry_run: bool,
    once: bool,
    port: int | None,
    identity: str,
    log_level: str,
    log_format: str,
) -> None:
    """Run the controller until it is stopped."""
    if cluster.request_timeout:
        raise click.UsageError("--request-timeout is not for run: the controller has time limits of its own")
    logs.configure(log_level, console=None if log_format == "auto" else log_format == "text")
    if cluster.config_file is not None:
        if config_map is not None:
            raise click.UsageError("--config and --config-map exclude each other")
        read_text(cluster.config_file, "configuration")
    patient = inside_a_pod(cluster.kubeconfig, os.environ) and not (once or dry_run)
    options = Options(
        config_file=cluster.config_file,
        config_map=parse_config_map(config_map),
        dry_run=dry_run,
        once=once,
        port=port,
        identity=identity,
        patience_s=PATIENCE_S if patient else 0.0,
    )
    transport = cluster.connected()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    controller = Controller(transport, options, stop)
    try:
        controller.run()
    except (AnotherLeadsError, MissingParts, CannotListenError, UnreadableConfigurationError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"cannot start: {error}") from error
    if once and dry_run and controller.decision is not None:
        emit(plan_text(controller.decision.plan, style(), terminal_width()))
    elif once and controller.decision is not None:
        emit(outcomes_text(controller.outcomes(), style()))
    if controller.lost_leadership:
        raise SystemExit(EXIT_FAILED)


def parse_config_map(text: str | None) -> tuple[str, str] | None:
    """NAMESPACE/NAME of --config-map."""
    if text is None:
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise CommandError(f"--config-map: {text!r} is not NAMESPACE/NAME", EXIT_USAGE)
    return namespace, name
