"""The MutatingWebhookConfiguration of the gate and the ValidatingWebhookConfiguration of the guard: as they should be, and as they are.

Every field is set that the API server would fill in itself, so that what is stored can be compared. The
objects are made by the manifests (empty); the leader fills them in and keeps them current.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from rescheduler.kube.answers import NotAnApiServerError, read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.model.selectors import LabelSelector
from rescheduler.webhook.match_conditions import MatchCondition, match_conditions

CONFIGURATION_NAME: Final = "rescheduler.dev"
SERVICE_NAME: Final = "rescheduler-webhook"
SERVICE_PORT: Final = 443
GATE_PATH: Final = "/gate"
HINT_PATH: Final = "/hint"
GUARD_PATH: Final = "/guard"
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
    """Creation of pods, or of what is named."""

    api_groups: tuple[str, ...] = ("",)
    api_versions: tuple[str, ...] = ("v1",)
    operations: tuple[str, ...] = ("CREATE",)
    resources: tuple[str, ...] = ("pods",)
    scope: str = "*"


class NamespaceRequirement(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a namespace selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


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


class ValidatingWebhook(msgspec.Struct, frozen=True, rename="camel"):
    """The guard, all fields set. An eviction that is not answered in two seconds goes on as without it."""

    name: str
    client_config: ClientConfig
    match_conditions: tuple[MatchCondition, ...]
    namespace_selector: Selector
    rules: tuple[Rule, ...] = (Rule(resources=("pods/eviction",), scope="Namespaced"),)
    object_selector: Selector = Selector()
    admission_review_versions: tuple[str, ...] = ("v1",)
    failure_policy: str = "Ignore"
    match_policy: str = "Equivalent"
    side_effects: str = "NoneOnDryRun"
    timeout_seconds: int = 2


AnyWebhook = TypeVar("AnyWebhook", MutatingWebhook, ValidatingWebhook)


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


def guarding(
    settings: WebhookSettings, bundle: bytes, namespaces: LabelSelector, own_user: str
) -> tuple[ValidatingWebhook, ...]:
    """The webhook on evictions in these namespaces, but for the controller's own evictions.

    It never stands before the cluster's own programs, or before the pods that serve it.
    """
    chosen = (NamespaceRequirement(r.key, r.operator.value, tuple(r.values)) for r in namespaces.requirements)
    never = NamespaceRequirement(
        "kubernetes.io/metadata.name", "NotIn", tuple(sorted({*LEFT_OUT, settings.namespace}))
    )
    user = msgspec.json.encode(own_user).decode()
    return (
        ValidatingWebhook(
            name="guard.rescheduler.dev",
            client_config=settings.client(GUARD_PATH, bundle),
            match_conditions=(MatchCondition("not-our-own", f"request.userInfo.username != {user}"),),
            namespace_selector=Selector((*chosen, never)),
        ),
    )


@dataclass(frozen=True, slots=True)
class WebhookConfiguration(Generic[AnyWebhook]):
    """The object. All methods raise ApiError (NotFoundError: not installed) and TransportError."""

    api: KubeApi
    kind: type[AnyWebhook]
    name: str = CONFIGURATION_NAME

    def look(self) -> None:
        """Nothing, if it is installed and may be read."""
        self.api.get(self._path)

    def holds(self, wanted: tuple[AnyWebhook, ...]) -> bool:
        """True if exactly that is stored."""
        stored = read_answer(self.api.get(self._path), _Stored).webhooks or []
        try:
            return tuple(read_answer(bytes(raw), self.kind) for raw in stored) == wanted
        except NotAnApiServerError:
            return False

    def write(self, wanted: tuple[AnyWebhook, ...]) -> None:
        """Store exactly that."""
        self.api.merge_patch(self._path, msgspec.json.encode({"webhooks": wanted}))

    @property
    def _path(self) -> str:
        return f"/apis/admissionregistration.k8s.io/v1/{self.kind.__name__.lower()}configurations/{self.name}"
