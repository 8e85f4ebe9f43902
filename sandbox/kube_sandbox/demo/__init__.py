"""The demo: a small cluster with the problems that clusters get over time, and figures of its state."""

from kube_sandbox.demo.report import DemoFigures, measure
from kube_sandbox.demo.scenario import build

__all__ = ["DemoFigures", "build", "measure"]
