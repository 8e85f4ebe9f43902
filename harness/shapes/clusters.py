"""A whole cluster of a seed, and how a plan is asked for on it."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random

import msgspec

from harness.differential.configurations import random_configuration
from harness.differential.manifests import Manifest, metadata
from harness.differential.plans.births import Admission
from harness.differential.plans.case import Case
from harness.differential.plans.controllers import bound, ending
from harness.differential.plans.dumps import Form
from harness.differential.pod_resources import GPU
from harness.shapes.ageing import Ageing
from harness.shapes.nodes import Site, drivers, random_sites
from harness.shapes.policies import random_inputs, random_policies
from harness.shapes.rare import Rare
from harness.shapes.templates import NAMESPACES, PATIENT, PRIORITIES
from harness.shapes.workloads import budgets, claims, count, workload
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.records import Pod

_REFUSED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/6 nodes are available: 6 Insufficient cpu.",
    "lastTransitionTime": "1969-12-31T23:00:00Z",
}
"""Long before the time of the snapshots, which is 0."""


def random_shapes(seed: int, *, tight: bool = False, aged: bool = False, rare: bool = False) -> Case:
    """The case of a seed; the same for the same arguments.

    ``tight``: nodes are full, and more pods wait. ``aged``: what comes back for a pod is often another pod than it is.
    ``rare``: with what few clusters have.
    """
    rng = random.Random(seed)  # noqa: S311 -- test data, not secrets
    age, few = Ageing(seed) if aged else None, Rare(seed) if rare else None
    sites, admission = random_sites(rng), age.admission if age else Admission(priorities=PRIORITIES)
    objects: list[Manifest] = [site.manifest for site in sites]
    objects.extend(drivers(rng, sites))
    objects.extend(few.objects(sites) if few else ())
    objects.extend(_kinds(admission))
    counted: list[Manifest] = []
    pods: list[Manifest] = []
    claimed: set[str] = set()
    for number in range(rng.choice((18, 26) if tight else (3, 6, 9, 14))):
        made = workload(rng, number, sites)
        if age:
            age.change(made)
        objects.extend(few.change(made) if few else ())
        if age:
            age.admit(made.pods)
        else:
            for pod in made.pods:
                admission.admit(pod)
        objects.extend(made.objects)
        counted.extend(budgets(rng, made))
        for pod in made.pods:
            site = _place(rng, pod, sites, tight=tight)
            for claim in claims(rng, pod, site):
                if claim["metadata"]["uid"] not in claimed:
                    objects.append(claim)
                claimed.add(claim["metadata"]["uid"])
            live = _live(rng, pod, site)
            pods.append(age.moved_before(live, made.objects) if age else live)
    for budget in counted:
        count(budget, pods)
    configuration = random_configuration(rng) if rng.random() < 0.3 else None
    objects += [*(few.lived(objects, pods) if few else pods), *counted]
    policies, inputs, form = random_policies(rng), random_inputs(rng), Form.OBJECTS
    if age:
        policies, inputs, form = age.policies(policies), age.inputs(inputs), age.form()
    return Case(objects, admission, configuration, policies, inputs, form)


def _kinds(admission: Admission) -> list[Manifest]:
    made: list[Manifest] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name, labels=dict(labels))}
        for name, labels in NAMESPACES.items()
    ]
    for name, value in PRIORITIES.items():
        head: Manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        head["metadata"] = metadata(name)
        if name == admission.default_class:
            head["globalDefault"] = True
        made.append({**head, "value": value, **({"preemptionPolicy": "Never"} if name == PATIENT else {})})
    wait = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata("wait")}
    made.append(
        {**wait, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    )
    return made


def _place(rng: random.Random, pod: Manifest, sites: list[Site], *, tight: bool) -> Site | None:
    """A node with room for the pod, whatever its rules say; None if there is none, or now and then."""
    record = Decoder().record(Kind.POD, msgspec.json.encode(pod))
    if not isinstance(record, Pod):
        raise TypeError(pod)
    requests = record.spec.requests
    ports = {p["hostPort"] for c in pod["spec"]["containers"] for p in c.get("ports", ())}
    devices = requests.scalar(GPU)
    fit = [
        site
        for site in sites
        if site.cpu_milli >= requests.cpu_milli
        and site.memory_bytes >= requests.memory_bytes
        and site.pods > 0
        and site.devices >= devices
        and not site.ports & ports
    ]
    owner = (pod["metadata"].get("ownerReferences") or [{"kind": ""}])[0]
    if owner["kind"] == "DaemonSet":
        fit = [site for site in fit if pod["metadata"]["name"].endswith(f"-{site.name}")]
    elif owner["kind"] == "Node":
        fit = [site for site in fit if site.name == owner["name"]]
    elif rng.random() < 0.05:
        return None
    weights = [1 if tight else site.weight for site in fit]
    if not sum(weights):
        return None
    site = rng.choices(fit, weights)[0]
    site.cpu_milli -= requests.cpu_milli
    site.memory_bytes -= requests.memory_bytes
    site.pods -= 1
    site.devices -= devices
    site.ports |= ports
    return site


def _live(rng: random.Random, pod: Manifest, site: Site | None) -> Manifest:
    """The pod runs on its node, or was refused by the scheduler, or waits for something else."""
    if site is None:
        kind = rng.random()
        if kind < 0.7:
            pod["status"]["conditions"] = [_REFUSED]
        elif kind < 0.8:
            pod["status"]["nominatedNodeName"] = "n1"
        elif kind < 0.9:
            pod["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
        return pod
    found = bound(pod, site.name)
    ready = {"type": "Ready", "status": "True" if rng.random() < 0.93 else "False"}
    found["status"]["conditions"] = [{**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    if rng.random() < 0.02:
        found["status"]["phase"] = rng.choice(("Succeeded", "Failed"))
    return ending(found) if rng.random() < 0.04 else found
