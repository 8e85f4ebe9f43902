"""Answers to the question whether the API server would take a pod of a template, kept by the template.

Rooms of one command have one template, and a template never changes. All of it may be lost: it is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_MOST_KEPT: Final = 1_000


@dataclass(slots=True)
class TemplateTrials:
    """What is kept; of more than a thousand templates the latest."""

    _answers: dict[bytes, str] = field(default_factory=dict)

    def of(self, template: bytes) -> str | None:
        """Why the API server refuses a pod of it; "": it does not; None: it has not been asked."""
        return self._answers.get(template)

    def answered(self, template: bytes, refusal: str) -> None:
        """Keep an answer."""
        self._answers[template] = refusal
        if len(self._answers) > _MOST_KEPT:
            del self._answers[next(iter(self._answers))]
