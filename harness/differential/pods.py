"""Random pod manifests that exercise every scheduler plugin."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random
from collections.abc import Mapping

from harness.differential.manifests import Manifest
from harness.differential.pod_resources import ResourceMaker
from harness.differential.pod_volumes import random_volumes

NAMESPACES = ("red", "green", "blue")
APPS = ("a", "b", "c")
TOPOLOGY_KEYS = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack")
TAINT_KEYS = ("dedicated", "gpu", "spot")
NUMBERS = ("0", "5", "-5", "005", "9223372036854775807", "9223372036854775808")
"""Values of taints, and of tolerations that compare them."""
SCHEDULERS = ("default-scheduler", "batch-scheduler", "foreign-scheduler")
"""Some configurations have a profile for the second one; nobody has one for the third."""
IMAGES = (
    "registry.example/small:1",
    "registry.example/big:1",
    "registry.example/huge",
    "registry.example:5000/middle",
    "plain",
)


class PodMaker:
    """Makes pods of one random cluster. ``claims``: namespace -> names of claims that pods may use.

    ``theme``: what the cluster is about ("mixed", "spread", "affinity", "volumes", "preferences",
    "attached", "devices", "malformed"); the other constraints are then rare, so that pods get as far as the plugins
    in question.
    """

    def __init__(
        self, rng: random.Random, nodes: list[str], claims: Mapping[str, list[str]], theme: str = "mixed"
    ) -> None:
        self._rng = rng
        self._theme = theme
        self._nodes = nodes
        self._claims = claims
        self._resources = ResourceMaker(rng, theme)

    def pod(self, name: str, *, asked: bool) -> Manifest:
        """One pod; the ``asked`` ones carry more constraints and are mostly pending."""
        rng = self._rng
        namespace = rng.choice(NAMESPACES)
        meta: Manifest = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": self._labels(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        if rng.random() < 0.5:
            app = meta["labels"].get("app", "a")
            kind = rng.choice(
                (("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController"))
            )
            meta["ownerReferences"] = [
                {"apiVersion": kind[0], "kind": kind[1], "name": f"{app}-owner", "uid": f"{app}-owner", "controller": True},
            ]  # fmt: skip
        spec = self._spec(namespace, richness=0.35 if asked else 0.15)
        status: Manifest = {"phase": "Pending"}
        if not asked or rng.random() < 0.25:
            spec["nodeName"] = rng.choice(self._nodes) if rng.random() > 0.02 else "no-such-node"
            status = self._resources.status(spec)
            if rng.random() < 0.1:
                meta["deletionTimestamp"] = "2026-01-01T00:10:00Z"
                meta["deletionGracePeriodSeconds"] = 30
        elif rng.random() < 0.15:
            status["nominatedNodeName"] = rng.choice(self._nodes)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}

    def nominated(self, name: str) -> Manifest:
        """A pending pod that waits for a node, of any priority and sometimes of another scheduler."""
        made = self.pod(name, asked=self._rng.random() < 0.5)
        made["spec"].pop("nodeName", None)
        made["metadata"].pop("deletionTimestamp", None)
        made["metadata"].pop("deletionGracePeriodSeconds", None)
        made["status"] = {"phase": "Pending", "nominatedNodeName": self._rng.choice(self._nodes)}
        if self._rng.random() < 0.4:
            made["spec"]["schedulerName"] = self._rng.choice(SCHEDULERS)
        return made

    def _about(self, theme: str, richness: float) -> float:
        """How often a constraint of a theme stands on a pod."""
        if self._theme in ("mixed", "malformed"):
            return richness
        return 0.8 if self._theme == theme else 0.05

    def _labels(self) -> dict[str, str]:
        rng = self._rng
        labels = {"app": rng.choice(APPS)}
        if rng.random() < 0.4:
            labels["tier"] = rng.choice(("web", "db"))
        if rng.random() < 0.3:
            labels["version"] = rng.choice(("1", "2"))
        if rng.random() < 0.05:
            labels.pop("app")
        return labels

    def _spec(self, namespace: str, *, richness: float) -> Manifest:
        rng = self._rng
        spec: Manifest = {"containers": [self._container(i) for i in range(rng.choice((1, 1, 2)))]}
        if rng.random() < 0.2:
            spec["initContainers"] = [self._init_container(i) for i in range(rng.choice((1, 2, 3)))]
        if rng.random() < 0.1:
            spec["overhead"] = {"cpu": "100m", "memory": "64Mi"}
        if rng.random() < 0.1:
            spec["resources"] = {"requests": self._resources.pod_level()}
        if rng.random() < 0.4:
            spec["priority"] = rng.choice((-5, 0, 0, 10, 1000))
        if rng.random() < 0.5:
            spec["tolerations"] = [self._toleration() for _ in range(rng.choice((1, 1, 2)))]
        self._affinity(spec, richness)
        if rng.random() < self._about("spread", richness):
            spec["topologySpreadConstraints"] = self._spread()
        volumes = random_volumes(
            rng,
            self._claims.get(namespace, []),
            IMAGES,
            chance=0.8 if self._theme == "attached" else self._about("volumes", richness),
            disks={"mixed": 0.1, "volumes": 0.4, "attached": 0.5}.get(self._theme, 0.0),
        )
        if volumes:
            spec["volumes"] = volumes
        if self._theme == "mixed" and rng.random() < 0.03:
            spec["schedulingGates"] = [{"name": "example.com/one"}, {"name": "example.com/two"}][
                : rng.choice((1, 2))
            ]
        if rng.random() < 0.04:
            spec["hostNetwork"] = True
            spec["hostUsers"] = False
        return spec

    def _container(self, index: int) -> Manifest:
        rng = self._rng
        made: Manifest = {"name": f"c{index}", "image": rng.choice(IMAGES)}
        if rng.random() < 0.85:
            made["resources"] = {"requests": self._resources.requests()}
        if rng.random() < 0.15:
            made["ports"] = [self._port()] if self._theme == "mixed" else []
        if rng.random() < 0.02:
            made["volumeMounts"] = [{"name": "m", "mountPath": "/m", "bindMountOptions": ["noexec"]}]
        if rng.random() < 0.02:
            made["restartPolicyRules"] = [
                {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
            ]
        return made

    def _init_container(self, index: int) -> Manifest:
        made = self._container(100 + index)
        if self._rng.random() < 0.5:
            made["restartPolicy"] = "Always"
        return made

    def _port(self) -> Manifest:
        rng = self._rng
        port: Manifest = {"containerPort": 80, "hostPort": rng.choice((8080, 8080, 8081))}
        if rng.random() < 0.5:
            port["protocol"] = rng.choice(("TCP", "UDP"))
        if rng.random() < 0.5:
            port["hostIP"] = rng.choice(("0.0.0.0", "10.0.0.1", "::"))  # noqa: S104 -- a value of the API
        return port

    def _toleration(self) -> Manifest:
        rng = self._rng
        made: Manifest = {"operator": rng.choice(("Equal", "Exists", "Exists"))}
        if rng.random() < 0.8:
            made["key"] = rng.choice((*TAINT_KEYS, "node.kubernetes.io/unschedulable"))
        else:
            made["operator"] = "Exists"
        if made["operator"] == "Equal":
            made["value"] = rng.choice(("yes", "no", ""))
        if rng.random() < 0.5:
            made["effect"] = rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        if self._theme == "malformed" and rng.random() < 0.3:
            made["operator"], made["value"] = rng.choice(("Near", "Gt", "Lt")), rng.choice(("yes", "5"))
        elif rng.random() < 0.1:
            made |= {"key": rng.choice(TAINT_KEYS), "operator": rng.choice(("Gt", "Lt"))}
            made["value"] = rng.choice(NUMBERS)
        return made

    def _affinity(self, spec: Manifest, richness: float) -> None:
        rng = self._rng
        affinity: Manifest = {}
        if rng.random() < self._about("preferences", richness):
            if rng.random() < 0.5:
                spec["nodeSelector"] = {"pool": rng.choice(("x", "y"))}
            else:
                affinity["nodeAffinity"] = self._node_affinity()
        for name in ("podAffinity", "podAntiAffinity"):
            if rng.random() < self._about("affinity", richness):
                affinity[name] = self._pod_affinity()
        if affinity:
            spec["affinity"] = affinity

    def _node_affinity(self) -> Manifest:
        rng = self._rng
        made: Manifest = {}
        if rng.random() < (0.7 if self._theme == "mixed" else 0.2):
            terms = [self._node_term() for _ in range(rng.choice((1, 1, 2)))]
            made["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if rng.random() < 0.7:
            made["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.choice((1, 10, 100)), "preference": self._node_term()}
                for _ in range(rng.choice((1, 2)))
            ]
        return made

    def _node_term(self) -> Manifest:
        rng = self._rng
        kind = rng.random()
        if kind < 0.05:
            return {}
        if kind < 0.2:
            operator = rng.choice(("In", "In", "NotIn"))
            fields = [{"key": "metadata.name", "operator": operator, "values": [rng.choice(self._nodes)]}]
            if rng.random() < 0.1:
                other = [rng.choice(self._nodes)]
                fields.append({"key": "metadata.name", "operator": "In", "values": other})
            return {"matchFields": fields}
        return {"matchExpressions": [self._node_requirement() for _ in range(rng.choice((1, 1, 2)))]}

    def _node_requirement(self) -> Manifest:
        rng = self._rng
        if self._theme == "malformed" and rng.random() < 0.2:
            return self._malformed(rng.choice(("Within", "In", "NotIn", "Exists", "Gt")))
        if rng.random() < 0.25:
            return {
                "key": "size",
                "operator": rng.choice(("Gt", "Lt")),
                "values": [rng.choice(("1", "3", "5", "-1", "08", "99999999999999999999"))],
            }
        key, values = rng.choice(
            (("pool", ["x"]), ("pool", ["x", "y"]), ("topology.kubernetes.io/zone", ["z1"]))
        )
        operator = rng.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        return {"key": key, "operator": operator, "values": values}

    def _pod_affinity(self) -> Manifest:
        rng = self._rng
        made: Manifest = {}
        if rng.random() < 0.5:
            terms = [self._pod_term() for _ in range(rng.choice((1, 1, 2)))]
            made["requiredDuringSchedulingIgnoredDuringExecution"] = terms
        if rng.random() < 0.6:
            made["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.choice((1, 10, 100)), "podAffinityTerm": self._pod_term()}
                for _ in range(rng.choice((1, 2)))
            ]
        return made

    def _pod_term(self) -> Manifest:
        rng = self._rng
        term: Manifest = {"topologyKey": rng.choice(TOPOLOGY_KEYS)}
        selector = self.selector()
        if selector is not None:
            term["labelSelector"] = selector
            if (
                rng.random() < 0.1
            ):  # the API server has merged them into the selector; the scheduler reads that alone
                term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = rng.choice(
                    (["tier"], ["app", "absent"])
                )
        if rng.random() < 0.2:
            term["namespaces"] = rng.sample(NAMESPACES, rng.choice((1, 2)))
        if rng.random() < 0.2:
            term["namespaceSelector"] = rng.choice(
                (
                    {},
                    {"matchLabels": {"team": "one"}},
                    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                )
            )
        return term

    def selector(self) -> Manifest | None:
        """A label selector, now and then an empty or no one."""
        rng = self._rng
        if self._theme == "malformed" and rng.random() < 0.1:
            operator = rng.choice(("Within", "In", "NotIn", "Exists", "Gt"))
            return {"matchExpressions": [self._malformed(operator)]}
        kind = rng.random()
        if kind < 0.05:
            return None
        if kind < 0.12:
            return {}
        if kind < 0.7:
            return {"matchLabels": {"app": rng.choice(APPS)}}
        if kind < 0.8:
            return {"matchLabels": {"app": rng.choice(APPS), "tier": "web"}}
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        expression: Manifest = {"key": rng.choice(("app", "tier")), "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = rng.choice((["a"], ["a", "b"], ["web"]))
        return {"matchExpressions": [expression]}

    def _malformed(self, operator: str) -> Manifest:
        """A requirement with an unknown operator, or with a key or values that no label has."""
        rng = self._rng
        wrong: tuple[Manifest, ...] = (
            {"key": "app", "values": ["{bad}"]},
            {"key": "app", "values": ["a", "x" * 64, "-"]},
            {"key": "app/b/c", "values": ["a"]},
            {"key": "_x/", "values": ["a"]},
            {"key": "", "values": ["1"]},
            {"key": "app"},
            {"key": "app", "values": ["1", "2"]},
        )
        return {"operator": operator, **rng.choice(wrong)}

    def _spread(self) -> list[Manifest]:
        rng = self._rng
        made: list[Manifest] = []
        for key in rng.sample(TOPOLOGY_KEYS, rng.choice((1, 1, 2))):
            hard = rng.random() < 0.6
            constraint: Manifest = {
                "maxSkew": rng.choice((1, 1, 2, 3)),
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            }
            selector = self.selector()
            if selector is not None:
                constraint["labelSelector"] = selector
                if rng.random() < 0.25:
                    constraint["matchLabelKeys"] = rng.choice((["tier", "absent"], ["app"], ["version"]))
            if hard and rng.random() < 0.3:
                constraint["minDomains"] = rng.choice((1, 2, 3, 4))
            if rng.random() < 0.35:
                constraint["nodeAffinityPolicy"] = rng.choice(("Honor", "Ignore"))
            if rng.random() < 0.4:
                constraint["nodeTaintsPolicy"] = rng.choice(("Honor", "Ignore"))
            if self._theme == "malformed" and rng.random() < 0.2:
                constraint[rng.choice(("nodeAffinityPolicy", "nodeTaintsPolicy"))] = "Maybe"
            if self._theme == "malformed" and hard and rng.random() < 0.3:
                constraint[rng.choice(("maxSkew", "minDomains"))] = rng.choice((0, -1))
            made.append(constraint)
        return made
