"""The workload controllers of the embedded cluster: what kube-controller-manager does, as far as moves can tell."""
