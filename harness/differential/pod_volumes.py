"""Random volumes of pods: claims, disks of all old in-tree kinds, image volumes."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random
from collections.abc import Mapping

from harness.differential.manifests import Manifest

AWS_IDS = ("vol-1", "aws://z1/vol-1", "aws://z2/vol-2", "vol-3")


def random_volumes(
    rng: random.Random, claims: list[str], images: tuple[str, ...], *, chance: float, disks: float
) -> list[Manifest]:
    """Volumes of one pod. ``chance``: of claims; ``disks``: of disks that are no claims."""
    volumes: list[Manifest] = []
    if claims and rng.random() < chance:
        volumes.extend(
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in rng.sample(claims, min(len(claims), rng.choice((1, 1, 2))))
        )
    if rng.random() < disks:
        volumes.extend({"name": f"disk-{i}", **_disk(rng)} for i in range(rng.choice((1, 1, 2))))
    if rng.random() < 0.01:
        volumes.append({"name": "gone", "persistentVolumeClaim": {"claimName": "no-such-claim"}})
    if rng.random() < 0.05:
        volumes.append({"name": "image", "image": {"reference": rng.choice(images)}})
    return volumes


def in_tree_source(rng: random.Random) -> Mapping[str, Manifest]:
    """An old in-tree disk that is a CSI volume today; a few have no CSI identity."""
    read_only = rng.random() < 0.5
    return rng.choice(
        (
            {"gcePersistentDisk": {"pdName": rng.choice(("disk-1", "disk-2")), "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": rng.choice(AWS_IDS), "readOnly": read_only}},
            {"azureDisk": {"diskName": "a", "diskURI": rng.choice(("uri-1", "uri-2")), "kind": "Managed"}},
            {"cinder": {"volumeID": rng.choice(("c-1", "c-2"))}},
            {"portworxVolume": {"volumeID": "p-1"}},
            *_untranslatable(rng),
        )
    )


def _untranslatable(rng: random.Random) -> list[Mapping[str, Manifest]]:
    if rng.random() > 0.2:
        return []
    return [
        {"awsElasticBlockStore": {"volumeID": "aws://z1/disk-1"}},
        {"azureDisk": {"diskName": "a", "diskURI": "uri-1", "kind": "Dedicated"}},
    ]


def _disk(rng: random.Random) -> Mapping[str, Manifest]:
    if rng.random() < 0.6:
        return in_tree_source(rng)
    read_only = rng.random() < 0.5
    rbd = {"monitors": rng.choice((["m1", "m2"], ["m2"], ["m3"])), "pool": "rbd", "image": "i"}
    return rng.choice(
        (
            {"iscsi": {"targetPortal": "p", "iqn": "iqn-1", "lun": 0, "readOnly": read_only}},
            {"rbd": {**rbd, "readOnly": read_only}},
            {"emptyDir": {}},
        )
    )
