"""Whether a policy's ``matchConstraints`` cover a request."""

from __future__ import annotations

from rescheduler.sim.apiserver.admission import Attributes
from rescheduler.sim.apiserver.errors import Json
from rescheduler.sim.apiserver.selecting import selects
from rescheduler.sim.apiserver.store import Store


def constraints_match(store: Store, constraints: Json | None, attributes: Attributes, obj: Json) -> bool:
    """True if a rule covers the request, no exclusion does, and both selectors select."""
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


def _namespace_matches(store: Store, constraints: Json, attributes: Attributes, obj: Json) -> bool:
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
