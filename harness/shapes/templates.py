"""Pod templates with every rule and every way of requesting resources, a few at a time."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Final

from harness.differential.manifests import Manifest
from harness.differential.pod_resources import GPU
from harness.shapes.nodes import HOST, POOL, POOLS, RACK, TAINTED, ZONE

NAMESPACES: Final = {"red": {"team": "one"}, "green": {"team": "two"}, "blue": {"team": "one", "env": "test"}}
"""With their labels."""
PRIORITIES: Final = {"low": -10, "middle": 10, "high": 1000, "patient": 500}
"""PriorityClasses; pods of the last one never preempt others."""
PATIENT: Final = "patient"
_KEYS: Final = (HOST, HOST, ZONE, ZONE, RACK)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_VERSIONS: Final = ("1", "2")


def template_of(rng: random.Random, app: str) -> Manifest:
    """A template of an application with up to four of the shapes."""
    cpu = rng.choice(("0", "50m", "200m", "500m", "900m", "1500m"))
    requests = {"cpu": cpu, "memory": rng.choice(("64Mi", "256Mi", "1Gi", "2Gi"))}
    labels = {"app": app, "tier": rng.choice(("web", "data")), "version": rng.choice(_VERSIONS)}
    made: Manifest = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "plain", "resources": {"requests": requests}}]},
    }
    for shape in rng.sample(SHAPES, rng.choice((0, 1, 1, 2, 2, 3, 4))):
        shape(rng, made, app)
    return made


def _selector(rng: random.Random, app: str) -> Manifest:
    """Mostly the pods of the application itself; or others; or a part of them, so that the pod does not select itself."""
    kind = rng.random()
    if kind < 0.6:
        return {"matchLabels": {"app": app}}
    if kind < 0.75:
        return {"matchLabels": {"tier": rng.choice(("web", "data"))}}
    if kind < 0.85:
        return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]}
    return {"matchLabels": {"app": app, "version": rng.choice(_VERSIONS)}}


def _spread(rng: random.Random, made: Manifest, app: str) -> None:
    found = made["spec"].setdefault("topologySpreadConstraints", [])
    hard, key = rng.random() < 0.6, rng.choice(_KEYS)
    when = "DoNotSchedule" if hard else "ScheduleAnyway"
    if any((one["topologyKey"], one["whenUnsatisfiable"]) == (key, when) for one in found):
        return
    constraint: Manifest = {
        "maxSkew": rng.choice((1, 1, 2, 5)),
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": _selector(rng, app),
    }
    if hard and rng.random() < 0.3:
        constraint["minDomains"] = rng.choice((1, 2, 3, 5))
    if rng.random() < 0.3:
        constraint["matchLabelKeys"] = [rng.choice(("version", "pod-template-hash", "absent"))]
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if rng.random() < 0.4:
            constraint[policy] = rng.choice(("Honor", "Ignore"))
    found.append(constraint)


def _term(rng: random.Random, app: str) -> Manifest:
    term: Manifest = {"topologyKey": rng.choice(_KEYS), "labelSelector": _selector(rng, app)}
    kind = rng.random()
    if kind < 0.15:
        term["namespaces"] = rng.sample(sorted(NAMESPACES), 2)
    elif kind < 0.4:
        term["namespaceSelector"] = rng.choice(
            ({}, {"matchLabels": {"team": "one"}}, {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}),
        )  # fmt: skip
    if rng.random() < 0.3:
        keys = rng.choice(("matchLabelKeys", "mismatchLabelKeys"))
        term[keys] = [rng.choice(("version", "pod-template-hash"))]
    return term


def _together_or_apart(rng: random.Random, made: Manifest, app: str) -> None:
    side = (
        made["spec"]
        .setdefault("affinity", {})
        .setdefault(rng.choice(("podAntiAffinity", "podAntiAffinity", "podAffinity")), {})
    )
    if rng.random() < 0.7:
        side.setdefault(_REQUIRED, []).append(_term(rng, app))
    else:
        wish = {"weight": rng.choice((1, 20, 100)), "podAffinityTerm": _term(rng, app)}
        side.setdefault(_PREFERRED, []).append(wish)


def _nodes(rng: random.Random, made: Manifest, _app: str) -> None:
    spec, pool = made["spec"], rng.choice(POOLS)
    if rng.random() < 0.3:
        spec["nodeSelector"] = {POOL: pool}
        return
    key, values = rng.choice(((POOL, [pool]), (ZONE, ["a", "b"]), (RACK, ["r"]), (RACK, ["r", "s"])))
    operator = rng.choice(("In", "In", "NotIn"))
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    if rng.random() < 0.5:
        affinity[_REQUIRED] = {"nodeSelectorTerms": [term]}
    else:
        affinity.setdefault(_PREFERRED, []).append({"weight": rng.choice((1, 10, 100)), "preference": term})


def _tolerates(rng: random.Random, made: Manifest, _app: str) -> None:
    toleration: Manifest = {"key": rng.choice(TAINTED), "operator": "Exists"}
    if rng.random() < 0.4:
        toleration["effect"] = rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
    made["spec"].setdefault("tolerations", []).append(toleration)


def _main(made: Manifest) -> Manifest:
    found: Manifest = made["spec"]["containers"][0]
    return found


def _port(rng: random.Random, made: Manifest, _app: str) -> None:
    port = {"containerPort": 80, "hostPort": rng.choice((8080, 8081))}
    _main(made)["ports"] = [port]


def _devices(rng: random.Random, made: Manifest, _app: str) -> None:
    requests = _main(made)["resources"]["requests"]
    requests[GPU] = rng.choice(("1", "1", "2"))
    _main(made)["resources"]["limits"] = {GPU: requests[GPU]}


def _scratch(rng: random.Random, made: Manifest, _app: str) -> None:
    _main(made)["resources"]["requests"]["ephemeral-storage"] = rng.choice(("1Gi", "4Gi"))


def _begins(rng: random.Random, made: Manifest, _app: str) -> None:
    """A sidecar before an init container that needs much."""
    sidecar: Manifest = {"name": "proxy", "image": "plain", "restartPolicy": "Always"}
    sidecar["resources"] = {"requests": {"cpu": rng.choice(("50m", "300m")), "memory": "64Mi"}}
    first = {"name": "load", "image": "plain", "resources": {"requests": {"cpu": rng.choice(("100m", "2"))}}}
    made["spec"]["initContainers"] = [sidecar, first] if rng.random() < 0.5 else [first, sidecar]


def _overhead(_rng: random.Random, made: Manifest, _app: str) -> None:
    made["spec"]["overhead"] = {"cpu": "150m", "memory": "128Mi"}


def _whole_pod(rng: random.Random, made: Manifest, _app: str) -> None:
    amount = {"cpu": rng.choice(("300m", "1800m")), "memory": "3Gi"}
    made["spec"]["resources"] = {"requests": amount}


def _claims_devices(_rng: random.Random, made: Manifest, _app: str) -> None:
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]


def _priority(rng: random.Random, made: Manifest, _app: str) -> None:
    name = rng.choice(sorted(PRIORITIES))
    made["spec"]["priorityClassName"] = name
    if name == PATIENT:
        made["spec"]["preemptionPolicy"] = "Never"


def _empty_dir(_rng: random.Random, made: Manifest, _app: str) -> None:
    made["spec"].setdefault("volumes", []).append({"name": "scratch", "emptyDir": {}})


Shape = Callable[[random.Random, Manifest, str], None]

SHAPES: Final[tuple[Shape, ...]] = (
    *(_spread, _spread, _spread, _together_or_apart, _together_or_apart, _together_or_apart),
    *(_spread, _together_or_apart, _nodes, _nodes, _nodes, _tolerates, _tolerates, _tolerates),
    *(_port, _devices, _scratch, _begins, _overhead, _whole_pod, _priority, _priority, _empty_dir),
    _claims_devices,
)
"""What a template may have, those more than once that most plans are about."""


def _another_size(rng: random.Random, made: Manifest, _app: str) -> None:
    size = {"cpu": rng.choice(("10m", "500m", "1500m", "3")), "memory": rng.choice(("32Mi", "512Mi", "3Gi"))}
    _main(made)["resources"]["requests"] |= size


def _another_version(rng: random.Random, made: Manifest, _app: str) -> None:
    """Words among them that a dump must quote."""
    made["metadata"]["labels"]["version"] = rng.choice(
        (*_VERSIONS, "2e832088", "1e5", "0x1f", "yes", "1_000")
    )


def _other_constraints(rng: random.Random, made: Manifest, app: str) -> None:
    made["spec"].pop("topologySpreadConstraints", None)
    made["spec"].pop("affinity", None)
    rng.choice((_spread, _together_or_apart))(rng, made, app)


def _no_tolerations(_rng: random.Random, made: Manifest, _app: str) -> None:
    made["spec"].pop("tolerations", None)


def _named_node(rng: random.Random, made: Manifest, _app: str) -> None:
    if rng.random() < 0.3:
        made["spec"]["nodeName"] = "n0"


_CHANGES: Final[tuple[Shape, ...]] = (
    *(_another_size, _another_size, _another_version, _other_constraints, _other_constraints),
    *(_nodes, _tolerates, _no_tolerations, _port, _priority, _named_node),
)


def changed(rng: random.Random, template: Manifest, app: str) -> Manifest:
    """The template after a change or two that people make of it; its labels ``app`` and ``own`` stay."""
    made = copy.deepcopy(template)
    for change in rng.sample(_CHANGES, rng.choice((1, 1, 2))):
        change(rng, made, app)
    return made
