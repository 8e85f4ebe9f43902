"""The Secret that all replicas share: certificates and keys of the webhook, changed by compare-and-swap only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from rescheduler.kube.answers import read_field
from rescheduler.kube.client import KubeApi
from rescheduler.webhook.certificates import DamagedError, Material, split

SECRET_NAME: Final = "rescheduler-webhook"  # noqa: S105 - the name of the object, no secret


@dataclass(frozen=True, slots=True)
class Stored:
    """What the Secret holds now; ``material`` is None where it is empty or damaged."""

    material: Material | None
    resource_version: str


@dataclass(frozen=True, slots=True)
class CertificateStore:
    """The Secret. Both methods raise ApiError and TransportError; it is never created: the manifests do that."""

    api: KubeApi
    namespace: str
    name: str = SECRET_NAME

    def read(self) -> Stored:
        """The content as stored."""
        secret = self.api.get(self._path)
        data = read_field(secret, "data", dict[str, bytes], {})
        return Stored(_material(data), read_field(secret, "metadata.resourceVersion", str, ""))

    def write(self, material: Material, resource_version: str) -> None:
        """Replace the content; ConflictError if another replica was faster."""
        data = {
            "ca.crt": material.bundle,
            "ca.key": material.authority_key,
            "tls.crt": material.certificate,
            "tls.key": material.key,
        }
        patch = {"metadata": {"resourceVersion": resource_version}, "data": data}
        self.api.merge_patch(self._path, msgspec.json.encode(patch))

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/secrets/{self.name}"


def _material(data: dict[str, bytes]) -> Material | None:
    if not data.get("ca.crt"):
        return None
    try:
        authorities = split(data["ca.crt"])
    except DamagedError:
        return None
    return Material(authorities, data.get("ca.key", b""), data.get("tls.crt", b""), data.get("tls.key", b""))
