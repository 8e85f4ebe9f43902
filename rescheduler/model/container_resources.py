"""What the containers that this program makes request and are limited to: of placeholders and of probes (pure).

Quotas and policies of a namespace may demand a request and a limit of each container, for CPU, memory and ephemeral storage; so all of them
are named. What a placeholder is not asked to hold is requested as 0, because the API server would make a request of the limit. Promises:
each limit is at least its request, and equal to it for resources that cannot be overcommitted; a placeholder is Burstable, so that no
kubelet gives it exclusive CPUs or the memory of one NUMA node; a container runtime can start it within its limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rescheduler.model.resources import Resources, format_amount

_LEAST_CPU_MILLI: Final = 100
"""With less, the container runtime takes seconds to start the container, and as long until it can be deleted."""
_LEAST_BYTES: Final = 64 << 20
"""Of memory: runtimes refuse limits below 12 MiB, and their own processes count in them. Of storage: the kubelet evicts beyond it."""
_NEXT_TO_NOTHING: Final = {"cpu": "1m", "memory": "1Mi", "ephemeral-storage": "1Mi"}
OF_PROBES: Final = {"requests": _NEXT_TO_NOTHING, "limits": _NEXT_TO_NOTHING}
"""Of a pod that is never placed: as little as any quota leaves."""


def placeholder_resources(requests: Resources) -> dict[str, Any]:
    """The field ``resources`` of a container that holds ``requests`` and nothing more."""
    amounts = list(_amounts(requests))
    return {
        "requests": {name: format_amount(name, amount) for name, amount in amounts},
        "limits": {name: format_amount(name, _limit(name, amount)) for name, amount in amounts},
    }


def _amounts(requests: Resources) -> Iterator[tuple[str, int]]:
    return (item for item in requests.items() if item[0] != "pods")


def _limit(name: str, amount: int) -> int:
    match name:
        case "cpu":  # never the request: with memory equal to its limit, the pod would be Guaranteed
            return max(amount + 1, _LEAST_CPU_MILLI)
        case "memory" | "ephemeral-storage":
            return max(amount, _LEAST_BYTES)
        case _:
            return amount
