"""What policy arguments have in common on the wire: label selectors, namespaces, percentages.

The Structs are converted from YAML by the reader of the configuration, which refuses unknown keys. Value
errors are values here: (path inside the arguments, message). Pure.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated, Final

import msgspec

from rescheduler.model.bounds import MOST_MOVE_TTL
from rescheduler.model.names import NAMESPACE_SYNTAX
from rescheduler.model.records import Pod
from rescheduler.model.resources import is_scalar
from rescheduler.model.selectors import (
    LabelSelector,
    Operator,
    Requirement,
    key_error,
    value_error,
)
from rescheduler.model.times import parse_duration
from rescheduler.model.written import SECONDS, DocumentSection, Mistake, MistakenError, WrittenAs
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.nodes import NodeTable

ArgumentProblem = tuple[tuple[str | int, ...], str]
"""Where in the arguments, and what is wrong there."""

_OPERATORS: Final = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
_WITH_VALUES: Final = (Operator.IN, Operator.NOT_IN)
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")
PERCENT: Final = 100.0
MOST_HINT_S: Final = parse_duration(MOST_MOVE_TTL)
Age = Annotated[float, SECONDS, msgspec.Meta(ge=0.0)]
"""Seconds for which something must have been so; it is written as a duration, such as ``5m``."""


def in_profile(profile: str, policy: str) -> str:
    """What plans call a policy of a profile; the profile without a name changes nothing."""
    return f"{profile}/{policy}" if profile else policy


def registered(policy: str) -> str:
    """The registered name of a policy that may be in a profile."""
    return policy.rpartition("/")[2]


class LabelExpressionArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One entry of ``matchExpressions``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelectorArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A metav1.LabelSelector as it is written in YAML; an empty one selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelExpressionArgs, ...] = ()

    def compiled(self) -> LabelSelector:
        """The selector; ``invalid`` tells what is wrong with it."""
        found = [Requirement(key, Operator.IN, (value,)) for key, value in sorted(self.match_labels.items())]
        if wrong := _no_labels(self.match_labels):
            return LabelSelector(invalid=wrong)
        for expression in self.match_expressions:
            wrong = _wrong(expression)
            if wrong:
                return LabelSelector(invalid=wrong)
            values = tuple(sorted(expression.values))
            found.append(Requirement(expression.key, Operator(expression.operator), values))
        return LabelSelector(tuple(found))


def _compiled(written: LabelSelectorArgs) -> LabelSelector:
    selector = written.compiled()
    if selector.invalid:
        raise MistakenError([((), selector.invalid, "see labels and selectors")])
    return selector


WrittenSelector = Annotated[LabelSelector, WrittenAs(LabelSelectorArgs, _compiled)]
"""A selector in a section of the configuration."""


def _no_labels(written: Mapping[str, str]) -> str:
    """What no label can be; "": all can."""
    keys = (f"{key!r} is no key of a label" for key in written if key_error(key))
    values = (f"{value!r} is no value of a label" for value in written.values() if value_error(value))
    return next(chain(keys, values), "")


def _wrong(expression: LabelExpressionArgs) -> str:
    if wrong := _no_labels({expression.key: ""}):
        return wrong
    if expression.operator not in _OPERATORS:
        return f"operator {expression.operator!r} is none of {', '.join(_OPERATORS)}"
    wants_values = expression.operator in _WITH_VALUES
    if wants_values != bool(expression.values):
        return f"operator {expression.operator} of key {expression.key!r} " + (
            "needs values" if wants_values else "takes no values"
        )
    return ""


def _namespace(name: str) -> str:
    if not re.fullmatch(NAMESPACE_SYNTAX, name):
        raise MistakenError(
            [((), f"{name!r} is no namespace", "name each: lower case letters, digits and '-'")]
        )
    return name


NAMESPACE: Final = WrittenAs(str, _namespace)
NamespaceName = Annotated[str, NAMESPACE]


class NamespaceFilter(DocumentSection, frozen=True, kw_only=True):
    """Namespaces by name; include and exclude are mutually exclusive."""

    include: tuple[NamespaceName, ...] = ()
    exclude: tuple[NamespaceName, ...] | None = None
    """None: nothing is said."""

    def mistakes(self) -> Iterator[Mistake]:
        """Both are given."""
        if self.include and self.exclude:
            yield (), "both include and exclude are given", "keep one of them"

    def admits(self, namespace: str, unless_said: tuple[str, ...] = ()) -> bool:
        """True if pods of the namespace are meant. ``unless_said``: namespaces that are excluded where nothing is said."""
        if self.include:
            return namespace in self.include
        return namespace not in (unless_said if self.exclude is None else self.exclude)


class PolicyMode(enum.StrEnum):
    """How moves of one policy are carried out where the mode of the whole configuration is not meant."""

    RESERVE_FIRST = "ReserveFirst"
    START_FIRST = "StartFirst"


class PolicyArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Arguments that every policy takes: whether it is on, which pods it may propose, how they are moved.

    Pods outside, and pods on nodes without the labels of ``node_selector``, are still counted (utilisation, skew,
    conflicts); they are only never proposed. Nor are pods of ``priority_threshold`` and above, besides what is protected. ``mode`` None: the one of the configuration. ``hint``: for how long the node that a
    pod leaves is avoided by pods of its controller; 0: not at all; None: ``planning.avoid`` says.
    """

    enabled: bool = True
    label_selector: LabelSelectorArgs | None = None
    namespaces: NamespaceFilter = NamespaceFilter()
    node_selector: dict[str, str] = {}
    priority_threshold: int | None = None
    mode: PolicyMode | None = None
    hint: Annotated[float, SECONDS, msgspec.Meta(ge=0.0, le=MOST_HINT_S)] | None = None

    def scope(self) -> Scope:
        """The pods that the policy may propose."""
        selector = self.label_selector.compiled() if self.label_selector is not None else None
        return Scope(
            selector, self.namespaces, tuple(sorted(self.node_selector.items())), self.priority_threshold
        )

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors; subclasses add theirs."""
        if wrong := _no_labels(self.node_selector):
            yield ("nodeSelector",), wrong
        if self.label_selector is not None and (invalid := self.label_selector.compiled().invalid):
            yield ("labelSelector",), invalid

    def nodes(self, nodes: NodeTable) -> BoolArray:
        """The nodes with the labels of ``node_selector``. Do not change the array."""
        return self.scope().nodes(nodes)

    def unknown_to(self, nodes: NodeTable) -> Iterator[ArgumentProblem]:
        """Values that are right in themselves and name nothing that these nodes have; subclasses add theirs."""
        if nodes.size and not self.nodes(nodes).any():
            yield ("nodeSelector",), "no node has these labels, so the policy does nothing"


class NodePoolArgs(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Arguments of policies about how full nodes are: nodes without the labels of ``node_selector`` take no part at all."""

    def offered(self, resource: str, nodes: NodeTable) -> bool:
        """True if a node that takes part has any of the resource, or if none takes part."""
        pool = self.nodes(nodes)
        return not pool.any() or bool((nodes.allocatable(resource)[pool] > 0).any())

    def disjoint(self, other: NodePoolArgs) -> bool:
        """True if no node can take part in both."""
        mine, theirs = self.node_selector, other.node_selector
        return any(mine[key] != theirs[key] for key in mine.keys() & theirs.keys())


class Scope(msgspec.Struct, frozen=True):
    """Which pods a policy may propose."""

    selector: LabelSelector | None
    namespaces: NamespaceFilter
    node_labels: tuple[tuple[str, str], ...] = ()
    below_priority: int | None = None

    def nodes(self, nodes: NodeTable) -> BoolArray:
        """The nodes whose pods the policy may propose. Do not change the array."""
        return nodes.labels_mask(self.node_labels) if self.node_labels else nodes.all

    def proposes(self, known: PodClass) -> bool:
        """True if the policy may propose pods of the class that stand and can come back."""
        return not known.deleting and not known.belongs_to_node and self.admits(known)

    def admits(self, pod: Pod | PodClass) -> bool:
        """True if the policy may propose this pod, or the pods of this class."""
        if not self.namespaces.admits(pod.namespace):
            return False
        if self.below_priority is not None and pod.spec.priority >= self.below_priority:
            return False
        return self.selector is None or self.selector.matches(pod.labels)


def percent_problems(field: str, percents: Mapping[str, float]) -> Iterator[ArgumentProblem]:
    """Percentages of resources that pods request, each from 0 to 100."""
    for resource, value in percents.items():
        if resource not in _RESOURCES and not is_scalar(resource):
            yield (
                (field, resource),
                "is no resource that pods request: use cpu, memory, pods or example.com/gpu",
            )
        if not 0 <= value <= PERCENT:
            yield (field, resource), f"is {value:g}; must be a percentage from 0 to 100"
