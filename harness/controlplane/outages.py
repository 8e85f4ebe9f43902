"""Parts of the control plane that are down for a while. Everything is as before afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from harness.controlplane.api import Api, Json

API_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"


@contextmanager
def metrics_down(api: Api) -> Iterator[None]:
    """An APIService of metrics.k8s.io whose Service does not exist: every read is answered with 503."""
    name = "v1beta1.metrics.k8s.io"
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "kube-system", "name": "no-such-service"},
    }
    body: Json = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}}
    api.create(API_SERVICES, {**body, "spec": spec}).expect()
    try:
        yield
    finally:
        api.delete(f"{API_SERVICES}/{name}").expect()
