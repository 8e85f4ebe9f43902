"""The state of a pod that holds what it asks for: nobody resizes it in place."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from rescheduler.model.records import Pod, PodSpec, PodState
from rescheduler.model.resources import Resources


@lru_cache(maxsize=1024)
def _state(held: Resources, cpu_milli: int, memory_bytes: int) -> PodState:
    """One object for all specs of equal requests."""
    return PodState(held=held, held_score_cpu_milli=cpu_milli, held_score_memory_bytes=memory_bytes)


def holding(spec: PodSpec, **fields: Any) -> PodState:
    """The state of a pod of that spec with these other fields."""
    state = _state(spec.requests, spec.score_cpu_milli, spec.score_memory_bytes)
    return msgspec.structs.replace(state, **fields) if fields else state


def placed_on(node: str, pod: Pod, **fields: Any) -> Pod:
    """The pod as it stands on the node; ``fields``: of its state."""
    spec = pod.spec
    state = msgspec.structs.replace(
        pod.state,
        held=spec.requests,
        held_score_cpu_milli=spec.score_cpu_milli,
        held_score_memory_bytes=spec.score_memory_bytes,
        **fields,
    )
    return msgspec.structs.replace(pod, node=node, nominated_node="", state=state)
