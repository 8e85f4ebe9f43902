"""Why no pod comes back for an evicted one: reasons, and a reason with its message. Pure."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple


class NoReplacement(enum.StrEnum):
    """Why no pod comes back, or none that the scheduler may place on another node."""

    NEVER_MOVES = "NeverMoves"
    """It has no controller, or belongs to its node (``model.never_moves``)."""
    CONTROLLER_NOT_KNOWN = "ControllerNotKnown"
    """Nothing shows that its controller creates another pod."""
    RUNS_TO_ITS_END = "RunsToItsEnd"
    """A custom controller has it run once (restartPolicy Never or OnFailure): an eviction would be its failure."""
    OWNS_OBJECTS = "OwnsObjects"
    """The garbage collector deletes other objects with it."""
    OWNED_BY_POD = "OwnedByPod"
    """It, or its controller, is deleted with another pod."""
    GROUP = "Group"
    """Its controller restarts a whole group of pods when one of them is lost, or the new pod is placed with a group."""
    CONTROLLER_GONE = "ControllerGone"
    """Its controller does not exist any more, or is being deleted."""
    RELEASED = "Released"
    """Its labels do not match the selector of its controller, which takes it for a foreign pod."""
    NAME_KEPT = "NameKept"
    """Finalizers keep it after its end, and its controller creates no other pod of that name meanwhile."""
    SURPLUS = "Surplus"
    """Its controller has more pods than it wants, and this one goes."""
    MAY_BE_REMOVED = "MayBeRemoved"
    """Its controller has more pods than it wants; another one may go, and then this one would come back."""
    JOB = "Job"
    """Pods of Jobs are moved by choice only."""
    JOB_COUNTS_DISRUPTION = "JobCountsDisruption"
    """Its Job counts the eviction as a failure."""
    JOB_ENDS = "JobEnds"
    """Its Job has ended, is suspended, or creates no more pods."""
    TEMPLATE_NAMES_NODE = "TemplateNamesNode"
    """The template names its node: no scheduler is asked."""
    TEMPLATE_GATED = "TemplateGated"
    """The template has scheduling gates of another program, or admission adds some: a dry-run creation or a sibling shows it."""
    REVISION_NOT_KNOWN = "RevisionNotKnown"
    """It comes from an older revision of which no pod is left to show the template."""
    NOT_ADMITTED = "NotAdmitted"
    """The API server refuses to create it."""

    @property
    def passes(self) -> bool:
        """True if it follows from what the controller does right now, and may be different soon."""
        return self in _PASSING


_PASSING: Final = frozenset(
    {
        NoReplacement.CONTROLLER_GONE,
        NoReplacement.RELEASED,
        NoReplacement.SURPLUS,
        NoReplacement.MAY_BE_REMOVED,
        NoReplacement.JOB_ENDS,
    }
)


class NotReplaced(NamedTuple):
    """A reason with its message."""

    reason: NoReplacement
    message: str
    """The end of a sentence that begins with the pod."""
