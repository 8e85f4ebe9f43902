"""TooManyRestarts: pods that restart again and again on their node, while replicas elsewhere are well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated, ClassVar

import msgspec

from rescheduler.model.counted import plural, verb
from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView, PolicyWarning
from rescheduler.policies.leaving_pods import Leaving, LeavingPods
from rescheduler.policies.proposals import NODE
from rescheduler.policies.wire import PolicyArgs


class TooManyRestartsArgs(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """``podRestartThreshold``: so many restarts of its containers are too many.

    ``requireHealthyReplicas``: only if a replica on another node is Ready with fewer restarts: else the node may not be why.
    """

    pod_restart_threshold: Annotated[int, msgspec.Meta(ge=1)] = 100
    require_healthy_replicas: bool = True


class TooManyRestarts(LeavingPods[TooManyRestartsArgs]):
    """Restarts are those of the containers together, init containers left out; its replacement begins at none."""

    name: ClassVar[str] = "TooManyRestarts"
    reason: ClassVar[str] = "TooManyRestarts"

    def leaving(self, view: PolicyView) -> Leaving:
        """Those whose node may be why."""
        known = self._found(view)
        return {
            pod.uid: (pod, f"restarted {plural(pod.restarts, 'time')} on node/{NODE}")
            for pod, elsewhere in known
            if elsewhere
        }

    def warnings(self, view: PolicyView) -> Iterator[PolicyWarning]:
        """How many restart as often and stay."""
        left = sum(not elsewhere for _, elsewhere in self._found(view))
        if left:
            yield PolicyWarning(
                f"{self.name}: {plural(left, 'pod')} {verb(left, 'restarts', 'restart')} as often and "
                f"{verb(left, 'stays', 'stay')}, for no replica on another node is well"
            )

    def _found(self, view: PolicyView) -> list[tuple[Pod, bool]]:
        """The pods with too many restarts in scope, and whether they may go for it."""
        return view.memo.of((self, "restarts"), None, lambda: self._look(view))

    def _look(self, view: PolicyView) -> list[tuple[Pod, bool]]:
        pods, threshold = view.snapshot.pods, self.args.pod_restart_threshold
        often = [
            pod
            for pod in pods.values()
            if pod.restarts >= threshold and pod.node and pod.controller is not None and not pod.deleting
            and self._scope.admits(pod)
        ]  # fmt: skip
        if not often or not self.args.require_healthy_replicas:
            return [(pod, True) for pod in often]
        well: defaultdict[str, set[str]] = defaultdict(set)
        owners = {pod.controller.uid for pod in often if pod.controller is not None}
        for pod in pods.values():
            owner = pod.controller
            if owner is not None and owner.uid in owners and pod.ready and pod.restarts < threshold:
                well[owner.uid].add(pod.node)
        return [(pod, bool(well[pod.controller.uid] - {pod.node})) for pod in often if pod.controller]
