"""Options and API client of the ``reserve`` commands; ``scale`` uses some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rescheduler.cli.api_access import api_of
from rescheduler.cli.options import ENVIRONMENT
from rescheduler.kube.client import KubeApi

F = TypeVar("F", bound=Callable[..., Any])

API_TIMEOUT_S = 10.0
"""An API server that does not answer is reported after this time."""


def api_client(kubeconfig: str | None, context: str | None) -> KubeApi:
    """A client of the API server that the options name."""
    return api_of(kubeconfig, context, API_TIMEOUT_S)


def namespace_option(command: F) -> F:
    """-n, --namespace."""
    return click.option(
        "-n",
        "--namespace",
        envvar=f"{ENVIRONMENT}NAMESPACE",
        default="default",
        show_default=True,
        metavar="NAME",
        help="Namespace of the workload or of the pods.",
    )(command)
