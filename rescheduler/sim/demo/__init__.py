"""The demonstration: a small cluster that became untidy the way clusters do, and figures of its state."""

from rescheduler.sim.demo.facts import Facts, observe
from rescheduler.sim.demo.scenario import build

__all__ = ["Facts", "build", "observe"]
