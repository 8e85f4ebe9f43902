"""What the next decision would find badly placed, for ``status``: the whole cluster is read and decided about once.

As the controller decides: what is skipped is counted and never written out, and nothing after the moves is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rescheduler.cli.status.report import BlockedStatus, PolicyStatus, badly_placed, blocked
from rescheduler.configuration.document import Configuration
from rescheduler.kube.gc_pause import PROCESS_PAUSE
from rescheduler.model.migration import PodMigration


class PlannedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, without the plan and the cluster themselves."""

    planned_at: str = ""
    """RFC 3339; "": nothing was read."""
    moves: Sequence[PodMigration] | None = None
    """All that there were then; None: they may not be read."""
    policies: tuple[PolicyStatus, ...] = ()
    blocked: tuple[BlockedStatus, ...] = ()
    would_move: int = 0
    warnings: tuple[str, ...] = ()


def planned_status(
    configuration: Configuration, at: str, *, kubeconfig: str | None, context: str | None, namespace: str
) -> PlannedStatus:
    """Reads the cluster and decides. ``namespace``: of the controller. Raises ApiError, TransportError."""
    from rescheduler.cli.snapshot_input import read_live  # noqa: PLC0415 - what does not plan needs no rules
    from rescheduler.planning.planner import decide  # noqa: PLC0415 - the same
    from rescheduler.scheduling.state import SchedulingState  # noqa: PLC0415 - the same

    # Without ``settle``: what was planned is let go of before the next look.
    with PROCESS_PAUSE.during():
        source = read_live(kubeconfig, context, configuration.replacements, namespace)
        state = SchedulingState(source.snapshot, configuration.profile)
        policies, inputs = configuration.build_policies(), configuration.inputs()
        found = decide(source.snapshot, policies, inputs, state, explains=True)
        counted = found.skipped.counts()
    return PlannedStatus(
        planned_at=at,
        moves=tuple(source.snapshot.migrations.values()),
        policies=badly_placed(found.moving.before.policies),
        blocked=blocked(counted),
        would_move=len(found.moving.moves),
        warnings=source.warnings,
    )
