"""``rescheduler check``: is each part of an installation in order, and what mends it if not; with ``--pre`` whether it can be installed.

Controller, gate, configuration and pods at the gate are those of the document that ``status`` shows. What may not be looked at is
Unknown, never the end of the command. Nothing is written: a SubjectAccessReview is a question.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rescheduler import __version__
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_FAILED
from rescheduler.cli.live_controller import GUARD, RESPONDER_POLICY, SERVICE_ACCOUNT, WEBHOOK, allows
from rescheduler.cli.output import emit_as
from rescheduler.cli.status_gathering import Gathering
from rescheduler.configuration.document import Configuration
from rescheduler.configuration.process_sections import GateMode
from rescheduler.kube.answers import read_field
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import (
    METRICS,
    OLDEST,
    Capabilities,
    discover,
    lifecycle_version,
    resource_of,
    resources_of,
)
from rescheduler.kube.errors import ApiError, ForbiddenError, NotFoundError
from rescheduler.kube.installation import Manifest, load, path_of
from rescheduler.kube.installed_rules import installed_rules
from rescheduler.kube.node_autoscaler import node_autoscaler_reports
from rescheduler.model.counted import plural, verb
from rescheduler.model.gated_pods import RELEASE
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import API_VERSION, LIFECYCLE, RESPONDER
from rescheduler.model.times import format_seconds, parse_timestamp
from rescheduler.reports.checks import CheckLine, CheckReport, CheckState, check_text
from rescheduler.reports.health import refuted_gate
from rescheduler.reports.status_document import ClusterStatus, Presence

_APPLY: Final = "kubectl apply -k manifests/ (or helm upgrade)"
_FOLLOW: Final = (
    "restart the API servers, which do not follow policies that were removed and came back, or: "
    "kubectl apply -k manifests/overlays/webhook"
)
_OWN: Final = ("reservations", "podmigrations", "reservationwindows", "headrooms")
_POLICIES: Final = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
_AT_ONCE: Final = 16
_LONG_GATED_S: Final = 300.0
_NAMED: Final = 4
_UNCUT: Final = 100_000
"""Columns, for -o wide."""

Look = Callable[[], CheckLine]


def run(*, pre: bool, output: str, cluster: NamedCluster) -> None:
    """Print a line for each part. Raises SystemExit: one is broken (1), or could not be looked at (3)."""
    api = cluster.api()
    looks = _before(api) if pre else _after(cluster, api)
    checks = tuple(_looked(name, look) for name, look in looks.items())
    report = CheckReport(at=format_seconds(time.time()), checks=checks)
    width = shutil.get_terminal_size((100, 40)).columns if output == "text" else _UNCUT
    emit_as(output, document=lambda: report, text=lambda: check_text(report, width))
    if report.broken:
        raise SystemExit(EXIT_FAILED)
    if report.unknown:
        raise SystemExit(EXIT_BLOCKED)


def _looked(name: str, look: Look) -> CheckLine:
    try:
        found = look()
    except ForbiddenError as error:
        found = _line(CheckState.UNKNOWN, f"you may not look at it: {error.message}")
    except ApiError as error:
        found = _line(CheckState.UNKNOWN, f"the API server does not say: {error}")
    return msgspec.structs.replace(found, name=name)


def _line(state: CheckState, message: str, remedy: str = "") -> CheckLine:
    return CheckLine(name="", state=state, message=message, remedy=remedy)


def _ok(message: str) -> CheckLine:
    return _line(CheckState.OK, message)


def _broken(message: str, remedy: str) -> CheckLine:
    return _line(CheckState.BROKEN, message, remedy)


def _before(api: KubeApi) -> Mapping[str, Look]:
    able = discover(api)
    return {
        "api-server": lambda: _server(able),
        "gate": lambda: _gate_possible(able),
        "rights": lambda: _may_install(api),
        "installed": lambda: _not_there(able),
    }


def _after(cluster: NamedCluster, api: KubeApi) -> Mapping[str, Look]:
    able, gathering = discover(api), Gathering(cluster=cluster, api=api, badly_placed=False)
    served = resources_of(api, API_VERSION)
    if not able.installed:
        return {"api-server": lambda: _server(able), "crds": lambda: _kinds(served)}
    status = gathering.report()
    found = _Installation(
        api=api, cluster=cluster, able=able, status=status, configuration=gathering.configuration
    )
    return {
        "api-server": lambda: _server(able),
        "crds": lambda: _kinds(served),
        "policies": found.policies,
        "gate": found.gate,
        "webhook": found.webhook,
        "guard": found.guard,
        "responder": found.responder,
        "rights": found.rights,
        "configuration": found.configured,
        "controller": found.controller,
        "gated-pods": found.gated,
        "metrics": found.metrics,
        "autoscaler": found.autoscaler,
    }


def _server(able: Capabilities) -> CheckLine:
    version = able.version.text or "of an unknown version"
    if able.too_old:
        wanted = f"Kubernetes {OLDEST.major}.{OLDEST.minor} or newer is needed to move pods"
        return _broken(f"{version}: {wanted}", "upgrade the cluster; plan and explain work with it")
    return _ok(f"Kubernetes {version}; this program is {__version__}")


def _gate_possible(able: Capabilities) -> CheckLine:
    if able.mutating_admission_policies:
        return _ok("the API server has MutatingAdmissionPolicies: kubectl apply -k manifests/")
    return _ok("the API server has no MutatingAdmissionPolicies: kubectl apply -k manifests/overlays/webhook")


def _not_there(able: Capabilities) -> CheckLine:
    if able.installed:
        return _ok("rescheduler is installed already: rescheduler check (without --pre) looks at it")
    return _ok("no: nothing of it is in the way")


def _kinds(served: Iterable[str]) -> CheckLine:
    missing = [name for name in _OWN if name not in served]
    if missing:
        return _broken(
            f"{', '.join(missing)} of {API_VERSION} are not served", "kubectl apply -k manifests/crds"
        )
    return _ok(f"all {len(_OWN)} kinds of {API_VERSION} are served")


def _may_install(api: KubeApi) -> CheckLine:
    wanted = {_place(obj): obj for obj in load()}
    refused = _refused(lambda attributes: allows(api, attributes), ((place, "create") for place in wanted))
    if refused:
        return _broken(f"you may not {_some(refused)}", "ask an administrator of the cluster to install it")
    return _ok("you may create everything that is installed")


Place = tuple[str, str, str]
"""API group, plural name (with a subresource), namespace."""


def _place(obj: Manifest) -> Place:
    resource = resource_of(path_of(obj))
    return resource.group, resource.plural, obj["metadata"].get("namespace", "")


def _refused(allowed: Callable[[dict[str, str]], bool], wanted: Iterable[tuple[Place, str]]) -> list[str]:
    """What is not allowed, as people write it."""

    def ask(one: tuple[Place, str]) -> str:
        (group, plural_name, namespace), action = one
        resource, _, subresource = plural_name.partition("/")
        attributes = {"group": group, "resource": resource, "verb": action, "namespace": namespace}
        return "" if allowed({**attributes, "subresource": subresource}) else f"{action} {plural_name}"

    asked = list(dict.fromkeys(wanted))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(dict.fromkeys(filter(None, pool.map(ask, asked))))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Installation:
    """What is looked at once rescheduler is installed."""

    api: KubeApi
    cluster: NamedCluster
    able: Capabilities
    status: ClusterStatus
    configuration: Configuration

    def policies(self) -> CheckLine:
        """Those that guard what the controller writes are there, and of this version."""
        found = installed_rules(self.api)
        if found.unknown:
            return _line(CheckState.UNKNOWN, found.unknown)
        if found.others:
            message, _, remedy = found.others.rpartition(": kubectl ")
            return _broken(message or found.others, f"kubectl {remedy}" if message else _APPLY)
        kinds = _POLICIES if self.able.mutating_admission_policies else _POLICIES[:1]
        wanted = {obj["metadata"]["name"] for obj in load() if obj["kind"] in kinds}
        missing = sorted(wanted - found.names)
        if missing:
            return _broken(
                f"{len(missing)} of {len(wanted)} admission policies are missing: {_some(missing)}", _APPLY
            )
        return _ok(f"all {len(wanted)} admission policies are there, of version {__version__}")

    def gate(self) -> CheckLine:
        """What holds replacements."""
        if self.configuration.mode is MoveMode.SOFT:
            return _line(CheckState.UNUSED, "mode Soft evicts without it")
        if refuted := refuted_gate(self.status):
            return _broken(refuted, _FOLLOW)
        match self.status.gate:
            case "InForce":
                return _ok("in place: replacements wait for their room")
            case "Missing":
                return _broken("missing: no pod is moved", self._gate_remedy)
            case _:
                return _line(CheckState.UNKNOWN, "you may not read admission policies")

    @property
    def _gate_remedy(self) -> str:
        policy = self.able.mutating_admission_policies
        return "kubectl apply -k manifests/" if policy else "kubectl apply -k manifests/overlays/webhook"

    def webhook(self) -> CheckLine:
        """It takes the place of the policy before Kubernetes 1.36, or where it is asked for."""
        needed = self.configuration.gate.mode is GateMode.WEBHOOK or not self.able.mutating_admission_policies
        absent = _line(CheckState.UNUSED, "an admission policy is the gate")
        if needed:
            remedy = "kubectl apply -k manifests/overlays/webhook"
            absent = _broken("it is needed here, and not registered", remedy)
        return self._registered(WEBHOOK, absent)

    def guard(self) -> CheckLine:
        """What keeps evictions of others waiting, where its manifests are installed."""
        if not self.configuration.guard.enabled:
            return _line(CheckState.UNUSED, "guard.enabled is false")
        absent = _line(CheckState.UNUSED, "it is not installed: evictions of others do not wait for room")
        return self._registered(GUARD, absent)

    def responder(self) -> CheckLine:
        """What answers EvictionRequests, where they are served and its manifests are installed."""
        if not lifecycle_version(self.api):
            return _line(CheckState.UNUSED, "the API server does not serve EvictionRequests")
        try:
            self.api.get(RESPONDER_POLICY)
        except NotFoundError:
            return _line(CheckState.UNUSED, "it is not installed: EvictionRequests are not answered")
        namespace = self.cluster.controller_namespace
        access = {"group": LIFECYCLE, "resource": "evictions", "subresource": "status", "verb": "patch"}
        if not allows(self.api, access, of=namespace):
            return _broken(
                f"ServiceAccount {namespace}/{SERVICE_ACCOUNT} may not report",
                "kubectl apply -k manifests/components/responder",
            )
        return _ok(f"new pods of guarded namespaces get {RESPONDER}")

    def _registered(self, path: str, absent: CheckLine) -> CheckLine:
        """A webhook of the controller, which it gives a certificate once it serves it."""
        try:
            found = read_field(self.api.get(path), "webhooks", list[dict[str, Any]], [])
        except NotFoundError:
            return absent
        if not found or any(not one["clientConfig"].get("caBundle") for one in found):
            logs = f"kubectl -n {self.cluster.controller_namespace} logs deployment/{SERVICE_ACCOUNT}"
            return _broken("it is registered without a certificate: the controller has not served it", logs)
        return _ok("it is registered, with the certificate of its authority")

    def rights(self) -> CheckLine:
        """Those that the manifests give to the controller."""
        namespace = self.cluster.controller_namespace
        try:
            self.api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{SERVICE_ACCOUNT}")
        except NotFoundError:
            who = self.status.controller.holder
            return _line(
                CheckState.UNUSED, f"no ServiceAccount: {who or 'the controller'} runs outside of the cluster"
            )
        wanted = list(_rights(load(), namespace))
        refused = _refused(lambda a: allows(self.api, a, of=namespace), wanted)
        if not refused:
            return _ok(f"ServiceAccount {namespace}/{SERVICE_ACCOUNT} has all {len(set(wanted))}")
        only = "; it only reports" if "create pods/eviction" in refused else ""
        return _broken(f"ServiceAccount {namespace}/{SERVICE_ACCOUNT} may not {_some(refused)}{only}", _APPLY)

    def configured(self) -> CheckLine:
        """The document in force."""
        if self.status.configuration:
            where = f"kubectl -n {self.cluster.controller_namespace} get configmap rescheduler -o yaml"
            return _broken(self.status.configuration, f"{where} | rescheduler validate -")
        on = [policy.title for policy in self.configuration.policies if policy.args.enabled]
        return _ok(f"in force; policies: {', '.join(on) or 'none'}")

    def controller(self) -> CheckLine:
        """Whether one leads."""
        found = self.status.controller
        match found.presence:
            case Presence.LEADING:
                images = f" ({', '.join(found.images)})" if found.images else ""
                return _ok(f"{found.holder} leads since {found.leads_since}{images}")
            case Presence.UNKNOWN:
                return _line(CheckState.UNKNOWN, found.message)
            case _:
                last = f"; {found.holder} led last" if found.holder else ""
                told = f"; {found.message}" if found.message else ""
                return _broken(f"none runs{last}{told}", found.remedy)

    def gated(self) -> CheckLine:
        """Pods at the gate, and who lets them go."""
        gated, count = self.status.gated, self.status.gated_in_all
        if gated is None:
            return _line(CheckState.UNKNOWN, "you may not read pods")
        if not gated:
            return _ok("no pod waits at the gate")
        first = gated[0]
        oldest = f"{first.namespace}/{first.pod} since {first.since}: {first.message}"
        message = f"{plural(count, 'pod')} {verb(count, 'waits', 'wait')} at the gate; {oldest}"
        if not self.status.controller.runs:
            return _broken(f"{message}; nobody lets them go", f"start the controller, or {RELEASE}")
        if time.time() - parse_timestamp(first.since) > _LONG_GATED_S:
            return _broken(message, f"rescheduler explain pod {first.namespace}/{first.pod}")
        return _ok(message)

    def metrics(self) -> CheckLine:
        """Measured usage, for policies that go by it."""
        wanted = [p.title for p in self.configuration.policies if getattr(p.args, "usage", "") == "actual"]
        if wanted and (url := self.configuration.usage.prometheus.url):
            return _line(
                CheckState.UNKNOWN, f"{', '.join(wanted)} goes by {url}, which only the controller asks"
            )
        if "nodes" in (served := resources_of(self.api, METRICS)):
            left = "" if "pods" in served else "; pods share it out by requests, as it serves none"
            return _ok(f"{METRICS} is served{left}")
        if wanted:
            return _broken(
                f"{METRICS} is not served, and {', '.join(wanted)} goes by it", "install metrics-server"
            )
        return _line(CheckState.UNUSED, f"{METRICS} is not served, and no policy goes by measured usage")

    def autoscaler(self) -> CheckLine:
        """Whether something takes empty nodes away, and adds nodes."""
        if node_autoscaler_reports(self.api, time.time()):
            return _ok("cluster-autoscaler or Karpenter is at work")
        return _line(CheckState.UNUSED, "none is at work: empty nodes stay, and no node is added")


def _rights(manifests: Iterable[Manifest], namespace: str) -> Iterator[tuple[Place, str]]:
    """Every (resource, verb) that a role bound to the controller's ServiceAccount gives; rules of single names left out."""
    objects = list(manifests)
    bound = {
        (binding["roleRef"]["kind"], binding["roleRef"]["name"])
        for binding in objects
        if binding["kind"] in ("ClusterRoleBinding", "RoleBinding")
        and any(one.get("name") == SERVICE_ACCOUNT for one in binding.get("subjects") or ())
    }
    for role in (obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) in bound):
        where = namespace if role["kind"] == "Role" else ""
        for rule in role.get("rules") or ():
            yield from _of_rule(rule, where)


def _of_rule(rule: Mapping[str, Any], namespace: str) -> Iterator[tuple[Place, str]]:
    if rule.get("resourceNames") or "nonResourceURLs" in rule:
        return
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            yield from (((group, resource, namespace), action) for action in rule["verbs"])
