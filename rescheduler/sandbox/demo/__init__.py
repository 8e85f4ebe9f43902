"""The demo: a small cluster with the problems that clusters get over time, and figures of its state."""

from rescheduler.sandbox.demo.figures import DemoFigures, measure
from rescheduler.sandbox.demo.scenario import build

__all__ = ["DemoFigures", "build", "measure"]
