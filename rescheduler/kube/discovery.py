"""What the API server at hand can do: its version and the API groups that the program can use.

Asked once at start and again when something that was there is missing. Reading only; nothing is cached
on disk. That a kind is not served is proven by a list of what is served, never by a 404: a proxy says that, too.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from rescheduler.kube.answers import NotAnApiServerError, read_answer, read_field
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError, NotFoundError, NotServedError
from rescheduler.model.kinds import Resource
from rescheduler.model.names import API_VERSION, LIFECYCLE

ADMISSION: Final = "admissionregistration.k8s.io/v1"
METRICS: Final = "metrics.k8s.io/v1beta1"
KOORDINATOR: Final = "scheduling.koordinator.sh/v1alpha1"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
COSCHEDULING: Final = "scheduling.x-k8s.io/v1alpha1"
SCHEDULING: Final = "scheduling.k8s.io/v1beta1"
EVENTS: Final = "events.k8s.io/v1"
_LIFECYCLE_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")


class ServerVersion(msgspec.Struct, frozen=True, order=True):
    """Of the API server."""

    major: int = 0
    minor: int = 0
    text: str = msgspec.field(default="")


OLDEST: Final = ServerVersion(1, 30)
"""Before it pods cannot be held at their creation, or Reservations not be guarded, by what is on by default."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. Each flag: the resource is served."""

    version: ServerVersion
    mutating_admission_policies: bool = False
    """admissionregistration.k8s.io/v1 MutatingAdmissionPolicy (1.36 and later)."""
    koordinator_reservations: bool = False
    volcano_pod_groups: bool = False
    coscheduling_pod_groups: bool = False
    pod_groups: bool = False
    reservations: bool = False
    pod_migrations: bool = False
    events: bool = True

    @property
    def installed(self) -> bool:
        """Those of our own kinds are there without which nothing works."""
        return self.reservations and self.pod_migrations

    @property
    def too_old(self) -> bool:
        """The server says that it is older than OLDEST. One that does not tell its version is not."""
        return ServerVersion() < self.version < OLDEST


class _ApiResource(msgspec.Struct):
    name: str
    kind: str = ""


class _ApiResourceList(msgspec.Struct):
    kind: str = ""
    resources: list[_ApiResource] | None = None


class _GroupVersion(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _ApiGroup(msgspec.Struct):
    versions: list[_GroupVersion] | None = None


class _ApiGroupList(msgspec.Struct):
    kind: str = ""
    groups: list[_ApiGroup] | None = None


def discover(api: KubeApi) -> Capabilities:
    """Look at the server. Raises ApiError and TransportError; a group that is away counts as not there."""
    admission = resources_of(api, ADMISSION)
    own = resources_of(api, API_VERSION)
    return Capabilities(
        version=server_version(api),
        mutating_admission_policies={"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}
        <= admission,
        koordinator_reservations="reservations" in resources_of(api, KOORDINATOR),
        volcano_pod_groups="podgroups" in resources_of(api, VOLCANO),
        coscheduling_pod_groups="podgroups" in resources_of(api, COSCHEDULING),
        pod_groups="podgroups" in resources_of(api, SCHEDULING),
        reservations="reservations" in own,
        pod_migrations="podmigrations" in own,
        events="events" in resources_of(api, EVENTS),
    )


def server_version(api: KubeApi) -> ServerVersion:
    """The version of the API server; vendors' suffixes ("29+") are cut off."""
    body = api.get("/version")
    major, minor, text = (read_field(body, key, str, "") for key in ("major", "minor", "gitVersion"))
    return ServerVersion(_number(major), _number(minor), text)


def resources_of(api: KubeApi, group_version: str) -> frozenset[str]:
    """Plural names that a group version serves, without subresources; empty if it is not there.

    A group whose own server is away (503) is not there either: metrics.k8s.io is often so.
    """
    try:
        listed = _resources(api, group_version)
    except ApiError as error:
        if error.status == 503:  # noqa: PLR2004 - Service Unavailable, from the aggregator
            return frozenset()
        raise
    return frozenset(resource.name for resource in listed if "/" not in resource.name)


def kinds_served(api: KubeApi) -> frozenset[str]:
    """The kinds of all objects that are served, of each group version. Raises ApiError, TransportError."""
    versions = ("v1", *sorted(_group_versions(api)))
    return frozenset(
        found.kind for version in versions for found in _resources(api, version) if "/" not in found.name
    )


def lifecycle_version(api: KubeApi) -> str:
    """The version in which EvictionRequests are served, the most stable one; "": they are not. Raises ApiError, TransportError."""
    served = _group_versions(api)
    return next((version for version in _LIFECYCLE_VERSIONS if f"{LIFECYCLE}/{version}" in served), "")


def proves_absent(api: KubeApi, resource: Resource) -> bool:
    """True if the API server lists what it serves, and that kind is not in it. Raises ApiError, TransportError: nothing is known."""
    group_version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    return all(listed.name != resource.plural for listed in _resources(api, group_version))


def resource_of(path: str) -> Resource:
    """The kind of a collection or an object at ``path``."""
    root, *parts = path.strip("/").split("/")
    group = parts.pop(0) if root == "apis" else ""
    version = parts.pop(0)
    namespaced = parts[0] == "namespaces" and len(parts) > 2  # noqa: PLR2004 - namespaces/NAME/PLURAL
    return Resource(group, version, parts[2] if namespaced else parts[0], namespaced=namespaced)


def _resources(api: KubeApi, group_version: str) -> list[_ApiResource]:
    """What a group version serves; nothing only if the list of all groups does not have it."""
    path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    try:
        body = api.get(path)
    except (NotServedError, NotFoundError):
        if "/" not in group_version or group_version in _group_versions(api):
            raise
        return []
    found = read_answer(body, _ApiResourceList)
    if found.kind != "APIResourceList":
        raise NotAnApiServerError(body, "it is no list of resources")
    return found.resources or []


def _group_versions(api: KubeApi) -> frozenset[str]:
    body = api.get("/apis")
    found = read_answer(body, _ApiGroupList)
    if found.kind != "APIGroupList":
        raise NotAnApiServerError(body, "it is no list of API groups")
    groups = found.groups or []
    return frozenset(version.group_version for group in groups for version in group.versions or [])


def _number(text: str) -> int:
    digits = re.match(r"\d+", text)
    return int(digits.group()) if digits else 0
