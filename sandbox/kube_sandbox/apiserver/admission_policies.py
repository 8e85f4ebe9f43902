"""Mutating and validating admission policies of the cluster, with their CEL expressions.

Follows ``admissionregistration.k8s.io/v1``: match constraints, namespace and object selectors, match conditions,
variables (evaluated when they are used), parameters by name or selector, failure policy, reinvocation. A stored
policy takes effect at once; on a real server this takes up to a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kube_sandbox.apiserver.admission import Attributes
from kube_sandbox.apiserver.apply_configurations import AtomicChange, merge_applied
from kube_sandbox.apiserver.cel.expressions import CelError, compiled
from kube_sandbox.apiserver.errors import Json, StatusError, forbidden
from kube_sandbox.apiserver.json_values import deep_copy, dig
from kube_sandbox.apiserver.patches import json_patch
from kube_sandbox.apiserver.request_selectors import selects
from kube_sandbox.apiserver.store import ObjectStore

_GROUP = "admissionregistration.k8s.io"
_EXEMPT = frozenset(
    f"{kind}.{_GROUP}"
    for kind in (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    )
)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A policy with one of its bindings and one parameter object (None if it has no parameters)."""

    policy: Json
    binding: Json
    params: Json | None

    @property
    def fails_open(self) -> bool:
        return bool(dig(self.policy, "spec", "failurePolicy") == "Ignore")

    @property
    def label(self) -> str:
        return f"{self.policy['kind']} '{self.policy['metadata']['name']}' with binding '{self.binding['metadata']['name']}'"


class _Variables(dict[str, Any]):
    """The variables of an expression. Of the policy's variables only those that it uses are evaluated, in order."""

    def __init__(self, base: dict[str, Any], declared: list[Json]) -> None:
        super().__init__(base)
        self._declared = declared

    def run(self, source: str) -> Any:
        """The value of an expression. Raises CelError."""
        wanted = self._needed(source)
        if wanted:
            known: Json = {}
            for variable in self._declared:
                if variable["name"] in wanted:
                    known[variable["name"]] = compiled(variable["expression"]).evaluate(
                        {**self, "variables": known}
                    )
            return compiled(source).evaluate({**self, "variables": known})
        return compiled(source).evaluate(self)

    def _needed(self, source: str) -> set[str]:
        needed: set[str] = set()
        texts = [source]
        while texts:
            text = texts.pop()
            for variable in self._declared:
                if f"variables.{variable['name']}" in text and variable["name"] not in needed:
                    needed.add(variable["name"])
                    texts.append(variable["expression"])
        return needed


class PolicyEngine:
    """Applies the stored policies."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def mutate(self, attributes: Attributes, obj: Json) -> Json:
        """``obj`` after all matching policies; the same object if none changed it. Raises StatusError (Fail)."""
        if attributes.resource.name in _EXEMPT:
            return obj
        again: list[tuple[_Bound, Json]] = []
        result = obj
        for bound in self._bound("Mutating", attributes, obj):
            result = self._mutate_one(bound, attributes, result)
            if dig(bound.policy, "spec", "reinvocationPolicy") == "IfNeeded":
                again.append((bound, result))
        for bound, seen in again:
            if seen != result:
                result = self._mutate_one(bound, attributes, result)
        return result

    def validate(self, attributes: Attributes, obj: Json) -> None:
        """Raises StatusError if a validating policy denies."""
        if attributes.resource.name in _EXEMPT:
            return
        for bound in self._bound("Validating", attributes, obj):
            self._validate_one(bound, attributes, obj)

    def _bound(self, kind: str, attributes: Attributes, obj: Json) -> Iterator[_Bound]:
        prefix = kind.lower()
        policies = list(self._store.objects.items(f"{prefix}admissionpolicies.{_GROUP}"))
        if not policies:
            return
        bindings = list(self._store.objects.items(f"{prefix}admissionpolicybindings.{_GROUP}"))
        for policy in policies:
            if not constraints_match(self._store, policy["spec"].get("matchConstraints"), attributes, obj):
                continue
            for binding in bindings:
                if dig(binding, "spec", "policyName") != policy["metadata"]["name"]:
                    continue
                narrowed = dig(binding, "spec", "matchResources")
                if narrowed and not constraints_match(self._store, narrowed, attributes, obj):
                    continue
                yield from self._with_params(policy, binding, attributes)

    def _with_params(self, policy: Json, binding: Json, attributes: Attributes) -> Iterator[_Bound]:
        kind = dig(policy, "spec", "paramKind")
        reference = dig(binding, "spec", "paramRef")
        if not kind or not reference:
            yield _Bound(policy, binding, None)
            return
        found = self._params(kind, reference, attributes.namespace)
        if not found and reference.get("parameterNotFoundAction") != "Allow":
            bound = _Bound(policy, binding, None)
            if not bound.fails_open:
                why = f"{bound.label} denied request: no params found for policy binding with `Deny` parameterNotFoundAction"
                raise _denied(attributes, why)
        for params in found:
            yield _Bound(policy, binding, params)

    def _params(self, kind: Json, reference: Json, namespace: str) -> list[Json]:
        resource = self._store.registry.by_kind(kind.get("apiVersion", ""), kind.get("kind", ""))
        if resource is None:
            return []
        place = (reference.get("namespace") or namespace) if resource.namespaced else ""
        if reference.get("name"):
            found = self._store.find(resource.table, place, reference["name"])
            return [found] if found else []
        return self._store.select(resource.table, place, reference.get("selector") or {})

    def _variables(self, bound: _Bound, attributes: Attributes, obj: Json) -> _Variables:
        resource = attributes.resource
        namespace = self._store.find("namespaces", "", attributes.namespace) if attributes.namespace else None
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        request = {
            "kind": kind,
            "requestKind": kind,
            "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
            "subResource": attributes.subresource,
            "name": attributes.name,
            "namespace": attributes.namespace,
            "operation": attributes.operation,
            "userInfo": attributes.user,
            "dryRun": attributes.dry_run,
            "options": {"fieldManager": attributes.manager} if attributes.manager else {},
        }
        base = {
            "object": None if attributes.operation == "DELETE" else self._owned(attributes, obj),
            "oldObject": attributes.old,
            "request": request,
            "params": bound.params,
            "namespaceObject": namespace,
            "authorizer": {},
            "variables": {},
        }
        return _Variables(base, dig(bound.policy, "spec", "variables") or [])

    def _owned(self, attributes: Attributes, obj: Json) -> Json:
        """The object with the time of this write in managedFields, which a real server notes before admission.

        Of what clients send there, the entry of the writer is replaced; other entries stay as they were sent.
        """
        sent = obj["metadata"].get("managedFields") or []
        if attributes.operation == "CREATE" and sent:
            return obj
        manager = attributes.manager or "sandbox"
        entry = {"manager": manager, "operation": "Update", "time": self._store.stamp()}
        others = [e for e in sent if (e.get("manager"), e.get("operation")) != (manager, "Update")]
        return {**obj, "metadata": {**obj["metadata"], "managedFields": [*others, entry]}}

    @staticmethod
    def _conditions_hold(bound: _Bound, variables: _Variables) -> bool:
        conditions = dig(bound.policy, "spec", "matchConditions") or ()
        return all(variables.run(condition["expression"]) is True for condition in conditions)

    def _mutate_one(self, bound: _Bound, attributes: Attributes, obj: Json) -> Json:
        result = obj
        try:
            if not self._conditions_hold(bound, self._variables(bound, attributes, obj)):
                return obj
            for mutation in dig(bound.policy, "spec", "mutations") or ():
                variables = self._variables(bound, attributes, result)
                result = _mutated(mutation, variables, attributes, result)
        except (CelError, AtomicChange, StatusError) as error:
            if bound.fails_open:
                return result
            raise _denied(attributes, f"{bound.label} denied request: {error}") from error
        return result

    def _validate_one(self, bound: _Bound, attributes: Attributes, obj: Json) -> None:
        variables = self._variables(bound, attributes, obj)
        try:
            if not self._conditions_hold(bound, variables):
                return
        except CelError as error:
            if bound.fails_open:
                return
            raise _denied(attributes, f"{bound.label} denied request: {error}") from error
        if "Deny" not in (dig(bound.binding, "spec", "validationActions") or ["Deny"]):
            return
        for validation in dig(bound.policy, "spec", "validations") or ():
            text = _violation(validation, variables, fails_open=bound.fails_open)
            if text:
                raise _denied(
                    attributes, f"{bound.label} denied request: {text}", validation.get("reason", "Invalid")
                )


def _mutated(mutation: Json, variables: _Variables, attributes: Attributes, obj: Json) -> Json:
    if mutation.get("patchType") == "JSONPatch":
        operations = variables.run(mutation["jsonPatch"]["expression"])
        return json_patch(obj, deep_copy(operations))
    applied = variables.run(mutation["applyConfiguration"]["expression"])
    if not isinstance(applied, dict):
        raise CelError("the apply configuration is not an Object")
    return merge_applied(attributes.resource, obj, applied)


def _violation(validation: Json, variables: _Variables, *, fails_open: bool) -> str:
    source = validation["expression"]
    try:
        if variables.run(source) is True:
            return ""
        if validation.get("messageExpression"):
            return str(variables.run(validation["messageExpression"]))
    except CelError as error:
        return "" if fails_open else f"expression '{source}' resulted in error: {error}"
    return str(validation.get("message") or f"failed expression: {source}")


_CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


def _denied(attributes: Attributes, why: str, reason: str = "Invalid") -> StatusError:
    resource = attributes.resource
    error = forbidden(resource.group, resource.plural, attributes.name, why)
    return StatusError(_CODES.get(reason, 422), reason, error.message, details=error.details)


def constraints_match(
    store: ObjectStore, constraints: Json | None, attributes: Attributes, obj: Json
) -> bool:
    """True if a rule matches the request, no exclude rule does, and both selectors match."""
    if not constraints:
        return False
    rules = constraints.get("resourceRules")
    if rules is not None and not any(_rule_matches(rule, attributes) for rule in rules):
        return False
    if any(_rule_matches(rule, attributes) for rule in constraints.get("excludeResourceRules") or ()):
        return False
    return _namespace_matches(store, constraints, attributes, obj) and _object_matches(
        constraints, attributes, obj
    )


def _rule_matches(rule: Json, attributes: Attributes) -> bool:
    resource = attributes.resource
    operations = rule.get("operations") or ()
    if "*" not in operations and attributes.operation not in operations:
        return False
    if not {"*", resource.group} & set(rule.get("apiGroups") or ()):
        return False
    if not {"*", resource.version} & set(rule.get("apiVersions") or ()):
        return False
    scope = rule.get("scope") or "*"
    if scope != "*" and (scope == "Namespaced") is not resource.namespaced:
        return False
    names = rule.get("resourceNames")
    if names and attributes.name not in names:
        return False
    return any(_resource_matches(pattern, attributes) for pattern in rule.get("resources") or ())


def _resource_matches(pattern: str, attributes: Attributes) -> bool:
    plural, _, subresource = pattern.partition("/")
    if plural not in {"*", attributes.resource.plural}:
        return False
    return subresource in {attributes.subresource, "*"} if "/" in pattern else not attributes.subresource


def _namespace_matches(store: ObjectStore, constraints: Json, attributes: Attributes, obj: Json) -> bool:
    selector = constraints.get("namespaceSelector")
    if not selector:
        return True
    if attributes.resource.name == "namespaces":
        return selects(selector, obj["metadata"].get("labels"))
    if not attributes.namespace:
        return True
    namespace = store.find("namespaces", "", attributes.namespace)
    return namespace is not None and selects(selector, namespace["metadata"].get("labels"))


def _object_matches(constraints: Json, attributes: Attributes, obj: Json) -> bool:
    selector = constraints.get("objectSelector")
    if not selector:
        return True
    candidates = [attributes.old] if attributes.operation == "DELETE" else [obj, attributes.old]
    return any(selects(selector, c["metadata"].get("labels")) for c in candidates if c is not None)
