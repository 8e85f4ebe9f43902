"""The Events of evictions that others ask for: on the pod, and where people should hear of it on its node, too. Pure."""

from __future__ import annotations

from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.records import Pod

WITHOUT_ROOM_EVENT = "EvictedWithoutRoom"


def occurrences(
    reason: str, user: str, pod: Pod, message: str, *, warning: bool = False
) -> tuple[Event, ...]:
    """What is told of one eviction; a warning on pod and node."""
    note = f"{user} evicts pod {pod.key} from node/{pod.node}: {message}"
    of_pod = ObjectReference("Pod", pod.name, pod.namespace, pod.uid)
    of_node = ObjectReference("Node", pod.node, uid=pod.node)
    return tuple(
        Event(
            regarding=regarding, related=related, reason=reason, message=note, action="Evict", warning=warning
        )
        for regarding, related in (
            ((of_pod, of_node), (of_node, of_pod)) if warning else ((of_pod, of_node),)
        )
    )
