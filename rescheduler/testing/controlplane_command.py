"""``python -m rescheduler.testing.controlplane build|run``: the control plane from a shell."""

from __future__ import annotations

import contextlib
import signal
import threading

import click

from rescheduler.testing.binaries import BinariesMissing, build
from rescheduler.testing.controlplane import ControlPlane, StartFailed


@click.group()
def main() -> None:
    """The real Kubernetes control plane for tests."""


@main.command("build")
def build_command() -> None:
    """Build etcd, the three servers and kubectl into the cache (about 11 minutes, once)."""
    try:
        binaries = build(lambda line: click.echo(line, err=True))
    except BinariesMissing as missing:
        raise click.ClickException(str(missing)) from missing
    click.echo(str(binaries.folder))


@main.command("run")
def run_command() -> None:
    """Start one, print the path of its kubeconfig, and keep it until interrupted."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    try:
        with ControlPlane() as plane, contextlib.suppress(KeyboardInterrupt):
            click.echo(str(plane.kubeconfig))
            stopped.wait()
    except (BinariesMissing, StartFailed) as failure:
        raise click.ClickException(str(failure)) from failure


if __name__ == "__main__":
    main()
