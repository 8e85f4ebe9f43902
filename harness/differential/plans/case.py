"""A cluster, and how a plan is asked for on it: policies, modes, limits. ``harness.shapes`` makes random ones."""

from __future__ import annotations

from typing import NamedTuple

from harness.differential.manifests import Manifest
from harness.differential.plans.births import Admission
from harness.differential.plans.dumps import Form
from rescheduler.planning.limits import PlanningInputs
from rescheduler.policies.framework import Policy
from rescheduler.scheduling.configuration import parse_scheduler_configuration
from rescheduler.scheduling.framework import Profile


class Case(NamedTuple):
    """A cluster, and the inputs of its plan."""

    objects: list[Manifest]
    """All objects, pods included."""
    admission: Admission
    configuration: Manifest | None
    """The KubeSchedulerConfiguration; None for the default."""
    policies: list[Policy]
    inputs: PlanningInputs
    form: Form
    """How our planner gets the cluster."""

    @property
    def profile(self) -> Profile:
        """The scheduler's."""
        return Profile() if self.configuration is None else parse_scheduler_configuration(self.configuration)
