"""The pod that its controller creates in place of an evicted one: ``Replacements.of``, the one answer to that question. Pure.

It is not the old pod: it comes from the template that its controller uses now, admission completes it as it does now,
and it has no node. Three sources tell about it, the first that is there counts:

1. a dry-run creation of a pod from that template (``Snapshot.admitted``), which is exactly what would be created;
2. the newest pod that was created from the same template: it has what admission adds. Per resource the largest request
   of that pod, the template and the old pod counts, because a room that is too small would be refused to the replacement.
   So does what admission has added to a newer pod of another ReplicaSet of the same Deployment;
3. the template itself, with the tolerations that Kubernetes' own admission plugins add.

Where no replacement would come, or none that the scheduler may place, the answer is the reason (``NoReplacement``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from rescheduler.model.holding import holding
from rescheduler.model.records import Pod, Workload
from rescheduler.model.replacement_rules import AdmittedPod, TemplateKey
from rescheduler.model.snapshot import Snapshot
from rescheduler.replacements.controllers import Asked, not_replaced, waits_for_others
from rescheduler.replacements.identity import keeps_name
from rescheduler.replacements.reasons import NoReplacement, NotReplaced
from rescheduler.replacements.siblings import Alike, NewestPods, PodsOf
from rescheduler.replacements.templates import (
    Added,
    Created,
    NewestOf,
    ReplacementSource,
    created_from,
    revision_to_come,
)

UID_SUFFIX: Final = "/replacement"
"""Marks the uid of a pod that does not exist yet."""


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """What comes back for one pod."""

    pod: Pod | None = None
    """The pending pod that its controller creates; None: none comes, for ``reason``."""
    reason: NoReplacement | None = None
    message: str = ""
    """Why none comes, as the end of a sentence that begins with the pod."""
    source: ReplacementSource | None = None
    origin: str = ""
    """The source for people, such as ``template of StatefulSet web, revision web-7d9``; empty if none comes."""
    revision: str = ""
    """Revision of a StatefulSet's template; empty for other controllers."""


class Replacements:
    """Replacements for the pods of one snapshot; what pods share is worked out once."""

    def __init__(
        self, snapshot: Snapshot, pods_of: PodsOf | None = None, alike: Iterable[Alike] | None = None
    ) -> None:
        """``pods_of``: the pods of a controller by its uid; without it all pods are read once, or ``alike``, which are the same."""
        self.snapshot = snapshot
        self._newest = NewestPods(snapshot, pods_of, alike)
        self._made: dict[tuple[object, ...], Replacement] = {}
        self._last: tuple[Pod, Replacement] | None = None
        """The pod asked about last, with the answer: several questions about one pod follow each other."""

    def of(self, pod: Pod) -> Replacement:
        """What comes back for ``pod``; pods that share spec and labels share those of the replacement."""
        if self._last is None or self._last[0] is not pod:
            self._last = pod, self._found(pod)
        return self._last[1]

    def coming(self, pod: Pod) -> Pod:
        """The replacement of a pod of which it is known that one comes. Raises LookupError if none does."""
        found = self.of(pod)
        if found.pod is None:
            raise LookupError(f"pod {pod.key} {found.message}")
        return found.pod

    def _found(self, pod: Pod) -> Replacement:
        named_once = pod.name if keeps_name(pod) else ""
        key = (id(pod.spec), id(pod.labels), id(pod.controller), pod.owns, pod.owner_pods, named_once)
        first = self._made.get(key)
        if first is None:
            first = self._made[key] = self._of(pod)
            return first
        if first.pod is None:
            return first
        named = msgspec.structs.replace(
            first.pod, name=_name(pod), uid=pod.uid + UID_SUFFIX, annotations=pod.annotations
        )
        return msgspec.structs.replace(first, pod=named)

    def follows_from(self, pod: Pod) -> tuple[object, ...]:
        """What ``of`` looks at besides the pod's own spec, labels and controller: where this is equal, so is the answer.

        Name, uid and time of the replacement are not meant: they are those of the pod and of now.
        """
        snapshot, newest = self.snapshot, self._newest
        uid = pod.controller.uid if pod.controller is not None else ""
        workload = snapshot.workloads.get(uid)
        rules, live, own, gates = (
            snapshot.replacement_rules,
            newest.live(uid),
            newest.of(uid, ""),
            newest.foreign_gates(uid),
        )
        if pod.owns or pod.owner_pods:
            return rules, pod.owns, pod.owner_pods
        if workload is None:
            return rules, live, own, gates, snapshot.admitted.get(TemplateKey(uid, ""))
        revision = revision_to_come(pod, workload)
        of_revision = newest.of(uid, revision) if revision else own
        admitted = snapshot.admitted.get(TemplateKey(uid, revision)) if snapshot.admitted else None
        # A Job's deadline is compared with the clock.
        now_s = snapshot.taken_at_s if workload.job is not None else 0.0
        above = family = owner = None
        if workload.controller is not None:
            above = snapshot.workloads.get(workload.controller.uid)
            gates = gates or newest.family_gates(workload)
            family = newest.of_family(workload, since=own)
            if family is not None and family.controller is not None:
                owner = snapshot.workloads.get(family.controller.uid)
        # A StatefulSet goes by the number of the pod.
        name = pod.name if workload.kind == "StatefulSet" else ""
        return rules, live, own, gates, admitted, workload, above, of_revision, family, owner, now_s, name

    def _of(self, pod: Pod) -> Replacement:
        snapshot = self.snapshot
        uid = pod.controller.uid if pod.controller is not None else ""
        workload = snapshot.workloads.get(uid)
        above = snapshot.workloads.get(workload.controller.uid) if workload and workload.controller else None
        rules, live = snapshot.replacement_rules, self._newest.live(uid)
        refusal = not_replaced(Asked(pod, workload, above, rules, live, snapshot.taken_at_s))
        if refusal is not None:
            return _none(refusal)
        revision = revision_to_come(pod, workload)
        admitted = snapshot.admitted.get(TemplateKey(uid, revision))
        refusal = (
            _admission_refuses(admitted, workload)
            if admitted is not None
            else self._siblings_wait(uid, workload)
        )
        if refusal is not None:
            return _none(refusal)
        own = self._newest.of(uid, "")
        family = self._newest.of_family(workload, since=own) if workload is not None else None
        newest = NewestOf(
            revision=self._newest.of(uid, revision),
            any=own,
            specs=self._newest.specs(uid, revision),
            family=self._added_to(family) if family is not None else None,
        )
        created = created_from(pod, workload, revision, newest, admitted)
        if isinstance(created, NotReplaced):
            return _none(created)
        return Replacement(
            pod=_pending(pod, created, snapshot.taken_at_s),
            source=created.source,
            origin=created.origin,
            revision=revision,
        )

    def _added_to(self, pod: Pod) -> Added | None:
        owner = self.snapshot.workloads.get(pod.controller.uid) if pod.controller is not None else None
        return (
            Added.of(pod.spec, owner.template) if owner is not None and owner.template is not None else None
        )

    def _siblings_wait(self, uid: str, workload: Workload | None) -> NotReplaced | None:
        gates = self._newest.foreign_gates(uid)
        if not gates and workload is not None:
            gates = self._newest.family_gates(workload)
        if not gates:
            return None
        message = f"would wait for another program, as a new pod of its controller does ({', '.join(gates)})"
        return NotReplaced(NoReplacement.TEMPLATE_GATED, message)


def _admission_refuses(admitted: AdmittedPod, workload: Workload | None) -> NotReplaced | None:
    if admitted.spec is None:
        message = f"would not be replaced: the API server refuses the new pod: {admitted.refusal}"
        return NotReplaced(NoReplacement.NOT_ADMITTED, message)
    if (
        workload is not None
        and workload.selector is not None
        and not workload.selector.matches(admitted.labels)
    ):
        named = f"{workload.kind} {workload.namespace}/{workload.name}"
        message = f"would be followed by pods without end: admission changes their labels, so that {named} takes none for its own"
        return NotReplaced(NoReplacement.RELEASED, message)
    return next(waits_for_others(admitted.spec, "the API server gives the new pod"), None)


def _none(refusal: NotReplaced) -> Replacement:
    return Replacement(reason=refusal.reason, message=refusal.message)


def _pending(pod: Pod, created: Created, now_s: float) -> Pod:
    return Pod(
        namespace=pod.namespace,
        name=_name(pod),
        uid=pod.uid + UID_SUFFIX,
        spec=created.spec,
        labels=created.labels,
        annotations=pod.annotations,
        controller=pod.controller,
        created_at_s=now_s,
        state=holding(created.spec),
    )


def _name(pod: Pod) -> str:
    return pod.name if keeps_name(pod) else f"{pod.name}-replacement"
