"""Runs the credential plugin that a kubeconfig names (``exec``), with a deadline and its own words.

The official client waits for it without end and goes on without credentials if it fails. Where a person can answer (a
login in the browser, a token), there is more time. What runs after the deadline is killed with its children.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from rescheduler.kube.errors import KubeconfigError

DEADLINE_S: Final = 30.0
PERSON_DEADLINE_S: Final = 300.0
_SAID: Final = 300


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """What a kubeconfig says of it. ``cluster``: what it is told of the cluster, None for nothing."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    cluster: Mapping[str, Any] | None = None
    mode: str = ""
    """``interactiveMode``: Never, IfAvailable (also ""), or Always."""
    install_hint: str = ""

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"credential plugin {self.command!r}"


def credential(plugin: ExecPlugin, deadline_s: float = DEADLINE_S) -> Mapping[str, Any]:
    """The ``status`` of its ExecCredential.

    Raises:
        KubeconfigError: it cannot be started, fails, is silent for too long, or answers something else.
    """
    name = plugin.label
    output = _output(name, plugin, deadline_s)
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError) as error:
        raise KubeconfigError(name, "it printed no JSON", "run it by hand") from error
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict) or not (status.get("token") or status.get("clientCertificateData")):
        raise KubeconfigError(name, "it gave no credentials", "run it by hand")
    if answer.get("apiVersion") != plugin.api_version:
        found = f"it speaks {answer.get('apiVersion')!r}, the kubeconfig {plugin.api_version!r}"
        raise KubeconfigError(name, found, "correct the apiVersion of exec in the kubeconfig")
    return status


def _output(name: str, plugin: ExecPlugin, deadline_s: float) -> str:
    terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if plugin.mode == "Always" and not terminal:
        raise KubeconfigError(name, "it asks a person, and there is no terminal", "run it by hand")
    person = terminal and plugin.mode != "Never"
    limit_s = max(deadline_s, PERSON_DEADLINE_S) if person else deadline_s
    try:
        process = subprocess.Popen(  # noqa: S603 - what the user's kubeconfig names
            [plugin.command, *plugin.arguments],
            stdin=None if person else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if person else subprocess.PIPE,
            env={
                **os.environ,
                **plugin.environment,
                "KUBERNETES_EXEC_INFO": _information(plugin, person=person),
            },
            text=True,
            errors="replace",
            start_new_session=not person,
        )
    except OSError as error:
        raise KubeconfigError(
            name, error.strerror or str(error), plugin.install_hint or "install it, or correct its path"
        ) from error
    try:
        output, told = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise KubeconfigError(name, f"no answer within {limit_s:g} s", "run it by hand") from error
    finally:
        _end(process, whole_group=not person)
    if process.returncode:
        said = f": {told.strip()[-_SAID:]}" if told and told.strip() else ""
        raise KubeconfigError(name, f"it ended with {process.returncode}{said}", "run it by hand")
    return output


def _information(plugin: ExecPlugin, *, person: bool) -> str:
    spec: dict[str, Any] = {"interactive": person}
    if plugin.cluster is not None:
        spec["cluster"] = dict(plugin.cluster)
    return json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})


def _end(process: subprocess.Popen[str], *, whole_group: bool) -> None:
    """Nothing of it goes on, and nothing waits for what it holds open."""
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL) if whole_group else process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
