"""Jobs: pods until enough have succeeded or too many have failed (pkg/controller/job, NonIndexed)."""

from __future__ import annotations

from collections.abc import Sequence

from kube_sandbox.controllers.pod_control import (
    OwnerController,
    claim,
    deletion_order,
    pod_from_template,
    write_counts,
)
from kube_sandbox.controllers.runtime import ReconcileContext
from kube_sandbox.controllers.unstructured import (
    JOB,
    POD,
    Obj,
    active,
    deleting,
    is_true,
    new_condition,
    ready,
    spec,
    status,
    with_condition,
)
from rescheduler.model.records import ObjectKey
from rescheduler.model.times import format_seconds


class JobController(OwnerController):
    """Runs ``parallelism`` pods of each Job at once until ``completions`` have succeeded."""

    name = "job"
    kind = JOB
    watches = frozenset({JOB, POD})

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Create or delete pods for the Job's parallelism, then write its status."""
        job = ctx.indexer.at(JOB, request)
        if job is None or is_true(job, "Complete") or is_true(job, "Failed"):
            return None
        pods = claim(ctx, job)
        running = [p for p in pods if active(p)]
        succeeded = sum(_phase(p) == "Succeeded" for p in pods)
        failed = sum(_phase(p) == "Failed" and not _forgiven(job, p) for p in pods)
        limit = spec(job).get("backoffLimit")
        verdict = _verdict(job, succeeded, failed, len(running), 6 if limit is None else int(limit))
        if verdict == "Failed":
            for pod in running:
                ctx.api.delete(pod)
        elif not verdict and not deleting(job):
            self._scale(ctx, job, running, succeeded, ending=sum(map(_still_ends, pods)))
        _write_status(ctx, job, running, (succeeded, failed), verdict)
        return None

    def _scale(
        self, ctx: ReconcileContext, job: Obj, running: Sequence[Obj], succeeded: int, *, ending: int
    ) -> None:
        desired = _desired(job, len(running), succeeded)
        # podReplacementPolicy Failed, which a podFailurePolicy brings along: not before the old pod has ended.
        waits_for = ending if _only_replaces_failed(job) else 0
        for _ in range(desired - len(running) - waits_for):
            ctx.api.create(pod_from_template(job, spec(job)["template"]))
        for pod in deletion_order(running, running, ctx.now_s)[: max(len(running) - desired, 0)]:
            ctx.api.delete(pod)


def _phase(pod: Obj) -> str:
    return str(status(pod).get("phase") or "Pending")


def _forgiven(job: Obj, pod: Obj) -> bool:
    """A pod failure policy that ignores disruptions does not count pods with DisruptionTarget."""
    rules = (spec(job).get("podFailurePolicy") or {}).get("rules") or []
    ignored = {
        c.get("type") for r in rules if r.get("action") == "Ignore" for c in r.get("onPodConditions") or ()
    }
    return any(is_true(pod, kind) for kind in ignored)


def _still_ends(pod: Obj) -> bool:
    return deleting(pod) and _phase(pod) not in ("Succeeded", "Failed")


def _only_replaces_failed(job: Obj) -> bool:
    return bool(spec(job).get("podFailurePolicy")) or spec(job).get("podReplacementPolicy") == "Failed"


def _desired(job: Obj, running: int, succeeded: int) -> int:
    if spec(job).get("suspend"):
        return 0
    parallelism = spec(job).get("parallelism")
    most = 1 if parallelism is None else int(parallelism)
    completions = spec(job).get("completions")
    if completions is None:
        return min(running, most) if succeeded else most
    return min(most, max(int(completions) - succeeded, 0))


def _verdict(job: Obj, succeeded: int, failed: int, running: int, limit: int) -> str:
    if failed > limit:
        return "Failed"
    completions = spec(job).get("completions")
    if completions is None:
        return "Complete" if succeeded and not running else ""
    return "Complete" if succeeded >= int(completions) else ""


def _write_status(
    ctx: ReconcileContext, job: Obj, running: Sequence[Obj], counts: tuple[int, int], verdict: str
) -> None:
    succeeded, failed = counts
    new: Obj = {
        "active": 0 if verdict == "Failed" else len(running),
        "ready": sum(ready(p) for p in running),
        "succeeded": succeeded,
        "failed": failed,
        "startTime": status(job).get("startTime") or format_seconds(ctx.now_s),
    }
    if verdict:
        reason = "BackoffLimitExceeded" if verdict == "Failed" else "CompletionsReached"
        mark = new_condition(verdict, reason, "", ctx.now_s)
        new["conditions"] = with_condition(status(job).get("conditions") or [], mark)
        if verdict == "Complete":
            new["completionTime"] = format_seconds(ctx.now_s)
    write_counts(ctx, job, new)
