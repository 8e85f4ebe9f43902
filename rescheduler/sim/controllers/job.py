"""Jobs: pods until enough have succeeded or too many have failed (pkg/controller/job, NonIndexed)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.podcontrol import claim, pod_from_template
from rescheduler.sim.controllers.ranking import deletion_order
from rescheduler.sim.controllers.runtime import Context
from rescheduler.sim.controllers.view import View
from rescheduler.sim.controllers.wire import (
    JOB,
    POD,
    Key,
    Obj,
    active,
    controller_of,
    deleting,
    group_kind,
    is_true,
    key,
    ready,
    selector,
    spec,
    stamp,
    status,
    uid,
    with_condition,
)


class JobController:
    """Runs ``parallelism`` pods of each Job at once until ``completions`` have succeeded."""

    name = "job"
    watches = frozenset({JOB, POD})

    def keys_for(self, view: View, change: Change, old: Obj | None) -> Iterable[Key]:
        """The Job, or the Job that controls the pod."""
        _ = view, old
        if group_kind(change.object) == JOB:
            return [key(change.object)]
        ref = controller_of(change.object)
        return [Key(key(change.object).namespace, ref["name"])] if ref and ref.get("kind") == "Job" else []

    def reconcile(self, ctx: Context, place: Key) -> float | None:
        """Create or delete pods for the Job's parallelism, then write its status."""
        job = ctx.view.at(JOB, place)
        if job is None or is_true(job, "Complete") or is_true(job, "Failed"):
            return None
        pods = claim(
            ctx, job, selector(spec(job).get("selector")), ctx.view.claimable(uid(job), POD, place.namespace)
        )
        running = [p for p in pods if active(p)]
        succeeded = sum(_phase(p) == "Succeeded" for p in pods)
        failed = sum(_phase(p) == "Failed" and not _forgiven(job, p) for p in pods)
        limit = spec(job).get("backoffLimit")
        verdict = _verdict(job, succeeded, failed, len(running), 6 if limit is None else int(limit))
        if verdict == "Failed":
            for pod in running:
                ctx.api.delete(pod)
        elif not verdict and not deleting(job):
            self._scale(ctx, job, running, succeeded)
        _write_status(ctx, job, running, (succeeded, failed), verdict)
        return None

    def _scale(self, ctx: Context, job: Obj, running: Sequence[Obj], succeeded: int) -> None:
        wanted = _wanted(job, len(running), succeeded)
        for _ in range(wanted - len(running)):
            ctx.api.create(pod_from_template(job, spec(job)["template"]))
        for pod in deletion_order(running, running, ctx.now_s)[: max(len(running) - wanted, 0)]:
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


def _wanted(job: Obj, running: int, succeeded: int) -> int:
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
    ctx: Context, job: Obj, running: Sequence[Obj], counts: tuple[int, int], verdict: str
) -> None:
    succeeded, failed = counts
    new: Obj = {
        "active": 0 if verdict == "Failed" else len(running),
        "ready": sum(ready(p) for p in running),
        "succeeded": succeeded,
        "failed": failed,
        "startTime": status(job).get("startTime") or stamp(ctx.now_s),
    }
    if verdict:
        reason = "BackoffLimitExceeded" if verdict == "Failed" else "CompletionsReached"
        mark = {"type": verdict, "status": "True", "reason": reason, "lastTransitionTime": stamp(ctx.now_s)}
        new["conditions"] = with_condition(status(job).get("conditions") or [], mark)
        if verdict == "Complete":
            new["completionTime"] = stamp(ctx.now_s)
    if any(status(job).get(k, 0) != v for k, v in new.items()):
        ctx.api.patch(job, {"status": new}, subresource="status")
