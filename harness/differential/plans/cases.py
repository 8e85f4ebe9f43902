"""Random clusters whose pods stand badly, and how a plan is asked for on them: policies, modes, limits."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import msgspec

from harness.differential.configurations import random_configuration
from harness.differential.manifests import Manifest, metadata, namespaced
from harness.differential.plans.births import Admission
from harness.differential.plans.controllers import Controllers, bound, ending
from harness.differential.plans.dumps import Form
from harness.differential.plans.nodes import ZONE, Site, random_sites, wild_sites
from harness.differential.plans.templates import FOCUSES, PRIORITIES, TemplateMaker
from harness.differential.plans.workloads import NAMESPACES, Made, WorkloadMaker
from harness.differential.pod_resources import GPU
from harness.differential.pods import PodMaker
from harness.differential.storage import StorageMaker
from rescheduler.model.migration import MoveMode
from rescheduler.model.resources import milli, units
from rescheduler.planning.limits import PlanningInputs, Protections, limits_for
from rescheduler.policies.framework import Policy
from rescheduler.policies.registry import REGISTRY

_WILD = ("mixed", "spread", "affinity", "volumes", "attached", "preferences", "devices")
"""Themes of clusters with rules of every plugin."""
_MODES = ("ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_OWN = ("data-", *(f"{mode.lower()}-" for mode in _MODES))
"""Names of the claims that workloads bring with them begin so."""
_CLAIM = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "wait"}


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


def random_case(seed: int) -> Case:
    """The case of a seed; the same seed gives the same case."""
    rng = random.Random(seed)  # noqa: S311 -- test data, not secrets
    sites, storage, templates = _ground(rng)
    admission = _admission(rng)
    before = replace(admission, sidecars={}) if rng.random() < 0.3 else admission
    maker = WorkloadMaker(rng, templates, admission, before)
    made = [maker.workload(number) for number in range(rng.choice((3, 5, 8, 12)))]
    objects: list[Manifest] = [site.manifest for site in sites]
    objects.extend(_classes_and_namespaces(rng, admission))
    objects.extend(storage)
    claims: dict[str, Manifest] = {}
    for workload in made:
        objects.extend(workload.objects)
        for pod in workload.pods:
            site = _place(rng, pod, sites)
            running = _live(rng, pod, site)
            if site is not None and rng.random() < 0.04:
                running = _moved_before(running, site.name, Controllers(workload.objects, admission))
            objects.append(running)
            for item in _claims(rng, pod, site, workload):
                claims.setdefault(item["metadata"]["uid"], item)
        objects.extend(_budget(rng, workload))
    objects.extend(claims.values())
    mode = rng.choice((MoveMode.AUTO, MoveMode.RESERVE_FIRST, MoveMode.START_FIRST, MoveMode.START_FIRST))
    inputs, form = _inputs(rng, mode), rng.choice((Form.OBJECTS, Form.OBJECTS, *Form))
    return Case(objects, admission, random_configuration(rng), _policies(rng), inputs, form)


def _ground(rng: random.Random) -> tuple[list[Site], list[Manifest], TemplateMaker]:
    """Nodes, storage and templates: ordinary ones, or those of the clusters that verdicts are compared on."""
    if rng.random() < 0.7:
        return random_sites(rng), [], TemplateMaker(rng, rng.choice(FOCUSES))
    theme = rng.choice(_WILD)
    sites = wild_sites(rng, theme)
    names, claims = [site.name for site in sites], dict[str, list[str]]()
    storage = StorageMaker(rng, names, theme).objects(claims)
    wild = PodMaker(rng, names, claims, theme)
    # One class of the same name comes with all clusters.
    others = [
        item for item in storage if (item["kind"], item["metadata"]["name"]) != ("StorageClass", "wait")
    ]
    return sites, others, TemplateMaker(rng, rng.choice(FOCUSES), wild)


def _admission(rng: random.Random) -> Admission:
    requests = {"cpu": rng.choice(("10m", "100m", "500m")), "memory": "64Mi"}
    sidecar = {"name": "sidecar", "image": "plain", "resources": {"requests": requests}}
    return Admission(
        priorities=PRIORITIES,
        sidecars={NAMESPACES[0]: sidecar} if rng.random() < 0.15 else {},
        tolerations={NAMESPACES[1]: {"key": "spot", "operator": "Exists"}} if rng.random() < 0.1 else {},
        default_class=rng.choice(list(PRIORITIES)) if rng.random() < 0.15 else "",
    )


def _classes_and_namespaces(rng: random.Random, admission: Admission) -> list[Manifest]:
    made: list[Manifest] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": metadata(name, labels={"team": rng.choice(("one", "two"))}),
        }
        for name in NAMESPACES
    ]
    for name, value in PRIORITIES.items():
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata(name)}
        made.append({**head, "value": value, "globalDefault": name == admission.default_class})
    wait = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata("wait")}
    wait |= {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    return [*made, wait]


def _place(rng: random.Random, pod: Manifest, sites: list[Site]) -> Site | None:
    """A node with room for the pod, whatever else its rules are; None if there is none, or now and then."""
    containers = pod["spec"]["containers"]
    cpu = sum(milli(c["resources"]["requests"].get("cpu", "0")) for c in containers)
    memory = sum(units(c["resources"]["requests"].get("memory", "0")) for c in containers)
    ports = {port["hostPort"] for c in containers for port in c.get("ports", ())}
    devices = sum(int(c["resources"]["requests"].get(GPU, "0")) for c in containers)
    fit = [
        site
        for site in sites
        if site.cpu_milli >= cpu
        and site.memory_bytes >= memory
        and site.pods > 0
        and not ports & site.ports
        and site.devices >= devices
    ]
    if not fit or rng.random() < 0.04:
        return None
    site = rng.choices(fit, [one.weight for one in fit])[0]
    site.cpu_milli -= cpu
    site.memory_bytes -= memory
    site.pods -= 1
    site.devices -= devices
    site.ports |= ports
    return site


def _live(rng: random.Random, pod: Manifest, site: Site | None) -> Manifest:
    """The pod runs on its node, or waits for one; few end, few belong to another scheduler."""
    if rng.random() < (0.02 if site is not None else 0.1):
        pod["spec"]["schedulerName"] = "another-scheduler"
    if site is None:
        if rng.random() < 0.5:
            pod["status"]["nominatedNodeName"] = f"node-{rng.randint(0, 5)}"
        return pod
    ready = {"type": "Ready", "status": "True" if rng.random() < 0.95 else "False"}
    found = bound(pod, site.name)
    found["status"]["conditions"] = [{**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    return ending(found) if rng.random() < 0.03 else found


def _moved_before(pod: Manifest, node: str, controllers: Controllers) -> Manifest:
    """The pod as it would be if mode StartFirst had brought it to its node; as it is if that mode does not move it."""
    meta = pod["metadata"]
    if meta["ownerReferences"][0]["kind"] != "ReplicaSet":
        return pod
    found = bound(controllers.adopted(controllers.started_first(pod, node), pod), node)
    found["metadata"] |= {"name": meta["name"], "uid": meta["uid"]}
    return {**found, "status": pod["status"]}


def _claims(rng: random.Random, pod: Manifest, site: Site | None, workload: Made) -> Iterable[Manifest]:
    """The claims that a pod uses, bound to volumes that can be used where it stands."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if not name.startswith(_OWN):
            continue
        owner = workload.objects[0]["spec"] if workload.objects else {}
        templates: list[Manifest] = owner.get("volumeClaimTemplates") or []
        modes = [mode for mode in _MODES if name.startswith(mode.lower())]
        spec = templates[0]["spec"] if not modes else {**_CLAIM, "accessModes": modes[-1:]}
        claim = namespaced("v1", "PersistentVolumeClaim", namespace, name, dict(spec))
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        claim["spec"]["volumeName"] = f"{namespace}-{name}"
        claim["status"] = {"phase": "Bound"}
        reference = {"namespace": namespace, "name": name, "uid": claim["metadata"]["uid"]}
        found: Manifest = {
            "capacity": {"storage": "1Gi"},
            "accessModes": spec["accessModes"],
            "storageClassName": "wait",
            "csi": {"driver": "one.csi.example", "volumeHandle": name},
            "claimRef": reference,
        }
        if site is not None and site.zone and rng.random() < 0.5:
            near = {"key": ZONE, "operator": "In", "values": [site.zone]}
            found["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [near]}]}}
        head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata(f"{namespace}-{name}")}
        yield claim
        yield {**head, "spec": found, "status": {"phase": "Bound"}}


def _budget(rng: random.Random, workload: Made) -> Iterable[Manifest]:
    if not workload.objects or rng.random() > 0.25:
        return
    owner = workload.objects[0]
    labels = owner["spec"]["template"]["metadata"]["labels"]
    selector = {key: value for key, value in labels.items() if key in ("set", "deployment")}
    meta = owner["metadata"]
    budget = namespaced(
        "policy/v1",
        "PodDisruptionBudget",
        meta["namespace"],
        f"{meta['name']}-budget",
        {"selector": {"matchLabels": selector}},
    )
    budget["metadata"]["generation"] = 1
    pods = len(workload.pods)
    allowed = rng.choice((0, 1, pods))
    budget["status"] = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": pods,
        "desiredHealthy": max(0, pods - allowed),
        "expectedPods": pods,
    }
    yield budget


def _policies(rng: random.Random) -> list[Policy]:
    """All policies, with random arguments; now and then some are missing or in another order."""
    names = list(REGISTRY)
    if rng.random() < 0.3:
        rng.shuffle(names)
    low, high = rng.choice(((20.0, 50.0), (40.0, 60.0), (60.0, 70.0)))
    given: dict[str, dict[str, object]] = {
        "NodeTaints": {"includePreferNoSchedule": rng.random() < 0.5},
        "NodeAffinity": {"types": rng.choice((("required",), ("required", "preferred"), ("score",)))},
        "TopologySpread": {
            "constraints": rng.choice((("DoNotSchedule",), ("DoNotSchedule", "ScheduleAnyway")))
        },
        "LowNodeUtilization": {
            "thresholds": {"cpu": low, "memory": low},
            "targetThresholds": {"cpu": high, "memory": high},
        },
        "HighNodeUtilization": {"thresholds": {"cpu": rng.choice((10.0, 20.0, 40.0))}},
    }
    return [REGISTRY[name].build(msgspec.convert(given.get(name, {}), REGISTRY[name].args)) for name in names]


def _inputs(rng: random.Random, mode: MoveMode) -> PlanningInputs:
    level = rng.choice((0.0, 0.5, 0.5, 1.0, 1.0, 1.0))
    modes = {"NodeTaints": rng.choice((MoveMode.START_FIRST, MoveMode.RESERVE_FIRST))}
    return PlanningInputs(
        limits=limits_for(level),
        protections=Protections(persistent_volumes=rng.random() < 0.4),
        aggressiveness=level,
        mode=mode,
        modes=modes if rng.random() < 0.3 else {},
        unlimited=rng.random() < 0.8,
    )
