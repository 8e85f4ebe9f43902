"""PodGroups of Kubernetes, Volcano and scheduler-plugins, as far as they are read: how many pods must run together, and for how long. Types only."""

from __future__ import annotations

from typing import Final

from rescheduler.model.records import Namespaced

_LONGEST: Final = 6
"""Digits of a number of pods that is believed."""


class PodGroupRecord(Namespaced, frozen=True, gc=False):
    """A PodGroup (scheduling.k8s.io, scheduling.volcano.sh or scheduling.x-k8s.io)."""

    uid: str = ""
    resource_version: str = ""
    maximum_runtime: str = ""
    """Volcano's annotation as it was written; empty: there is none."""
    min_member: int = 0
    """So many pods are of use only together; 0: it says nothing that can be read."""


def members_of_text(text: str) -> int:
    """A number of pods as an annotation has it; 0: it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else 0
