"""Waits until an API server goes by the admission policies that it was given, and serves the new kinds.

An API server takes new policies and bindings in beside its requests, all of them about once a second (seen on 1.37); what
it admits before is judged without them. It reads each kind of object in order: once two probes, created after all others, are
in force, so are the others. Lists of a new kind are refused with 429 while its storage begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from harness.controlplane.api import Answer, Api, Json

LIMIT_S: Final = 120.0
_PAUSE_S: Final = 0.05
_UNAVAILABLE: Final = 503
_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
_NAME: Final = "in-force-probe"
_COLLECTION: Final = "/api/v1/namespaces/default/configmaps"
_MARK: Final = "in-force"
_MATCH: Final[Json] = {
    "resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    ]
}
_ONLY_OURS: Final[list[Json]] = [{"name": "ours", "expression": f"object.metadata.name == '{_NAME}'"}]
_SPECS: Final[dict[str, Json]] = {
    "Validating": {"validations": [{"expression": "false", "message": _MARK}]},
    "Mutating": {
        "reinvocationPolicy": "Never",
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {
                    "expression": f'[JSONPatch{{op: "add", path: "/data", value: {{"{_MARK}": "x"}}}}]'
                },
            }
        ],
    },
}


def wait_until_in_force(api: Api, objects: list[Json]) -> None:
    """Returns once the policies among ``objects``, which were applied before, are in force. AssertionError after LIMIT_S."""
    kinds = {obj["kind"] for obj in objects}
    seen: dict[str, Callable[[], bool]] = {
        "Mutating": lambda: _MARK in (_tried(api).expect(201).body.get("data") or {}),
        "Validating": lambda: not _tried(api).ok,
    }
    for way, in_force in seen.items():
        if f"{way}AdmissionPolicy" in kinds:
            _wait(api, way, in_force)


def wait_until_served(api: Api, objects: list[Json]) -> None:
    """Returns once each CustomResourceDefinition among ``objects`` is served in all its versions. AssertionError after LIMIT_S."""
    limit_s = time.monotonic() + LIMIT_S
    for definition, base in _served(objects):
        path = f"/apis/{base}/{definition['names']['plural']}"
        _poll(partial(_is_served, api, path), f"{path} is not served", limit_s)


def wait_until_mutated(api: Api, objects: list[Json]) -> None:
    """Returns once objects of the new kinds can be created. AssertionError after LIMIT_S.

    While policies mutate them, an API server refuses them with 503 until it has read their schemas, after they are served.
    """
    limit_s = time.monotonic() + LIMIT_S
    for definition, base in _served(objects):
        scope = "namespaces/default/" if definition["scope"] == "Namespaced" else ""
        path = f"/apis/{base}/{scope}{definition['names']['plural']}"
        body = {"apiVersion": base, "kind": definition["names"]["kind"], "metadata": {"name": _NAME}}
        _poll(partial(_takes, api, path, body), f"{path} takes no objects", limit_s)


def _served(objects: list[Json]) -> Iterator[tuple[Json, str]]:
    """The spec of each CustomResourceDefinition with each group and version that it serves."""
    for spec in (obj["spec"] for obj in objects if obj["kind"] == "CustomResourceDefinition"):
        for version in (version["name"] for version in spec["versions"] if version["served"]):
            yield spec, f"{spec['group']}/{version}"


def _is_served(api: Api, path: str) -> bool:
    return api.get(path).ok


def _takes(api: Api, path: str, body: Json) -> bool:
    # Any other refusal is one of validation, which comes later.
    return api.create(path, body, dryRun="All").status != _UNAVAILABLE


def _poll(reached: Callable[[], bool], otherwise: str, limit_s: float) -> None:
    while not reached():
        if time.monotonic() > limit_s:
            raise AssertionError(f"{otherwise} after {LIMIT_S:.0f} s")
        time.sleep(_PAUSE_S)


def _wait(api: Api, way: str, in_force: Callable[[], bool]) -> None:
    spec: Json = {"failurePolicy": "Fail", "matchConstraints": _MATCH, "matchConditions": _ONLY_OURS}
    binding: Json = {"policyName": _NAME}
    if way == "Validating":
        binding["validationActions"] = ["Deny"]
    policies = f"{_GROUP}/{way.lower()}admissionpolicies"
    bindings = f"{_GROUP}/{way.lower()}admissionpolicybindings"
    api.create(policies, {"metadata": {"name": _NAME}, "spec": spec | _SPECS[way]}).expect(201)
    api.create(bindings, {"metadata": {"name": _NAME}, "spec": binding}).expect(201)
    try:
        _poll(in_force, f"{way}AdmissionPolicies are not in force", time.monotonic() + LIMIT_S)
    finally:
        api.delete(f"{bindings}/{_NAME}").expect()
        api.delete(f"{policies}/{_NAME}").expect()


def _tried(api: Api) -> Answer:
    return api.create(_COLLECTION, {"metadata": {"name": _NAME}}, dryRun="All")
