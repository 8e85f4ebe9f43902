"""The API client of the ``reserve`` commands."""

from __future__ import annotations

from rescheduler.cli.api_access import api_of
from rescheduler.kube.client import KubeApi

API_TIMEOUT_S = 10.0
"""An API server that does not answer is reported after this time."""


def api_client(kubeconfig: str | None, context: str | None) -> KubeApi:
    """A client of the API server that the options name."""
    return api_of(kubeconfig, context, API_TIMEOUT_S)
