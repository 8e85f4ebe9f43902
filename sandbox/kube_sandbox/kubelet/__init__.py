"""Kubelets of fake nodes, in the sandbox and on a real control plane.

``kubelet.Kubelet`` decides and has no clock of its own. ``sync_loop`` runs it: ``KubeletThread`` against any API
server, ``KubeletStepper`` within a sandbox, without a thread.
"""

from kube_sandbox.kubelet.kubelet import Kubelet, KubeletAction, KubeletSettings
from kube_sandbox.kubelet.objects import kubelet_node, pod_on_node
from kube_sandbox.kubelet.sync_loop import KubeletStepper, KubeletThread

__all__ = [
    "Kubelet",
    "KubeletAction",
    "KubeletSettings",
    "KubeletStepper",
    "KubeletThread",
    "kubelet_node",
    "pod_on_node",
]
