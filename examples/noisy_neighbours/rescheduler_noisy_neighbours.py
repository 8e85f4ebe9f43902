"""NoisyNeighbours: pods that say they are noisy and share a node, of whatever workload."""

from collections.abc import Hashable, Sequence

from rescheduler.model.records import Pod
from rescheduler.policies.registry import PolicyType
from rescheduler.policies.simple import SimplePolicy
from rescheduler.policies.wire import PolicyArgs


class NoisyNeighboursArgs(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """``noisyLabel``: pods that have it as "true" are noisy."""

    noisy_label: str = "noisy"


class NoisyNeighbours(SimplePolicy[NoisyNeighboursArgs]):
    """Each noisy pod beyond the first one on a node costs one pod."""

    name = "NoisyNeighbours"
    reason = "NoisyNeighbour"
    message = "shares node/{node} with another noisy pod"

    def group(self, pod: Pod) -> Hashable | None:
        """All noisy pods matter to each other."""
        return "noisy" if pod.labels.get(self.args.noisy_label) == "true" else None

    def cost_together(self, pods: Sequence[Pod]) -> float:
        """Those beyond the first."""
        return len(pods) - 1


POLICY = PolicyType("NoisyNeighbours", NoisyNeighboursArgs, NoisyNeighbours, interface=1)
