"""Kubelets of fake nodes, in the sandbox and (``harness.controlplane.kubelets``) on a real control plane."""

from kube_sandbox.kubelet.kubelet import Kubelet, KubeletAction, KubeletSettings
from kube_sandbox.kubelet.objects import kubelet_node, pod_on_node
from kube_sandbox.kubelet.sync_loop import KubeletStepper

__all__ = ["Kubelet", "KubeletAction", "KubeletSettings", "KubeletStepper", "kubelet_node", "pod_on_node"]
