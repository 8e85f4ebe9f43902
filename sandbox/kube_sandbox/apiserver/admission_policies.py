"""Admission: the built-in plugins, then the mutating and validating admission policies of the cluster, with their CEL expressions.

The policies follow ``admissionregistration.k8s.io/v1``: rules and namespace selectors, match conditions,
variables (evaluated when they are used), parameters by name, failure policy; not object selectors, exclusions, reinvocation. A stored
policy takes effect at once; on a real server this takes up to a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kube_sandbox.apiserver import strategies
from kube_sandbox.apiserver.admission import Attributes
from kube_sandbox.apiserver.cel import CelError, Environment, compiled
from kube_sandbox.apiserver.errors import Json, StatusError, forbidden, not_found
from kube_sandbox.apiserver.json_values import deep_copy, dig
from kube_sandbox.apiserver.patches import json_patch, strategic_patch
from kube_sandbox.apiserver.selectors import selects
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

    def variables(self, environment: Environment) -> _Variables:
        """What its expressions know besides the request."""
        return _Variables(environment, self.params, dig(self.policy, "spec", "variables") or [])

    @property
    def fails_open(self) -> bool:
        return bool(dig(self.policy, "spec", "failurePolicy") == "Ignore")

    @property
    def label(self) -> str:
        return f"{self.policy['kind']} '{self.policy['metadata']['name']}' with binding '{self.binding['metadata']['name']}'"


class _Variables:
    """The variables of one policy's expressions. Its own are evaluated when an expression first uses them, in order."""

    def __init__(self, environment: Environment, params: Json | None, declared: list[Json]) -> None:
        self._environment, self._declared = environment, declared
        self._known: Json = {}
        environment.set("params", params)
        environment.set("variables", {})

    def run(self, source: str) -> Any:
        """The value of an expression. Raises CelError."""
        wanted = self._needed(source) - self._known.keys()
        for variable in self._declared if wanted else ():
            if variable["name"] in wanted:
                self._known[variable["name"]] = compiled(variable["expression"]).evaluate(self._environment)
                self._environment.set("variables", self._known)
        return compiled(source).evaluate(self._environment)

    def _needed(self, source: str) -> set[str]:
        needed: set[str] = set()
        texts = [source] if "variables." in source else []
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
        self._matching: dict[str, tuple[list[Json], dict[tuple[str, ...], list[Json]]]] = {}
        """The stored policies, and those of them whose rules match a kind of request."""

    def mutate(self, attributes: Attributes, obj: Json) -> Json:
        """``obj`` after all matching policies; the same object if none changed it. Raises StatusError (Fail)."""
        if attributes.resource.name in _EXEMPT:
            return obj
        result = obj
        environment: Environment | None = None
        for bound in self._bound("Mutating", attributes, obj):
            before, environment = result, environment or self._environment(attributes, result)
            result = self._mutate_one(bound, attributes, result, environment)
            environment = environment if result is before else None
        return result

    def validate(self, attributes: Attributes, obj: Json) -> None:
        """Raises StatusError if a validating policy denies."""
        if attributes.resource.name in _EXEMPT:
            return
        environment: Environment | None = None
        for bound in self._bound("Validating", attributes, obj):
            environment = environment or self._environment(attributes, obj)
            self._validate_one(bound, attributes, environment)

    def _bound(self, kind: str, attributes: Attributes, obj: Json) -> Iterator[_Bound]:
        prefix = kind.lower()
        policies = self._policies(prefix, attributes)
        if not policies:
            return
        bindings = list(self._store.objects.items(f"{prefix}admissionpolicybindings.{_GROUP}"))
        for policy in policies:
            if not _namespace_matches(self._store, policy["spec"]["matchConstraints"], attributes, obj):
                continue
            for binding in bindings:
                if dig(binding, "spec", "policyName") != policy["metadata"]["name"]:
                    continue
                yield from self._with_params(policy, binding, attributes)

    def _policies(self, prefix: str, attributes: Attributes) -> list[Json]:
        """The policies whose rules match the request."""
        stored = list(self._store.objects.items(f"{prefix}admissionpolicies.{_GROUP}"))
        known = self._matching.get(prefix)
        if known is None or known[0] != stored:
            known = self._matching[prefix] = (stored, {})
        resource, matching = attributes.resource, known[1]
        request = (resource.name, resource.version, attributes.subresource, attributes.operation)
        if request not in matching:
            constraints = ((policy, policy["spec"].get("matchConstraints")) for policy in stored)
            matching[request] = [policy for policy, one in constraints if _rules_match(one, attributes)]
        return matching[request]

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
        found = self._store.find(resource.table, place, reference["name"])
        return [found] if found else []

    def _environment(self, attributes: Attributes, obj: Json) -> Environment:
        """What the expressions of all policies know of a request."""
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
        variables = {
            "object": None if attributes.operation == "DELETE" else self._owned(attributes, obj),
            "oldObject": attributes.old,
            "request": request,
            "namespaceObject": namespace,
            "authorizer": {},
        }
        return Environment(variables)

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

    def _mutate_one(self, bound: _Bound, attributes: Attributes, obj: Json, environment: Environment) -> Json:
        result = obj
        try:
            if not self._conditions_hold(bound, bound.variables(environment)):
                return obj
            for mutation in dig(bound.policy, "spec", "mutations") or ():
                if result is not obj:
                    environment = self._environment(attributes, result)
                result = _mutated(mutation, bound.variables(environment), result)
        except (CelError, StatusError) as error:
            if bound.fails_open:
                return result
            raise _denied(attributes, f"{bound.label} denied request: {error}") from error
        return result

    def _validate_one(self, bound: _Bound, attributes: Attributes, environment: Environment) -> None:
        variables = bound.variables(environment)
        try:
            if not self._conditions_hold(bound, variables):
                return
        except CelError as error:
            if bound.fails_open:
                return
            raise _denied(attributes, f"{bound.label} denied request: {error}") from error
        for validation in dig(bound.policy, "spec", "validations") or ():
            text = _violation(validation, variables, fails_open=bound.fails_open)
            if text:
                raise _denied(
                    attributes, f"{bound.label} denied request: {text}", validation.get("reason", "Invalid")
                )


def _mutated(mutation: Json, variables: _Variables, obj: Json) -> Json:
    if mutation.get("patchType") == "JSONPatch":
        operations = variables.run(mutation["jsonPatch"]["expression"])
        return json_patch(obj, deep_copy(operations))
    applied = variables.run(mutation["applyConfiguration"]["expression"])
    if not isinstance(applied, dict):
        raise CelError("the apply configuration is not an Object")
    return strategic_patch(obj, applied)


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


def _rules_match(constraints: Json | None, attributes: Attributes) -> bool:
    if not constraints:
        return False
    rules = constraints.get("resourceRules")
    return rules is None or any(_rule_matches(rule, attributes) for rule in rules)


def _rule_matches(rule: Json, attributes: Attributes) -> bool:
    resource = attributes.resource
    operations = rule.get("operations") or ()
    if "*" not in operations and attributes.operation not in operations:
        return False
    if not {"*", resource.group} & set(rule.get("apiGroups") or ()):
        return False
    if not {"*", resource.version} & set(rule.get("apiVersions") or ()):
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


SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_EVICT_AFTER_S = 300
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_LIFE_S = 3607
_CLASSES = "priorityclasses.scheduling.k8s.io"


def check_namespace(store: ObjectStore, attributes: Attributes) -> None:
    """Raises 404 if the namespace does not exist, 403 if it is terminating, or if a system namespace is deleted."""
    if attributes.resource.name == "namespaces":
        if attributes.operation == "DELETE" and attributes.name in _IMMORTAL:
            raise forbidden("", "namespaces", attributes.name, "this namespace may not be deleted")
        return
    if attributes.operation != "CREATE" or not attributes.namespace:
        return
    namespace = store.find("namespaces", "", attributes.namespace)
    if namespace is None:
        raise not_found("", "namespaces", attributes.namespace)
    if namespace["metadata"].get("deletionTimestamp"):
        resource = attributes.resource
        why = (
            f"unable to create new content in namespace {attributes.namespace} because it is being terminated"
        )
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {attributes.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(resource.group, resource.plural, attributes.name, why, [cause])


def resolve_priority(store: ObjectStore, pod: Json) -> None:
    """Set priority and preemptionPolicy from the PriorityClass, or from the global default. Raises 403."""
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    if not name:
        default = next((c for c in store.objects.items(_CLASSES) if c.get("globalDefault")), None)
        found = default
        if default is not None:
            spec["priorityClassName"] = default["metadata"]["name"]
    else:
        found = store.find(_CLASSES, "", name)
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden("", "pods", pod["metadata"].get("name", ""), why)
    value = found.get("value", 0) if found else 0
    policy = (found.get("preemptionPolicy") if found else None) or "PreemptLowerPriority"
    for field, computed in (("priority", value), ("preemptionPolicy", policy)):
        if spec.get(field) not in (None, computed):
            why = f"{field} {spec[field]} is not {computed}, which the PriorityClass gives"
            raise forbidden("", "pods", pod["metadata"].get("name", ""), why)
        spec[field] = computed


def add_default_tolerations(pod: Json) -> None:
    """Add tolerations of not-ready and unreachable nodes for five minutes, unless the pod has its own."""
    tolerations = pod["spec"].get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_covers(t, key) for t in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICT_AFTER_S}
            )
    pod["spec"]["tolerations"] = tolerations


def mount_service_account(pod: Json, suffix: str) -> None:
    """Set the default service account and mount its token, as the ServiceAccount plugin does."""
    spec = pod["spec"]
    account = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    if spec.get("automountServiceAccountToken") is False or "kubernetes.io/config.mirror" in (
        pod["metadata"].get("annotations") or {}
    ):
        return
    name = f"kube-api-access-{suffix}"
    used = False
    for container in [*(spec.get("initContainers") or ()), *spec.get("containers", ())]:
        mounts = container.setdefault("volumeMounts", [])
        if not any(mount.get("mountPath") == _MOUNT_PATH for mount in mounts):
            mounts.append({"name": name, "readOnly": True, "mountPath": _MOUNT_PATH})
            used = True
    if used:
        spec.setdefault("volumes", []).append({"name": name, "projected": _token_sources()})


def _token_sources() -> Json:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_LIFE_S, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }


def taint_new_node(node: Json) -> None:
    """Add the not-ready taint, which the node lifecycle controller removes (TaintNodesByCondition)."""
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    if taint not in taints:
        taints.append(taint)


def _covers(toleration: Json, key: str) -> bool:
    return toleration.get("key") in (key, "", None) and toleration.get("effect") in ("NoExecute", "", None)


def check_global_default(store: ObjectStore, attributes: Attributes, obj: Json) -> None:
    """Raises 403 for a second PriorityClass that is the global default."""
    if not obj.get("globalDefault"):
        return
    for other in store.objects.items(_CLASSES):
        if other.get("globalDefault") and other["metadata"]["name"] != attributes.name:
            why = f"PriorityClass {other['metadata']['name']} is already marked as default. Only one default can exist"
            raise forbidden("scheduling.k8s.io", "priorityclasses", attributes.name, why)


class BuiltinAdmission:
    """The built-in plugins, then the admission policies of the cluster."""

    def __init__(self, store: ObjectStore, policies: PolicyEngine) -> None:
        self._store = store
        self._policies = policies

    def mutate(self, attributes: Attributes, obj: Json) -> Json:
        """The object to store."""
        check_namespace(self._store, attributes)
        new_pod = attributes.resource.name == "pods" and attributes.operation == "CREATE"
        if attributes.resource.name == "pods" and not attributes.subresource:
            add_default_tolerations(obj)
        if new_pod:
            resolve_priority(self._store, obj)
            mount_service_account(obj, self._store.name_suffix())
        if attributes.resource.name == "nodes" and attributes.operation == "CREATE":
            taint_new_node(obj)
        changed = self._policies.mutate(attributes, obj)
        if changed is not obj:
            strategies.default(attributes.resource, changed)
            if new_pod:
                changed["status"] = strategies.new_status(attributes.resource, changed)
        return changed

    def validate(self, attributes: Attributes, obj: Json) -> None:
        """Raises StatusError to reject the request."""
        if attributes.operation == "DELETE":
            check_namespace(self._store, attributes)
        elif attributes.resource.name == _CLASSES:
            check_global_default(self._store, attributes, obj)
        self._policies.validate(attributes, obj)
