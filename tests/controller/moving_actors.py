"""Scheduler, kubelets, workload controllers and the collector of the cluster of records. Each does one thing when asked and says whether there was one."""

from __future__ import annotations

from moving_records import NAMESPACE, SOFT_PRIORITY, Records, replace

from rescheduler.model.records import (
    ObjectKey,
    PodPhase,
)


class Actors(Records):
    """The truth, and who changes it."""

    def free(self, node):
        used = sum(p.spec.requests.cpu_milli for p in self.pods.values() if p.node == node and not p.terminal)
        return self.nodes[node].allocatable.cpu_milli - used

    def scheduler(self):
        waiting = [p for p in self.pods.values() if not p.node and not p.spec.gates and not p.deleting]
        waiting.sort(key=lambda p: (-p.spec.priority, p.created_at_s, p.name))
        for pod in waiting:
            node = self.room_for(pod)
            if node:
                self.put(replace(pod, node=node, nominated_node="", unschedulable_message=""))
                assert self.free(node) >= 0, f"{node} is overcommitted by {pod.key}"
                return True
            if self.preempt(pod):
                return True
            if pod.nominated_node or not pod.unschedulable_message:
                self.put(replace(pod, nominated_node="", unschedulable_message="0/3 nodes are available"))
                return True
        return False

    def preempt(self, pod):
        """A soft placeholder makes room for any pod of higher priority that finds none."""
        if pod.nominated_node:
            return False
        for victim in sorted(self.pods.values(), key=lambda p: p.name):
            if (
                victim.spec.priority == SOFT_PRIORITY < pod.spec.priority
                and victim.node
                and not victim.deleting
            ):
                self.put(replace(victim, deleting=True))
                self.put(replace(pod, nominated_node=victim.node))
                return True
        return False

    def room_for(self, pod):
        preferred = sorted(self.nodes, key=lambda n: (n != pod.nominated_node, n))
        for name in preferred:
            node = self.nodes[name]
            if node.unschedulable or not node.ready:
                continue
            affinity = pod.spec.node_affinity
            if affinity is not None and not affinity.matches(node.labels, name):
                continue
            keys = {t.key for t in pod.spec.tolerations}
            if any(t.key not in keys for t in node.taints):
                continue
            promised = sum(
                p.spec.requests.cpu_milli
                for p in self.pods.values()
                if p.nominated_node == name
                and not p.node
                and p.uid != pod.uid
                and p.spec.priority >= pod.spec.priority
            )
            if self.free(name) - promised >= pod.spec.requests.cpu_milli:
                return name
        return ""

    def kubelet(self):
        for pod in list(self.pods.values()):
            if pod.deleting:
                del self.pods[pod.key]
                return True
            if pod.node and not pod.ready and pod.phase is PodPhase.PENDING:
                self.put(replace(pod, ready=True, phase=PodPhase.RUNNING))
                return True
        return False

    def controllers(self):
        for workload in self.workloads.values():
            mine = [p for p in self.pods.values() if p.controller and p.controller.uid == workload.uid]
            if workload.kind == "StatefulSet":
                for index in range(workload.replicas):
                    if ObjectKey("default", f"{workload.name}-{index}") not in self.pods:
                        self.replica(workload, index)
                        return True
                continue
            alive = [p for p in mine if not p.deleting and not p.terminal]
            if len(alive) < workload.replicas:
                self.replica(workload, 0)
                return True
            if len(alive) > workload.replicas:
                alive.sort(key=lambda p: (bool(p.node), p.ready, -p.created_at_s))
                self.put(replace(alive[0], deleting=True))
                return True
        return False

    def collector(self):
        uids = {r.uid for r in self.reservations.values()}
        for pod in self.pods.values():
            if pod.namespace == NAMESPACE and pod.controller.uid not in uids and not pod.deleting:
                self.put(replace(pod, deleting=True))
                return True
        return False

    def put(self, pod):
        self.pods[pod.key] = replace(pod, resource_version=self.version())
