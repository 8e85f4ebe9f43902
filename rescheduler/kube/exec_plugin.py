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
from typing import Any, Final

from kubernetes.config.exec_provider import ExecProvider

from rescheduler.kube.errors import KubeconfigError

DEADLINE_S: Final = 30.0
PERSON_DEADLINE_S: Final = 300.0
_SAID: Final = 300


def credential(plugin: ExecProvider, deadline_s: float = DEADLINE_S) -> Mapping[str, Any]:
    """The ``status`` of its ExecCredential.

    Raises:
        KubeconfigError: it cannot be started, fails, is silent for too long, or answers something else.
    """
    name = f"credential plugin {plugin.args[0]!r}"
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


def _output(name: str, plugin: ExecProvider, deadline_s: float) -> str:
    person = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    limit_s = max(deadline_s, PERSON_DEADLINE_S) if person else deadline_s
    try:
        process = subprocess.Popen(  # noqa: S603 - what the user's kubeconfig names
            plugin.args,
            stdin=None if person else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if person else subprocess.PIPE,
            cwd=plugin.cwd,
            env={**plugin.env, "KUBERNETES_EXEC_INFO": _information(plugin, person=person)},
            text=True,
            errors="replace",
            start_new_session=not person,
        )
    except OSError as error:
        raise KubeconfigError(
            name, error.strerror or str(error), "install it, or correct its path"
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


def _information(plugin: ExecProvider, *, person: bool) -> str:
    spec: dict[str, Any] = {"interactive": person}
    if plugin.cluster:
        spec["cluster"] = dict(plugin.cluster.value)
        for extension in plugin.cluster.value.get("extensions") or ():
            if extension.get("name") == "client.authentication.k8s.io/exec":
                spec["cluster"]["config"] = extension.get("extension")
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
