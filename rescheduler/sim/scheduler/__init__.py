"""kube-scheduler for the embedded cluster: queues, one decision at a time by our own rules, preemption, binding."""
