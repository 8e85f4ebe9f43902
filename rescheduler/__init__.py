"""rescheduler: moves running pods to better nodes, and never evicts into the void."""

__version__ = "0.1.0"
