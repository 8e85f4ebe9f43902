"""Random pod templates whose pods are easily placed badly, and the changes that people make to them."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import copy
import random
from collections.abc import Callable

from harness.differential.manifests import Manifest
from harness.differential.plans.nodes import HOST, RACK, TAINTS, ZONE
from harness.differential.pod_resources import GPU
from harness.differential.pods import PodMaker

APPS = ("a", "b", "c", "d")
PRIORITIES = {"low": -10, "middle": 10, "high": 1000}
"""Values of the PriorityClasses that templates name."""
FOCUSES = ("mixed", "spread", "apart", "together", "taints", "load")
_KEYS = (HOST, ZONE, ZONE, RACK)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_VERSIONS = ("1", "2", "2e832088", "1e5", "0x1f", "yes", "1_000")


class TemplateMaker:
    """Makes pod templates of one cluster. ``focus``: what most of its templates ask for.

    ``wild``: makes the pods whose verdicts are compared, with rules of every plugin; None for templates with ordinary ones.
    """

    def __init__(self, rng: random.Random, focus: str, wild: PodMaker | None = None) -> None:
        self._rng = rng
        self._focus = focus
        self._wild = wild
        self._changes: tuple[Callable[[Manifest, str], None], ...] = (
            self._lose_tolerations,
            self._change_size,
            self._change_size,
            self._change_version,
            self._change_constraints,
            self._change_pool,
            self._add_port,
            self._change_priority,
            self._name_a_node,
        )

    def template(self, app: str) -> Manifest:
        """A template for the pods of an application."""
        rng = self._rng
        if self._wild is not None and rng.random() < 0.7:
            return self._like(self._wild.pod("template", asked=True), app)
        spec: Manifest = {"containers": [self._container(i) for i in range(rng.choice((1, 1, 2)))]}
        made = {"metadata": {"labels": self._labels(app)}, "spec": spec}
        if self._asks("taints"):
            spec["tolerations"] = [self._toleration() for _ in range(rng.choice((1, 1, 2)))]
        self._constrain(made, app)
        if rng.random() < 0.25:
            self._change_pool(made, app)
        if rng.random() < 0.06:
            self._add_port(made, app)
        if rng.random() < 0.3:
            self._change_priority(made, app)
        return made

    def _like(self, pod: Manifest, app: str) -> Manifest:
        pod["spec"].pop("nodeName", None)
        for container in pod["spec"]["containers"]:
            container.setdefault("resources", {"requests": {}})
        return {"metadata": {"labels": {**pod["metadata"]["labels"], "app": app}}, "spec": pod["spec"]}

    def changed(self, template: Manifest, app: str) -> Manifest:
        """The template after a change or two; its ``app`` label stays."""
        made = copy.deepcopy(template)
        for change in self._rng.sample(self._changes, self._rng.choice((1, 1, 2))):
            change(made, app)
        return made

    def _asks(self, what: str) -> bool:
        chance = 0.35 if self._focus == "mixed" else 0.85 if self._focus == what else 0.12
        return self._rng.random() < chance

    def _labels(self, app: str) -> dict[str, str]:
        rng = self._rng
        labels = {"app": app}
        if rng.random() < 0.4:
            labels["tier"] = rng.choice(("web", "db"))
        if rng.random() < 0.5:
            labels["version"] = rng.choice(_VERSIONS)
        return labels

    def _container(self, index: int) -> Manifest:
        rng = self._rng
        cpu = rng.choice(
            ("0", "100m", "250m", "500m", "1", "2") if self._focus == "load" else ("50m", "200m", "1")
        )
        requests = {"cpu": cpu, "memory": rng.choice(("64Mi", "256Mi", "1Gi", "2Gi"))}
        if rng.random() < 0.08:
            requests[GPU] = "1"
        if rng.random() < 0.1:
            del requests[rng.choice(("cpu", "memory"))]
        return {"name": f"c{index}", "image": "plain", "resources": {"requests": requests}}

    def _toleration(self) -> Manifest:
        rng = self._rng
        key, value = rng.choice(TAINTS)
        if rng.random() < 0.2:
            return {"operator": "Exists"}
        made: Manifest = {"key": key, "operator": "Exists"}
        if rng.random() < 0.5:
            made = {"key": key, "operator": "Equal", "value": value}
        if rng.random() < 0.4:
            made["effect"] = rng.choice(("NoSchedule", "NoExecute"))
        return made

    def _constrain(self, template: Manifest, app: str) -> None:
        spec, affinity = template["spec"], {}
        if self._asks("spread"):
            spec["topologySpreadConstraints"] = self._spread(app)
        if self._asks("apart"):
            affinity["podAntiAffinity"] = self._terms(app)
        if self._asks("together"):
            affinity["podAffinity"] = self._terms(app)
        if affinity:
            spec.setdefault("affinity", {}).update(affinity)

    def _terms(self, app: str) -> Manifest:
        rng = self._rng
        made: Manifest = {}
        if rng.random() < 0.8:
            made[_REQUIRED] = [self._term(app) for _ in range(rng.choice((1, 1, 1, 2)))]
        if not made or rng.random() < 0.2:
            made[_PREFERRED] = [{"weight": rng.choice((1, 50)), "podAffinityTerm": self._term(app)}]
        return made

    def _term(self, app: str) -> Manifest:
        rng = self._rng
        term: Manifest = {"topologyKey": rng.choice(_KEYS), "labelSelector": self._selector(app)}
        if rng.random() < 0.15:
            term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = [
                rng.choice(("version", "pod-template-hash"))
            ]
        if rng.random() < 0.1:
            term["namespaceSelector"] = {}
        return term

    def _selector(self, app: str) -> Manifest:
        """Selects the pods of the application itself, more often than others."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.7:
            return {"matchLabels": {"app": app}}
        if kind < 0.8:
            return {"matchLabels": {"app": rng.choice(APPS)}}
        if kind < 0.9:
            return {"matchLabels": {"app": app, "tier": "web"}}
        operator = rng.choice(("Exists", "DoesNotExist"))
        return {"matchExpressions": [{"key": rng.choice(("tier", "version")), "operator": operator}]}

    def _spread(self, app: str) -> list[Manifest]:
        rng = self._rng
        made: list[Manifest] = []
        for key in rng.sample((HOST, ZONE, RACK), rng.choice((1, 1, 2))):
            hard = rng.random() < 0.8
            constraint: Manifest = {
                "maxSkew": rng.choice((1, 1, 2)),
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
                "labelSelector": self._selector(app),
            }
            if rng.random() < 0.3:
                constraint["matchLabelKeys"] = [rng.choice(("version", "pod-template-hash", "tier"))]
            if hard and rng.random() < 0.25:
                constraint["minDomains"] = rng.choice((2, 3, 4))
            if rng.random() < 0.3:
                constraint["nodeAffinityPolicy"] = rng.choice(("Honor", "Ignore"))
            if rng.random() < 0.3:
                constraint["nodeTaintsPolicy"] = rng.choice(("Honor", "Ignore"))
            made.append(constraint)
        return made

    def _lose_tolerations(self, template: Manifest, _app: str) -> None:
        if template["spec"].pop("tolerations", None) is None:
            template["spec"]["tolerations"] = [self._toleration()]

    def _change_size(self, template: Manifest, _app: str) -> None:
        requests = template["spec"]["containers"][0]["resources"]["requests"]
        requests["cpu"] = self._rng.choice(("10m", "500m", "1500m", "3"))
        requests["memory"] = self._rng.choice(("32Mi", "512Mi", "3Gi"))

    def _change_version(self, template: Manifest, _app: str) -> None:
        template["metadata"]["labels"]["version"] = self._rng.choice(_VERSIONS)
        if self._rng.random() < 0.3:
            template["metadata"]["labels"].pop("tier", None)

    def _change_constraints(self, template: Manifest, app: str) -> None:
        template["spec"].pop("topologySpreadConstraints", None)
        template["spec"].pop("affinity", None)
        self._constrain(template, app)

    def _change_pool(self, template: Manifest, _app: str) -> None:
        rng, spec = self._rng, template["spec"]
        if rng.random() < 0.4:
            spec["nodeSelector"] = {"pool": rng.choice(("x", "y"))}
            return
        values = rng.choice((["x"], ["y"], ["x", "z"]))
        term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": values}]}
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        if rng.random() < 0.6:
            affinity[_REQUIRED] = {"nodeSelectorTerms": [term]}
        else:
            affinity[_PREFERRED] = [{"weight": 10, "preference": term}]

    def _add_port(self, template: Manifest, _app: str) -> None:
        port = self._rng.choice((8080, 8081))
        template["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": port}]

    def _name_a_node(self, template: Manifest, _app: str) -> None:
        if self._rng.random() < 0.3:
            template["spec"]["nodeName"] = "node-0"

    def _change_priority(self, template: Manifest, _app: str) -> None:
        template["spec"]["priorityClassName"] = self._rng.choice(list(PRIORITIES))
