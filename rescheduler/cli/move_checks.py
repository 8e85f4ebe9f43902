"""Whether moves that somebody is about to ask for can be made, by the controller's own rules, before anything is created.

It is a prediction: the controller judges each move again when it begins. Who may not read the whole cluster asks the
controller alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rescheduler.configuration.document import Configuration
from rescheduler.coordination.placement import Placement
from rescheduler.coordination.protection import protection_of
from rescheduler.kube.gate import UNGATED_NAMESPACES
from rescheduler.model.kinds import Kind
from rescheduler.model.names import ANNOTATION_MODE
from rescheduler.model.records import DisruptionBudget, Pod, Workload
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.protections import Lifted
from rescheduler.replacements.replacement import Replacements


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMove:
    """What would become of a move that is asked for now."""

    pod: Pod
    target: str = ""
    """Where the replacement would go."""
    refusal: str = ""
    """Why it would not be moved; empty: it would."""
    no_room: bool = False
    """The refusal is that no node has room now: one that is added may have it."""
    unmovable: bool = False
    """The refusal is of the pod, wherever there is room."""


def check_moves(
    snapshot: Snapshot,
    configuration: Configuration,
    pods: Sequence[Pod],
    target: str = "",
    *,
    drained: bool = False,
) -> list[CheckedMove]:
    """The moves in their order: each finds the room that the earlier ones leave. ``target``: "" is any node.

    ``drained``: the nodes of the pods are emptied, so that protections of the configuration do not count.
    """
    placement, budgets = _placement(snapshot, configuration), BudgetLedger(snapshot)
    return [
        CheckedMove(pod=pod, refusal=several, unmovable=True)
        if (several := several_budgets(budgets.of(pod)))
        else _checked(placement, snapshot, pod, target, drained=drained)
        for pod in pods
    ]


def several_budgets(budgets: Sequence[DisruptionBudget]) -> str:
    """Why the API server never evicts a pod that several budgets select; "": there is one at most."""
    if len(budgets) < 2:  # noqa: PLR2004 - several
        return ""
    names = ", ".join(str(budget.key) for budget in budgets)
    return f"{len(budgets)} PodDisruptionBudgets select it ({names}): the API server never evicts such a pod"


def for_disruption(workload: Workload | None) -> str:
    """What its owner can do about a budget that never allows a disruption: only Deployments pass one, by mode StartFirst."""
    deployment = workload is not None and workload.kind == Kind.DEPLOYMENT
    return (
        f"loosen it, or annotate the Deployment {ANNOTATION_MODE}=StartFirst" if deployment else "loosen it"
    )


def kept_where_they_are(
    snapshot: Snapshot, configuration: Configuration, pods: Iterable[Pod]
) -> Iterator[tuple[Pod, str]]:
    """Those of the pods that are not moved wherever there is room, each with the reason."""
    placement = _placement(snapshot, configuration)
    for pod in pods:
        movable = placement.movable(pod)
        if not movable.ok:
            yield pod, movable.message


def _placement(snapshot: Snapshot, configuration: Configuration) -> Placement:
    placement = Placement(
        namespace=configuration.reservations.namespace,
        profile=configuration.profile,
        protection=protection_of(configuration.protections, configuration.profile),
    )
    placement.begin(Replacements(snapshot))
    return placement


def _checked(
    placement: Placement, snapshot: Snapshot, asked: Pod, target: str, *, drained: bool
) -> CheckedMove:
    pod = snapshot.pods.get(asked.key)
    if pod is None or pod.uid != asked.uid:
        return CheckedMove(pod=asked, refusal="the pod was deleted a moment ago")
    if drained and pod.namespace in UNGATED_NAMESPACES:
        why = f"the gate does not hold pods of namespace {pod.namespace}, so no room can wait for its replacement"
        return CheckedMove(pod=pod, refusal=why, unmovable=True)
    movable = placement.movable(pod, lifted=Lifted.CONFIGURED if drained else Lifted.NOTHING)
    if not movable.ok and not (movable.passes and placement.comes_back(pod)):
        return CheckedMove(pod=pod, refusal=movable.message, unmovable=True)
    if not target:
        choice = placement.for_migration(pod)
        return CheckedMove(pod=pod, target=choice.node, refusal=choice.message, no_room=not choice.node)
    fits = placement.fits(pod, target, None)
    if not fits.ok:
        return CheckedMove(pod=pod, refusal=f"node/{target}: {fits.message}")
    placement.take(pod, target)
    return CheckedMove(pod=pod, target=target)
