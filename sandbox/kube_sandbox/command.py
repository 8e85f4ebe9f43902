"""``rescheduler sandbox``: the sandbox by itself, with a kubeconfig for kubectl."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from kube_sandbox.installing import install
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from kube_sandbox.usage_meter import UsageMeter
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.output import emit, tell
from rescheduler.model.resources import QuantityError, nano

_AMOUNTS = {"--cpu": ("100m", "10k"), "--memory": ("64Mi", "1Pi")}
_ZONES = ("zone-a", "zone-b", "zone-c")


def run(
    *,
    nodes: int,
    cpu: str,
    memory: str,
    port: int,
    kubeconfig_file: str | None,
    empty: bool,
    usage: float | None,
) -> None:
    """Run a sandbox until interrupted; prints the path of its kubeconfig."""
    _check_amounts({"--cpu": cpu, "--memory": memory})
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="rescheduler-sandbox-") as folder:
        path = Path(kubeconfig_file or f"{folder}/kubeconfig")
        with Sandbox(sandbox_nodes(nodes, cpu, memory), clock=time.time) as cluster:
            if usage is not None:
                cluster.add(UsageMeter(cluster.server, cluster.api, share=usage))
            try:
                server = cluster.start(kubeconfig=path, port=port)
            except OSError as error:
                raise CommandError(f"cannot start the API server: {error}") from error
            if not empty:
                install(cluster.transport)
            emit(f"{path}\n")
            tell(f"The sandbox is at {server.url}; in another terminal:")
            tell(f"  export KUBECONFIG={path}\n  kubectl get nodes\n  rescheduler plan")
            tell("Interrupt (Ctrl-C) to end it.")
            signal.signal(signal.SIGINT, lambda *_: stop.set())  # its ordinary end from now on
            stop.wait()


def _check_amounts(given: Mapping[str, str]) -> None:
    for option, text in given.items():
        try:
            amount = nano(text)
        except QuantityError as error:
            raise CommandError(f"{option}: {error}", EXIT_USAGE) from error
        least, most = _AMOUNTS[option]
        if not nano(least) <= amount <= nano(most):
            raise CommandError(f"{option}: {text} is not from {least} to {most}", EXIT_USAGE)


def sandbox_nodes(count: int, cpu: str, memory: str) -> list[SandboxNode]:
    """``count`` equal nodes, spread over three zones."""
    return [
        SandboxNode(name=f"node-{index + 1}", cpu=cpu, memory=memory, zone=_ZONES[index % len(_ZONES)])
        for index in range(count)
    ]
