"""kube-scheduler for the sandbox: queue, scheduling cycle (with ``rescheduler.scheduling``), preemption, binding."""
