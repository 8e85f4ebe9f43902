"""Answers to the question whether the API server would take a pod of a template, kept by the template.

Rooms of one command have one template, and a template never changes. What the API server makes of it may change, as with a
LimitRange that somebody takes away: a refusal counts for a minute. All of it may be lost: it is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_MOST_KEPT: Final = 1_000
REFUSED_FOR_S: Final = 60.0


@dataclass(slots=True)
class TemplateTrials:
    """What is kept; of more than a thousand templates the latest."""

    _answers: dict[bytes, tuple[str, float]] = field(default_factory=dict)
    """Each with its time."""

    def of(self, template: bytes, now_s: float) -> str | None:
        """Why the API server refuses a pod of it; "": it does not; None: it has not been asked."""
        refusal, asked_s = self._answers.get(template, (None, 0.0))
        return None if refusal and now_s >= asked_s + REFUSED_FOR_S else refusal

    def answered(self, template: bytes, refusal: str, now_s: float) -> None:
        """Keep an answer."""
        self._answers.pop(template, None)
        self._answers[template] = refusal, now_s
        if len(self._answers) > _MOST_KEPT:
            del self._answers[next(iter(self._answers))]
