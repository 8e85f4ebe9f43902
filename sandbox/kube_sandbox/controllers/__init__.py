"""The workload controllers of the sandbox: what kube-controller-manager does, as far as moves can tell."""
