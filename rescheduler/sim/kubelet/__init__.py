"""Kubelets of fake nodes: the same code on the embedded cluster and on the real control plane.

``core.Kubelet`` decides and keeps no time of its own; ``loop.KubeletThread`` runs it against an API server.
"""

from rescheduler.sim.kubelet.core import Action, Kubelet, KubeletSettings
from rescheduler.sim.kubelet.loop import KubeletThread
from rescheduler.sim.kubelet.objects import machine, pod_on_node

__all__ = ["Action", "Kubelet", "KubeletSettings", "KubeletThread", "machine", "pod_on_node"]
