"""What comes back for an evicted pod, as text, and as JSON with one line for each pod (``explain pod --replacement``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rescheduler.model.counted import plural
from rescheduler.model.names import API_VERSION
from rescheduler.model.records import DisruptionBudget, Pod, PodSpec, Toleration, Workload
from rescheduler.model.resources import Resources
from rescheduler.replacements.identity import starts_after_the_old_ended
from rescheduler.replacements.replacement import Replacement
from rescheduler.reports.table import amount
from rescheduler.reports.text import Style, plain

_COLUMN: Final = 13

_COMPARED: Final[Mapping[str, Callable[[PodSpec], object]]] = {
    "node affinity": lambda s: (s.node_affinity, s.node_affinity_preferred),
    "pod affinity": lambda s: (s.pod_affinity, s.pod_affinity_preferred),
    "pod anti-affinity": lambda s: (s.pod_anti_affinity, s.pod_anti_affinity_preferred),
    "topology spread constraints": lambda s: s.spread,
    "host ports": lambda s: s.host_ports,
    "volumes": lambda s: s.volumes,
    "images": lambda s: s.images,
    "priority": lambda s: (s.priority, s.preempts),
    "scheduler": lambda s: s.scheduler_name,
}
"""Parts of a spec of which only a difference is reported, not the content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementReport:
    """What comes back for one pod, and what its reader wants to check it by."""

    pod: Pod
    found: Replacement
    workload: Workload | None = None
    """The topmost known controller of the pod."""
    budgets: tuple[DisruptionBudget, ...] = ()
    """PodDisruptionBudgets that select the replacement."""


def replacement_document(report: ReplacementReport) -> dict[str, object]:
    """As docs/commands.md has it."""
    pod, found = report.pod, report.found
    document: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": "Replacement",
        "pod": {"namespace": pod.namespace, "name": pod.name, "node": pod.node},
        "replaced": found.pod is not None,
    }
    if pod.controller is not None:
        owner = pod.controller
        document["controller"] = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name}
    if found.pod is None:
        document |= {"reason": str(found.reason), "message": f"the pod {found.message}"}
    else:
        document |= _document(report, found.pod)
    return document


def _document(report: ReplacementReport, new: Pod) -> dict[str, object]:
    found, spec = report.found, new.spec
    return {
        "name": new.name if new.name == report.pod.name else "",
        "revision": found.revision,
        "source": str(found.source),
        "origin": found.origin,
        "created": "AfterTheOldPodEnded" if starts_after_the_old_ended(report.pod) else "AtOnce",
        "requests": _quantities(spec.requests),
        "oldRequests": _quantities(report.pod.spec.requests),
        "labels": dict(sorted(new.labels.items())),
        "nodeSelector": dict(spec.node_selector),
        "tolerations": [_toleration(t) for t in spec.tolerations],
        "differs": [line for _, line in _differences(report.pod, new)],
        "budgets": [{"name": b.name, "disruptionsAllowed": b.disruptions_allowed} for b in report.budgets],
    }


def replacement_text(report: ReplacementReport, style: Style = plain) -> str:
    """A few lines: from where it is known, when it comes, how it differs from the old pod, what counts it."""
    pod, found = report.pod, report.found
    named = style(f"{pod.namespace}/{pod.name}", "heading")
    where = f"on {pod.node}" if pod.node else "pending"
    if found.pod is None:
        return (
            f"{named} ({where}): {style('no pod comes back', 'bad')} ({found.reason})\n"
            f"  The pod {found.message}.\n"
        )
    lines = [f"{named} ({where}): {style('another pod comes back', 'good')}"]
    lines += [f"  {label.ljust(_COLUMN)}{text}" for label, text in _rows(report, found.pod)]
    return "\n".join(lines) + "\n"


def _rows(report: ReplacementReport, new: Pod) -> Iterator[tuple[str, str]]:
    pod, found = report.pod, report.found
    yield "controller", _controller(report)
    yield "known from", f"{found.origin} ({found.source})"
    yield "created", _created(pod)
    yield "requests", _amounts(new.spec.requests) or "nothing"
    differences = list(_differences(pod, new))
    yield from differences or [("differs", "in nothing that its placement depends on")]
    yield "budgets", _budgets(report.budgets)


def _controller(report: ReplacementReport) -> str:
    owner, top = report.pod.controller, report.workload
    if owner is None:
        return "none"
    above = f" of {top.kind} {top.name}" if top is not None and top.uid != owner.uid else ""
    revision = f", revision {report.found.revision}" if report.found.revision else ""
    return f"{owner.kind} {owner.name}{above}{revision}"


def _created(pod: Pod) -> str:
    if not starts_after_the_old_ended(pod):
        return "at once, while the old pod still ends"
    if pod.controller is not None and pod.controller.kind == "Job":
        return "once the old pod has ended, after the back-off of its Job (10 s to 10 minutes)"
    return "once the old pod has ended, with the same name"


def _budgets(budgets: tuple[DisruptionBudget, ...]) -> str:
    if not budgets:
        return "no PodDisruptionBudget counts it"
    return ", ".join(f"{b.name} (allows {plural(b.disruptions_allowed, 'disruption')})" for b in budgets)


def _differences(old: Pod, new: Pod) -> Iterator[tuple[str, str]]:
    """(heading, text) of what is not as in the old pod: + added, - gone, OLD -> NEW changed."""
    for heading, before, after in (
        ("size", _shown(old.spec.requests), _shown(new.spec.requests)),
        ("labels", old.labels, new.labels),
        ("node labels", dict(old.spec.node_selector), dict(new.spec.node_selector)),
        ("tolerations", _by_text(old.spec), _by_text(new.spec)),
    ):
        changes = ", ".join(_changes(before, after))
        if changes:
            yield heading, changes
    others = [name for name, part in _COMPARED.items() if part(old.spec) != part(new.spec)]
    if others:
        yield "differs in", ", ".join(others)


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if before is None:
            yield f"+ {key}={after}" if after else f"+ {key}"
        elif after is None:
            yield f"- {key}={before}" if before else f"- {key}"
        else:
            yield f"{key} {before} -> {after}"


def _shown(requests: Resources) -> dict[str, str]:
    return {name: amount(name, value) for name, value in requests.items() if value}


def _amounts(requests: Resources) -> str:
    return ", ".join(f"{name} {text}" for name, text in _shown(requests).items())


def _quantities(requests: Resources) -> dict[str, str]:
    """Exact, as Kubernetes writes them."""
    return {name: f"{value}m" if name == "cpu" else str(value) for name, value in requests.items() if value}


def _by_text(spec: PodSpec) -> dict[str, str]:
    return dict.fromkeys(map(_toleration, spec.tolerations), "")


def _toleration(toleration: Toleration) -> str:
    """As kubectl describe writes it."""
    value = f"={toleration.value}" if toleration.value else ""
    effect = f":{toleration.effect}" if toleration.effect else ""
    operator = f" op={toleration.operator}" if toleration.operator not in ("", "Equal") else ""
    seconds = f" for {toleration.seconds}s" if toleration.seconds is not None else ""
    return f"{toleration.key or '*'}{value}{effect}{operator}{seconds}"
