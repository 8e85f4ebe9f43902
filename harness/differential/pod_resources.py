"""Random requests of pods, and the status of pods that are being resized in place."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random

from harness.differential.manifests import Manifest

GPU = "example.com/gpu"
NIC = "example.com/nic"
HUGE = "hugepages-2Mi"
DEVICES = "gpus"
"""Name of the DeviceClass that stands behind GPU in some clusters."""


class ResourceMaker:
    """Makes requests; ``theme``: as for ``PodMaker``."""

    def __init__(self, rng: random.Random, theme: str) -> None:
        self._rng = rng
        self._theme = theme

    def requests(self) -> dict[str, str]:
        """Requests of one container."""
        rng = self._rng
        if self._theme not in ("mixed", "devices"):
            return {"cpu": rng.choice(("1m", "100m")), "memory": rng.choice(("64Mi", "1e6"))}
        requests: dict[str, str] = {}
        if rng.random() < 0.85:
            requests["cpu"] = rng.choice(("0", "1m", "50m", "250m", "0.5", "1", "1500m", "3", "9"))
        if rng.random() < 0.85:
            requests["memory"] = rng.choice(
                ("0", "64Mi", "100M", "256Mi", "1Gi", "1.5Gi", "3Gi", "9Gi", "1e9")
            )
        if rng.random() < 0.1:
            requests["ephemeral-storage"] = rng.choice(("1Gi", "4Gi", "20Gi"))
        if rng.random() < (0.5 if self._theme == "devices" else 0.1):
            requests[GPU] = rng.choice(("0", "1", "1", "2", "5"))
        if self._theme == "devices" and rng.random() < 0.2:
            requests[rng.choice((NIC, f"deviceclass.resource.kubernetes.io/{DEVICES}"))] = "1"
        if rng.random() < 0.1:
            requests[HUGE] = rng.choice(("2Mi", "8Mi", "64Mi"))
        return requests

    def pod_level(self) -> dict[str, str]:
        """Requests of a whole pod: the resources that may stand there."""
        rng = self._rng
        found = {name: amount for name, amount in self.requests().items() if name in ("cpu", "memory", HUGE)}
        if rng.random() < 0.3:
            found[HUGE] = rng.choice(("2Mi", "8Mi", "30Mi"))
        # kube-scheduler adds overhead to such a quantity in place, again at every look at the pod.
        if found.get("memory") == "1.5Gi":
            found["memory"] = "2Gi"
        return found

    def status(self, spec: Manifest) -> Manifest:
        """The status of a bound pod; some are in the middle of a resize."""
        rng = self._rng
        status: Manifest = {"phase": rng.choice(("Running",) * 8 + ("Pending", "Succeeded", "Failed"))}
        if rng.random() > 0.35:
            return status
        for group, field in (
            ("containers", "containerStatuses"),
            ("initContainers", "initContainerStatuses"),
        ):
            status[field] = [self._container(c) for c in spec.get(group, ()) if rng.random() < 0.8]
        status["conditions"] = self._resize()
        if "resources" in spec and rng.random() < 0.5:
            status["allocatedResources"] = self.pod_level()
            if rng.random() < 0.7:
                status["resources"] = {"requests": self.pod_level()}
        return status

    def _resize(self) -> list[Manifest]:
        rng = self._rng
        made: list[Manifest] = []
        if rng.random() < 0.4:
            reason = rng.choice(("Infeasible", "Deferred"))
            state = rng.choice(("True", "True", "True", "False"))
            made.append({"type": "PodResizePending", "status": state, "reason": reason})
        if rng.random() < 0.2:
            made.append({"type": "PodResizeInProgress", "status": "True"})
        return made

    def _container(self, container: Manifest) -> Manifest:
        rng = self._rng
        made: Manifest = {
            "name": container["name"], "image": container["image"], "imageID": "", "ready": True,
            "restartCount": 0,
        }  # fmt: skip
        if rng.random() < 0.8:
            made["resources"] = {"requests": self.requests()}
        if rng.random() < 0.8:
            made["allocatedResources"] = self.requests()
        return made
