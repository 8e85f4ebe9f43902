"""The sandbox: API server, scheduler, workload controllers and kubelets in one process."""
