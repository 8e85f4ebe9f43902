"""``python -m harness.controlplane build|run``: the control plane from a shell."""

from __future__ import annotations

import contextlib
import signal
import threading

import click

from harness.controlplane.binaries import KUBERNETES_VERSION, BinariesMissing, build
from harness.controlplane.servers import ControlPlane, StartFailed


@click.group()
def main() -> None:
    """The real Kubernetes control plane for tests."""


@main.command("build")
@click.option("--kubernetes", default=KUBERNETES_VERSION, show_default=True, metavar="VERSION")
def build_command(kubernetes: str) -> None:
    """Build etcd, the three servers and kubectl into the cache (about 11 minutes, once), and print its folder.

    Another version than the default has a folder of its own: set KUBEBUILDER_ASSETS to it.
    """
    try:
        binaries = build(lambda line: click.echo(line, err=True), kubernetes)
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
