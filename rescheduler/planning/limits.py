"""Limits and protections: the inputs of planning that people set, and what the one knob sets them to."""

from __future__ import annotations

import msgspec

from rescheduler.model.migration import MoveMode
from rescheduler.model.selectors import LabelSelector


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Our own budgets, all enforced besides PodDisruptionBudgets. 0 for a count means none at all."""

    moves_at_once: int = 5
    moves_per_hour: int = 60
    per_node: int = 2
    per_namespace: int = 5
    per_workload: int = 1
    minimum_gain: float = 0.05
    workload_cooldown_s: float = 1800.0
    budget_buffer: int = 0
    """Disruptions that are left unused in every PodDisruptionBudget."""


class NamespaceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Namespaces by name; include and exclude are mutually exclusive."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ("kube-system",)


class Protections(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that are left alone. True protects."""

    priority_threshold: int = 1_000_000
    min_replicas: int = 1
    min_age_s: float = 0.0
    local_storage: bool = True
    persistent_volumes: bool = True
    without_budget: bool = False
    namespaces: NamespaceFilter = NamespaceFilter()
    label_selector: LabelSelector | None = None
    """Only pods that it selects may be moved; None: all."""


class PlanningInputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything besides the snapshot and the policies that a plan is a function of."""

    limits: Limits = Limits()
    protections: Protections = Protections()
    aggressiveness: float = 0.5
    mode: MoveMode = MoveMode.AUTO
    """The configured one: StartFirst declares the mode for every workload, Auto leaves it to annotations."""
    modes: dict[str, MoveMode] = {}
    """What policies declare for their own moves, by the policy's name; it goes before ``mode``."""
    unlimited: bool = False
    """True for ``plan``: show everything wanted, as if time passed; limits at once and per hour are ignored."""
    max_moves: int | None = None
    """With so many moves an unlimited plan ends; None: when nothing is left to move."""
