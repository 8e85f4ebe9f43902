"""The MutatingWebhookConfiguration as it should be, and as it is.

Every field is set that the API server would fill in itself, so that what is stored can be compared. The
object is made by the manifests (empty); the leader fills it in and keeps it current.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import msgspec

from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.webhook.match_conditions import MatchCondition, match_conditions

CONFIGURATION_NAME: Final = "rescheduler.dev"
SERVICE_NAME: Final = "rescheduler-webhook"
SERVICE_PORT: Final = 443
GATE_PATH: Final = "/gate"
HINT_PATH: Final = "/hint"
LEFT_OUT: Final = ("kube-system",)
"""Namespaces that are never gated, as in ``manifests/base/gate.yaml``."""


class ServiceReference(msgspec.Struct, frozen=True):
    """The Service in front of all replicas."""

    name: str
    namespace: str
    path: str
    port: int


class ClientConfig(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where API servers call, the Service or a URL, and the authorities that they trust there."""

    ca_bundle: bytes
    service: ServiceReference | None = None
    url: str | None = None


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """Creation of pods."""

    api_groups: tuple[str, ...] = ("",)
    api_versions: tuple[str, ...] = ("v1",)
    operations: tuple[str, ...] = ("CREATE",)
    resources: tuple[str, ...] = ("pods",)
    scope: str = "*"


class NamespaceRequirement(msgspec.Struct, frozen=True):
    """Of a namespace selector."""

    key: str
    operator: str
    values: tuple[str, ...]


class Selector(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A label selector; empty selects everything."""

    match_expressions: tuple[NamespaceRequirement, ...] = ()


class MutatingWebhook(msgspec.Struct, frozen=True, rename="camel"):
    """One of the two webhooks, all fields set. A review is answered in a second, or the pod goes on without."""

    name: str
    client_config: ClientConfig
    match_conditions: tuple[MatchCondition, ...]
    rules: tuple[Rule, ...] = (Rule(),)
    namespace_selector: Selector = Selector(
        (NamespaceRequirement("kubernetes.io/metadata.name", "NotIn", LEFT_OUT),)
    )
    object_selector: Selector = Selector()
    admission_review_versions: tuple[str, ...] = ("v1",)
    failure_policy: str = "Ignore"
    match_policy: str = "Equivalent"
    reinvocation_policy: str = "Never"
    side_effects: str = "None"
    timeout_seconds: int = 1


class _Stored(msgspec.Struct):
    webhooks: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """How the webhook is served, and where API servers find it."""

    namespace: str
    """The controller's own, with the Service."""
    port: int
    url: str = ""
    """Where API servers reach this replica if not through the Service."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """What the certificate must name."""
        service = f"{SERVICE_NAME}.{self.namespace}.svc"
        own = urlsplit(self.url).hostname if self.url else None
        return (service, f"{service}.cluster.local", *((own,) if own else ()))

    def client(self, path: str, bundle: bytes) -> ClientConfig:
        """How to call ``path``."""
        if self.url:
            return ClientConfig(ca_bundle=bundle, url=self.url.rstrip("/") + path)
        return ClientConfig(
            ca_bundle=bundle, service=ServiceReference(SERVICE_NAME, self.namespace, path, SERVICE_PORT)
        )


def webhooks(
    settings: WebhookSettings, bundle: bytes, gate_keys: Iterable[str], avoid_nodes: Iterable[str]
) -> tuple[MutatingWebhook, ...]:
    """Both webhooks for the controllers whose pods are held (``gate_keys``) or get a hint (``avoid_nodes``)."""
    return tuple(
        MutatingWebhook(
            name=name,
            client_config=settings.client(path, bundle),
            match_conditions=match_conditions(keys, settings.namespace),
        )
        for name, path, keys in (
            ("gate.rescheduler.dev", GATE_PATH, gate_keys),
            ("hint.rescheduler.dev", HINT_PATH, avoid_nodes),
        )
    )


@dataclass(frozen=True, slots=True)
class WebhookConfiguration:
    """The object. Both methods raise ApiError (NotFoundError: not installed) and TransportError."""

    api: KubeApi
    name: str = CONFIGURATION_NAME

    def holds(self, wanted: tuple[MutatingWebhook, ...]) -> bool:
        """True if exactly that is stored."""
        stored = read_answer(self.api.get(self._path), _Stored).webhooks or []
        try:
            return tuple(msgspec.json.decode(raw, type=MutatingWebhook) for raw in stored) == wanted
        except msgspec.ValidationError:
            return False

    def write(self, wanted: tuple[MutatingWebhook, ...]) -> None:
        """Store exactly that."""
        self.api.merge_patch(self._path, msgspec.json.encode({"webhooks": wanted}))

    @property
    def _path(self) -> str:
        return f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{self.name}"
