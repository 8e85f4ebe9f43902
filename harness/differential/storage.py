"""Random storage: classes, drivers, capacities, volumes and claims in all states."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random

from harness.differential.manifests import Manifest, metadata, namespaced
from harness.differential.pod_volumes import in_tree_source
from harness.differential.pods import NAMESPACES
from rescheduler.model.csi_translation import DRIVERS as IN_TREE

DRIVERS = ("one.csi.example", "two.csi.example")
MIGRATED = tuple(IN_TREE.values())
REGIONS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
CSI_ZONES = (
    "topology.gke.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.cinder.csi.openstack.org/zone",
)
ZONES = ("z1", "z2", "z3")
ZONE = "topology.kubernetes.io/zone"
ZONE_VALUES = ("z1", "z2", "z1__z3", "z1__z2__z3", "z1__", "", "us-c1-a__us-c1-b", "us-c1-a__eu-c1-b")
_CLASSES = (
    ("wait", DRIVERS[0]),
    ("now", DRIVERS[1]),
    ("local", "kubernetes.io/no-provisioner"),
    ("tight", DRIVERS[1]),
    ("old", "kubernetes.io/aws-ebs"),
)
_API = "storage.k8s.io/v1"


class StorageMaker:
    """Makes the storage of one random cluster. Sizes of volumes differ, so that choices are defined.

    ``theme``: "attached" makes volumes that go anywhere, and nodes that can attach few of them.
    """

    def __init__(self, rng: random.Random, nodes: list[str], theme: str = "mixed") -> None:
        self._rng = rng
        self._nodes = nodes
        self._plain = theme == "attached"
        self._size = 1

    def objects(self, claims: dict[str, list[str]]) -> list[Manifest]:
        """All objects; ``claims`` gets the names of claims per namespace."""
        made = [*self._classes(), *self._drivers(), *self._capacities(), *self._csi_nodes()]
        for namespace in NAMESPACES:
            for i in range(self._rng.choice((3, 6, 9) if self._plain else (0, 2, 4))):
                claims.setdefault(namespace, []).append(f"claim-{i}")
                made.extend(self._claim(namespace, f"claim-{i}"))
        free = range(self._rng.choice((0, 2, 5)))
        made.extend(self._volume(f"free-{i}", self._rng.choice(("local", "wait"))) for i in free)
        volumes = [item["metadata"]["name"] for item in made if item["kind"] == "PersistentVolume"]
        made.extend(self._attachments([*volumes, "no-such-volume"]))
        return made

    def _attachments(self, volumes: list[str]) -> list[Manifest]:
        """What is attached to nodes, some of it by drivers that are not the volume's, or without a volume."""
        rng = self._rng
        made: list[Manifest] = []
        for i in range(rng.choice((0, 8, 16, 32) if self._plain else (0, 2, 6, 12))):
            source = {"persistentVolumeName": rng.choice(volumes)} if rng.random() < 0.9 else {}
            node = rng.choice(self._nodes) if rng.random() < 0.9 else "no-such-node"
            spec = {"attacher": rng.choice((*DRIVERS * 4, *MIGRATED)), "nodeName": node, "source": source}
            meta = metadata(f"attachment-{i}")
            made.append({"apiVersion": _API, "kind": "VolumeAttachment", "metadata": meta, "spec": spec})
        return made

    def _classes(self) -> list[Manifest]:
        made: list[Manifest] = []
        for name, provisioner in _CLASSES:
            found: Manifest = {"apiVersion": _API, "kind": "StorageClass", "metadata": metadata(name)}
            found["provisioner"] = provisioner
            found["volumeBindingMode"] = "Immediate" if name == "now" else "WaitForFirstConsumer"
            if self._rng.random() < 0.3:
                requirement = {"key": ZONE, "values": self._rng.sample(ZONES, 2)}
                found["allowedTopologies"] = [{"matchLabelExpressions": [requirement]}]
            if self._rng.random() < 0.95:
                made.append(found)
        return made

    def _drivers(self) -> list[Manifest]:
        made: list[Manifest] = []
        demanded = self._rng.choice((DRIVERS[0], DRIVERS[0], "ebs.csi.aws.com", "disk.csi.azure.com"))
        for driver in (*DRIVERS, *MIGRATED):
            if self._rng.random() < 0.6:
                # Only one driver may be demanded: which of two missing ones is reported is left to chance.
                needed = driver == demanded and self._rng.random() < (0.2 if self._plain else 0.6)
                spec = {"storageCapacity": self._rng.random() < 0.5, "preventPodSchedulingIfMissing": needed}
                made.append(
                    {"apiVersion": _API, "kind": "CSIDriver", "metadata": metadata(driver), "spec": spec}
                )
        return made

    def _capacities(self) -> list[Manifest]:
        made: list[Manifest] = []
        for zone in ZONES:
            for name in ("wait", "tight"):
                if self._rng.random() < 0.6:
                    capacity = namespaced(_API, "CSIStorageCapacity", "red", f"{name}-{zone}", {})
                    del capacity["spec"]
                    capacity["storageClassName"] = name
                    capacity["nodeTopology"] = {"matchLabels": {ZONE: zone}}
                    capacity["capacity"] = self._rng.choice(("1Gi", "10Gi", "100Gi"))
                    if self._rng.random() < 0.3:
                        capacity["maximumVolumeSize"] = "5Gi"
                    made.append(capacity)
        return made

    def _csi_nodes(self) -> list[Manifest]:
        made: list[Manifest] = []
        for node in self._nodes:
            if self._rng.random() < (0.95 if self._plain else 0.7):
                drivers = [self._driver_on(node, driver) for driver in DRIVERS if self._rng.random() < 0.8]
                drivers += [self._driver_on(node, driver) for driver in MIGRATED if self._rng.random() < 0.3]
                meta = metadata(node)
                if self._rng.random() < 0.6:
                    plugins = [name for name in IN_TREE if self._rng.random() < 0.7]
                    meta["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)}
                spec = {"drivers": drivers}
                made.append({"apiVersion": _API, "kind": "CSINode", "metadata": meta, "spec": spec})
        return made

    def _driver_on(self, node: str, driver: str) -> Manifest:
        made: Manifest = {"name": driver, "nodeID": node, "topologyKeys": []}
        if self._rng.random() < (0.95 if self._plain else 0.7):
            made["allocatable"] = {"count": self._rng.choice((1, 2, 3, 5))}
        return made

    def _claim(self, namespace: str, name: str) -> list[Manifest]:
        rng = self._rng
        mode = rng.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))
        spec: Manifest = {
            "accessModes": [mode],
            "resources": {"requests": {"storage": f"{rng.choice((1, 4, 20))}Gi"}},
            "storageClassName": rng.choice([name for name, _ in _CLASSES]),
        }
        if rng.random() < 0.1:
            spec["volumeAttributesClassName"] = "gold"
        if rng.random() < 0.05:
            spec["volumeMode"] = "Block"
        claim = namespaced("v1", "PersistentVolumeClaim", namespace, name, spec)
        claim["status"] = {"phase": "Pending"}
        state = rng.choice(
            ("bound",) * 10 + ("free",) * 4 + ("lost", "deleted", "selected", "prebound", "choosy")
        )
        if self._plain and rng.random() < 0.9:
            spec["accessModes"], state = ["ReadWriteMany"], "bound"
        reference = {"namespace": namespace, "name": name, "uid": claim["metadata"]["uid"]}
        match state:
            case "bound":
                spec["volumeName"] = f"{namespace}-{name}"
                claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
                claim["status"] = {"phase": "Bound"}
                volume = self._volume(spec["volumeName"], spec["storageClassName"], reference)
                return [claim, volume] if rng.random() < 0.95 else [claim]
            case "lost":
                claim["status"] = {"phase": "Lost"}
            case "deleted":
                claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            case "selected":
                chosen = {"volume.kubernetes.io/selected-node": rng.choice(self._nodes)}
                claim["metadata"]["annotations"] = chosen
            case "prebound":
                del reference["uid"]
                self._size += 20
                return [claim, self._volume(f"pre-{namespace}-{name}", spec["storageClassName"], reference)]
            case "choosy":
                spec["selector"] = {"matchLabels": {"grade": "fast"}}
        return [claim]

    def _volume(self, name: str, storage_class: str, claim: Manifest | None = None) -> Manifest:
        rng = self._rng
        self._size += 1
        labels = {"grade": rng.choice(("fast", "slow"))}
        anywhere = self._plain and rng.random() < 0.85
        if not anywhere and rng.random() < 0.3:
            labels[rng.choice((ZONE, "failure-domain.beta.kubernetes.io/zone"))] = rng.choice(ZONE_VALUES)
        if not anywhere and rng.random() < 0.15:
            labels[rng.choice(REGIONS)] = rng.choice(("r1", "r1__r2", "r3"))
        spec: Manifest = {
            "capacity": {"storage": f"{self._size}Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"],
            "storageClassName": storage_class,
        }
        if rng.random() < 0.1:
            spec["volumeAttributesClassName"] = "gold"
        if rng.random() < 0.05:
            spec["volumeMode"] = "Block"
        kind = rng.random()
        if kind < 0.2:
            spec |= in_tree_source(rng)
        elif kind < 0.75:
            spec["csi"] = {"driver": rng.choice(DRIVERS), "volumeHandle": f"handle-{name}"}
        else:
            spec["local"] = {"path": "/data"}
        if not anywhere and rng.random() < 0.5:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": self._reached_from()}}
        phase = "Bound"
        if claim is None:
            phase = "Available" if rng.random() < 0.9 else "Released"
        else:
            spec["claimRef"] = claim
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": metadata(name, labels=labels),
            "spec": spec,
            "status": {"phase": phase},
        }

    def _reached_from(self) -> list[Manifest]:
        """Terms of a volume's node affinity, a few of them with a field, or with nothing else."""
        rng = self._rng
        zone = {"key": ZONE, "operator": "In", "values": rng.sample(ZONES, 2)}
        host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [rng.choice(self._nodes)]}
        old = {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["z1"]}
        area = {"key": REGIONS[1], "operator": "In", "values": ["r1"]}
        choices = ([zone], [zone], [host], [host], [old], [zone, area], [old, area])
        terms: list[Manifest] = [
            {"matchExpressions": rng.choice(choices)} for _ in range(rng.choice((1, 1, 1, 2)))
        ]
        for term in terms:
            if rng.random() < 0.15:
                named = {"key": "metadata.name", "operator": rng.choice(("In", "NotIn"))}
                term["matchFields"] = [{**named, "values": [rng.choice(self._nodes)]}]
                if rng.random() < 0.4:
                    del term["matchExpressions"]
        return terms
