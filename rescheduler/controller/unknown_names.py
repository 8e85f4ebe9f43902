"""Tells the operator what the policies of the configuration name and no node has: in the log, once.

A name that is misspelt is no error: the nodes that have the resource may come later. Used by the core thread only.
"""

from __future__ import annotations

import structlog


class UnknownNames:
    """What was said of them last."""

    def __init__(self) -> None:
        self._said: frozenset[str] = frozenset()
        self._log = structlog.get_logger("rescheduler.configuration")

    def found(self, sentences: tuple[str, ...]) -> None:
        """A decision found these. Only what was not there at the decision before is said."""
        for sentence in sentences:
            if sentence not in self._said:
                self._log.warning(
                    "The configuration names something that nodes do not have",
                    problem=sentence,
                    remedy="correct it, or wait for the nodes that have it",
                )
        self._said = frozenset(sentences)
