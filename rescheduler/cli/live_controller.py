"""The controller of a live cluster, for commands that say beforehand what it will do: who leads, what it goes by, what keeps it from acting.

Nothing is written: a SubjectAccessReview is a question. What may not be read is taken as no hindrance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.controller_presence import leader, need_controller
from rescheduler.cli.dump_files import read_text
from rescheduler.cli.output import warn
from rescheduler.cli.snapshot_input import SnapshotInput, need_from, read_input
from rescheduler.configuration.document import Configuration, default_configuration, parse_configuration
from rescheduler.configuration.live import CAREFUL, ConfigurationText, careful_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.kube.answers import read_field
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.errors import ApiError, ForbiddenError, NotFoundError, NotServedError
from rescheduler.kube.gate import Gate
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import CONFIG_KEY, CONFIG_MAP
from rescheduler.model.snapshot import Snapshot
from rescheduler.reports.status_document import ControllerStatus, Presence
from rescheduler.webhook.registration import CONFIGURATION_NAME

SERVICE_ACCOUNT: Final = "rescheduler"
WEBHOOK: Final = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{CONFIGURATION_NAME}"
"""Before Kubernetes 1.36 it takes the place of the policy."""
GUARD: Final = WEBHOOK.replace("mutating", "validating")
RESPONDER_POLICY: Final = (
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/responder.rescheduler.dev"
)
"""Adds the responder of EvictionRequests to new pods."""
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"


class ReadConfiguration(NamedTuple):
    """A configuration and from where it is."""

    configuration: Configuration
    warning: str = ""
    """Why it may not be the one that the controller has; empty: it is that one."""
    source: str = ""
    """Where it is from, for people."""
    missing: bool = False
    """There is no document."""
    refused: str = ""
    """What is wrong with the document; the controller stays with the last good one."""
    version: str = ""
    """Of the document; "" where there is none."""

    def beside(self, leader: ControllerStatus) -> ReadConfiguration:
        """The same, with a warning where the leader says that it goes by another document."""
        version, _, origin = leader.configuration.partition(" ")
        known = leader.presence is Presence.LEADING and version and self.version
        if self.warning or not known or version == self.version:
            return self
        if origin.lower().startswith(f"{self.source.lower()} "):
            return self  # the same ConfigMap, whose newest version it takes in seconds, or refuses
        what = f"by {origin}: judge by it with --config" if origin else "by no document"
        return self._replace(warning=f"{leader.holder} does not go by {self.source}, but {what}")


def load_configuration(path: str | None) -> Configuration:
    """The configuration of a file, or the default one."""
    return (
        default_configuration()
        if path is None
        else parse_configuration(read_text(path, "configuration"), path)
    )


def read_for(cluster: NamedCluster, configuration: Configuration, **where: Any) -> SnapshotInput:
    """The cluster, or a dump, by the rules of a configuration. ``where``: paths, more_paths and now, as ``read_input`` takes them."""
    namespace = configuration.reservations.namespace if cluster.config_file else ""
    measured, server = configuration.goes_by_measurement, configuration.usage.prometheus.url
    if measured and server and not where.get("paths"):
        warn(
            f"usage is read once from metrics.k8s.io: the controller goes by {server}, which is not asked from here"
        )
    return read_input(
        cluster, rules=configuration.replacements, namespace=namespace, pod_usage=measured, **where
    )


def asked_about(cluster: NamedCluster, paths: Sequence[str]) -> tuple[LiveController | None, Configuration]:
    """The controller of the cluster, and what it goes by; of a dump None, and the file that is named or the default."""
    if paths:
        return None, load_configuration(cluster.config_file)
    controller = live_controller(cluster)
    return controller, controller.told_configuration()


def read_by_its_configuration(
    cluster: NamedCluster, paths: Sequence[str], now: float | None
) -> tuple[Snapshot, Configuration]:
    """A dump or the cluster, and the configuration that it is asked about by."""
    need_from(paths)
    _, configuration = asked_about(cluster, paths)
    return read_for(cluster, configuration, paths=paths, now=now).snapshot, configuration


def controller_configuration(api: KubeApi, namespace: str) -> ReadConfiguration:
    """What ConfigMap ``rescheduler`` says. Raises ApiError and TransportError for other reasons than a missing right.

    The controller stays with the last good version of a bad document, which nobody else knows: then it is the default one.
    """
    where, refused = f"ConfigMap {namespace}/{CONFIG_MAP}", ""
    try:
        text = read_config_map(api, namespace, CONFIG_MAP).document(CONFIG_KEY)
        if text is None:
            source = f"there is no {where}: no policies"
            return ReadConfiguration(careful_configuration(), source=source, missing=True, version=CAREFUL)
        found, version = parse_configuration(text, where), ConfigurationText(text, where).version
        return ReadConfiguration(found, source=where, version=version)
    except ForbiddenError as error:
        warning = f"{where} may not be read, the default is taken: {error.message}"
    except ConfigurationError as error:
        refused = str(error)
        warning = f"{where} is refused by the controller, the default is taken: {refused}"
    source = f"the built-in default, instead of {where}"
    return ReadConfiguration(default_configuration(), warning, source, refused=refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveController:
    """The controller of a live cluster, as far as a command can know it: who leads, and what it goes by."""

    api: KubeApi
    namespace: str
    leader: ControllerStatus
    read: ReadConfiguration

    @property
    def configuration(self) -> Configuration:
        """What it goes by."""
        return self.read.configuration

    def need(self) -> None:
        """Refuse to ask it for something that nobody would do. Raises CommandError."""
        need_controller(self.leader, self.namespace, elects=self.configuration.leader_election.enabled)

    def told_configuration(self) -> Configuration:
        """What it goes by, for a command that acts on it; what may be wrong with it is told."""
        if self.read.warning:
            warn(self.read.warning)
        return self.configuration

    def warnings(self) -> tuple[str, ...]:
        """What may be wrong with its configuration, and what keeps it from doing anything. Asks the API server."""
        wrong = (self.read.warning,) if self.read.warning else ()
        return (*wrong, *hindrances(self.api, self.leader, self.namespace, self.configuration))


def live_controller(cluster: NamedCluster, api: KubeApi | None = None) -> LiveController:
    """The one whose Lease is in the controller's namespace of ``cluster``. Raises ApiError, TransportError.

    It goes by a file that is named; else by its ConfigMap, or by the built-in default where there is neither a controller nor a
    ConfigMap. A controller that was started with a file has no ConfigMap: whoever asks names the file, too.
    """
    api = api or cluster.api()
    namespace = cluster.controller_namespace
    found = leader(api, namespace)
    if (path := cluster.config_file) is not None:
        version = ConfigurationText(read_text(path, "configuration"), path).version
        read = ReadConfiguration(load_configuration(path), source=path, version=version)
    else:
        read = controller_configuration(api, namespace)
        if found.presence is Presence.ABSENT and read.missing:
            source = "the built-in default: no controller has led here"
            read = ReadConfiguration(default_configuration(), source=source)
    return LiveController(api=api, namespace=namespace, leader=found, read=read.beside(found))


def gate_state(api: KubeApi, namespace: str) -> str:
    """InForce, Missing or Unknown. Raises TransportError, and ApiError for other reasons than a missing right."""
    try:
        if not Gate(api, namespace=namespace).installed():
            api.get(WEBHOOK)
    except (NotFoundError, NotServedError):
        return "Missing"
    except ForbiddenError:
        return "Unknown"
    return "InForce"


def hindrances(
    api: KubeApi, found: ControllerStatus, namespace: str, configuration: Configuration
) -> Iterator[str]:
    """A sentence for each thing because of which nothing of a plan would be done now, whatever the configuration says.

    None is running, the gate is missing, or it has no right to evict, as after an installation that only reports.
    """
    if configuration.leader_election.enabled and not found.runs:
        yield "no controller is running: nobody carries this out (rescheduler status)"
    if configuration.mode is not MoveMode.SOFT and gate_state(api, namespace) == "Missing":
        yield "the gate is missing: the controller moves no pod without it (kubectl apply -k manifests/)"
    if _may_evict(api, namespace) is False:
        yield (
            f"the controller (ServiceAccount {namespace}/{SERVICE_ACCOUNT}) has no right to evict pods: it only reports"
        )


def _may_evict(api: KubeApi, namespace: str) -> bool | None:
    """None: it is not known, or the controller is no pod of this cluster."""
    try:
        api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{SERVICE_ACCOUNT}")
        eviction = {"verb": "create", "resource": "pods", "subresource": "eviction"}
        return allows(api, eviction, of=namespace)
    except ApiError:
        return None


def allows(api: KubeApi, attributes: Mapping[str, str], of: str = "") -> bool:
    """Whether a request is allowed. ``of``: to the controller in this namespace; "": to whoever asks. Raises ApiError, TransportError."""
    kind, spec = "SelfSubjectAccessReview", dict[str, Any](resourceAttributes=attributes)
    if of:
        kind = "SubjectAccessReview"
        spec["user"] = f"system:serviceaccount:{of}:{SERVICE_ACCOUNT}"
        spec["groups"] = ["system:serviceaccounts", f"system:serviceaccounts:{of}"]
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return read_field(api.create(f"{_REVIEWS}/{kind.lower()}s", body), "status.allowed", bool, default=False)
