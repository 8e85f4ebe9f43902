"""Answers to dry-run creations, kept between rounds by the template that they were made from.

One answer serves every pod of a template: plans, rooms and the last look before the eviction read it from
``Snapshot.admitted``. It is dropped once the cache shows another template than the one at the time of asking, or after a
limit. The whole template, of which the cache keeps only what the rules need, is read again after ``_READ_KEPT_S``, or once the
cache shows another generation of its controller. That a right is missing is remembered by namespace, so that it is not asked
for in vain for each move. All of it may be lost: it is asked again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from rescheduler.calls.call import Call, Verb
from rescheduler.migrations.observed_migration import ObservedCreation
from rescheduler.model.outcomes import CreationAnswer, CreationOutcome
from rescheduler.model.records import Pod, PodSpec, Workload
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.selectors import NO_LABELS, LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.replacements.controllers import waits_for_others
from rescheduler.replacements.dry_run import can_be_tried, serves_all_pods
from rescheduler.replacements.templates import revision_to_come

_KEPT_S: Final = 3_600.0
"""How long plans rely on an admitted pod. A move asks again before it reserves, and right before it evicts."""
_REFUSED_KEPT_S: Final = 300.0
"""How long plans rely on a refusal or on gates of others: what adds them may be mended, and nothing tells when."""
_NO_RIGHT_KEPT_S: Final = 60.0
"""How long a missing right is not asked for again. An API server that starts answers 403 until it has read the roles."""
_READ_KEPT_S: Final = 5.0
"""How long a template that was read counts while the cache shows no change: the cache may be behind, or its watch silent."""
_CHANGES_KEPT_S: Final = 60.0
"""How long the changes of a hand-over need not be tried again for pods of the same controller."""
_MOST_TEMPLATES: Final = 1_000
TEMPLATE_REFUSED_S: Final = 60.0

_SHOWS_NOTHING: Final = frozenset({CreationOutcome.NO_RIGHT, CreationOutcome.NO_EVIDENCE})


class _Template(NamedTuple):
    """A template as the cache showed it when its pod was created in a dry run."""

    spec: PodSpec | None
    labels: LabelSet


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: CreationAnswer
    asked_at_s: float
    took_s: float
    tries: int
    """Answers in a row by which nothing is known."""
    template: _Template

    @property
    def until_s(self) -> float:
        pod, refused = self.answer.pod, self.answer.outcome is CreationOutcome.REFUSED
        waits = pod is not None and pod.spec is not None and any(waits_for_others(pod.spec, ""))
        return self.asked_at_s + (_REFUSED_KEPT_S if refused or waits else _KEPT_S)


class _Read(NamedTuple):
    """A dry-run creation, made from a template that was read."""

    creation: Call
    generation: int
    """That of the controller, as the cache showed it before the template was read."""
    at_s: float


@dataclass(slots=True)
class DryRunCreations:
    """What is kept. ``informed`` is called at the beginning of each round."""

    _kept: dict[TemplateKey, _Kept] = field(default_factory=dict)
    _no_right: dict[str, _Kept] = field(default_factory=dict)
    """By namespace."""
    _read: dict[str, _Read] = field(default_factory=dict)
    """By the controller's uid."""
    _changed_s: dict[str, float] = field(default_factory=dict)
    """When the changes of a hand-over were last let through, by the controller's uid; "": the deletion of a placeholder, whose ever."""
    _asked_of: Snapshot | None = None
    _refused: dict[str, str] = field(default_factory=dict)
    """``_refused_beside`` of that snapshot, by namespace: each move of a round asks, and the pods are many."""

    def informed(self, snapshot: Snapshot, now_s: float) -> Snapshot:
        """The snapshot with the answers that are still good; the others are dropped."""
        self._kept = {
            key: kept
            for key, kept in self._kept.items()
            if now_s < kept.until_s and kept.template == _template(snapshot, key)
        }
        self._no_right = {
            namespace: kept
            for namespace, kept in self._no_right.items()
            if now_s < kept.asked_at_s + _NO_RIGHT_KEPT_S
        }
        self._read = {
            uid: read
            for uid, read in self._read.items()
            if now_s < read.at_s + _READ_KEPT_S and read.generation == _generation(snapshot, uid)
        }
        self._changed_s = {
            uid: at_s for uid, at_s in self._changed_s.items() if now_s < at_s + _CHANGES_KEPT_S
        }
        admitted = {key: kept.answer.pod for key, kept in self._kept.items() if kept.answer.pod is not None}
        return dataclasses.replace(snapshot, admitted=admitted) if admitted else snapshot

    def observed(self, snapshot: Snapshot, pod: Pod) -> ObservedCreation:
        """What is known of the dry-run creation for ``pod``. ``snapshot``: an informed one."""
        key = template_of(snapshot, pod)
        if key is None:
            return ObservedCreation(refused_beside=self._refused_in(snapshot, pod.namespace))
        kept = self._kept.get(key) or self._no_right.get(pod.namespace)
        changed, deletion = key.controller_uid in self._changed_s, "" in self._changed_s
        if kept is None:
            return ObservedCreation(template=key, changes_tried=changed, deletion_tried=deletion)
        answer, read = kept.answer, self._read.get(key.controller_uid)
        # The answer came in this round, and what this round has judged does not know of it.
        if answer.pod is not snapshot.admitted.get(key):
            return ObservedCreation(template=key, unread=True)
        return ObservedCreation(
            template=key,
            outcome=answer.outcome,
            message=answer.message,
            ungated=answer.pod is not None and answer.pod.ungated,
            asked_at_s=kept.asked_at_s,
            took_s=kept.took_s,
            tries=kept.tries,
            changes_tried=changed,
            deletion_tried=deletion,
            again=read.creation if read is not None else None,
            refused_beside=self._refused_in(snapshot, pod.namespace)
            if answer.outcome in _SHOWS_NOTHING
            else "",
        )

    def _refused_in(self, snapshot: Snapshot, namespace: str) -> str:
        if self._asked_of is not snapshot:
            self._asked_of, self._refused = snapshot, {}
        if namespace not in self._refused:
            self._refused[namespace] = _refused_beside(snapshot, namespace)
        return self._refused[namespace]

    def answered(
        self,
        snapshot: Snapshot,
        template: TemplateKey,
        pod: Pod,
        answer: CreationAnswer,
        now_s: float,
        *,
        took_s: float = 0.0,
        read: Call | None = None,
        changes: Iterable[Call] = (),
    ) -> None:
        """Keep an answer that was asked for at ``now_s``, in the round of ``snapshot``.

        ``read``: if its template was read for it. ``changes``: those of a hand-over that were tried, too.
        """
        before = self._kept.get(template)
        unknown = answer.outcome is CreationOutcome.UNANSWERED
        tries = (before.tries if before is not None else 0) + 1 if unknown else 0
        if answer.pod is not None:
            pod_now = msgspec.structs.replace(answer.pod, asked_at_s=now_s)
            answer = msgspec.structs.replace(answer, pod=pod_now)
        kept = _Kept(answer, now_s, took_s, tries, _template(snapshot, template))
        if answer.outcome is CreationOutcome.NO_RIGHT:
            self._kept.pop(template, None)
            self._no_right[pod.namespace] = kept
        else:
            self._kept[template] = kept
        if not (unknown or answer.outcome is CreationOutcome.REFUSED):
            self._changed_s |= {
                "" if call.verb is Verb.DELETE else template.controller_uid: now_s for call in changes
            }
        self._keep_read(snapshot, template.controller_uid, read, now_s)

    def deletion_failed(self) -> None:
        """A placeholder could not be deleted: what was tried before proves nothing any more."""
        self._changed_s.pop("", None)

    def _keep_read(self, snapshot: Snapshot, uid: str, read: Call | None, now_s: float) -> None:
        workload = snapshot.workloads.get(uid)
        if (
            read is not None
            and workload is not None
            and workload.generation
            and serves_all_pods(workload.kind)
        ):
            self._read[uid] = _Read(read, workload.generation, now_s)


@dataclass(slots=True)
class TemplateTrials:
    """Whether the API server takes a pod of a Reservation's template, kept by the template: the latest thousand.

    Rooms of one command have one template, and a template never changes. What the API server makes of it may change, as with a
    LimitRange that somebody takes away: a refusal counts for a minute.
    """

    _answers: dict[bytes, tuple[str, float]] = field(default_factory=dict)
    """Each with its time."""

    def of(self, template: bytes, now_s: float) -> str | None:
        """Why the API server refuses a pod of it; "": it does not; None: it has not been asked."""
        refusal, asked_s = self._answers.get(template, (None, 0.0))
        return None if refusal and now_s >= asked_s + TEMPLATE_REFUSED_S else refusal

    def answered(self, template: bytes, refusal: str, now_s: float) -> None:
        """Keep an answer."""
        self._answers.pop(template, None)
        self._answers[template] = refusal, now_s
        if len(self._answers) > _MOST_TEMPLATES:
            del self._answers[next(iter(self._answers))]


def template_of(snapshot: Snapshot, pod: Pod) -> TemplateKey | None:
    """The template from which the replacement of ``pod`` comes; None if it is not known how its controller creates pods."""
    owner = pod.controller
    workload = snapshot.workloads.get(owner.uid) if owner is not None else None
    if owner is None or workload is None or not can_be_tried(owner):
        return None
    return TemplateKey(owner.uid, revision_to_come(pod, workload))


def _refused_beside(snapshot: Snapshot, namespace: str) -> str:
    """What the API server says of pods that it refuses in the namespace now: it may refuse a replacement, too."""
    for workload in snapshot.workloads.values():
        if workload.namespace != namespace or not workload.replicas or workload.deleting:
            continue
        if refused := creation_refused(snapshot, workload):
            return f"{workload.kind} {workload.name}: {refused}"
    return ""


def creation_refused(snapshot: Snapshot, workload: Workload) -> str:
    """What the controller shows of pods that the API server refuses it now; "": nothing. Jobs and kinds of others never do."""
    return workload.creation_refused or _missing(snapshot, workload)


def _missing(snapshot: Snapshot, workload: Workload) -> str:
    """What a StatefulSet shows of pods that are refused, as it has no condition for it: it lacks pods and waits for none.

    It is enough that one is missing now: a pod that is about to be created makes others wait for a moment. Jobs lack pods
    for reasons of their own (back-off, completions), so they show nothing.
    """
    if workload.kind != "StatefulSet" or workload.ready_replicas >= workload.replicas:
        return ""
    pods = [
        p for p in snapshot.pods.values() if p.controller is not None and p.controller.uid == workload.uid
    ]
    until_s = snapshot.taken_at_s - workload.min_ready_s
    # It replaces a pod once that is gone, and may create one after the other, each when the one before is available.
    if len(pods) >= workload.replicas or any(
        p.deleting or not p.ready or p.ready_since_s > until_s for p in pods
    ):
        return ""
    return f"{len(pods)} of {workload.replicas} pods exist, and it waits for none of them; see its Events"


def _generation(snapshot: Snapshot, uid: str) -> int:
    workload = snapshot.workloads.get(uid)
    return workload.generation if workload is not None else 0


def _template(snapshot: Snapshot, key: TemplateKey) -> _Template:
    workload = snapshot.workloads.get(key.controller_uid)
    if workload is None:
        return _Template(None, NO_LABELS)
    return _Template(workload.template, workload.template_labels)
