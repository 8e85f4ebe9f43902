"""Mode StartFirst, the rules: who asks for it, who may have it, and what the replacement is."""

import msgspec
import pytest
from start_first_objects import (
    LABELS,
    PHASE,
    RS,
    deployment,
    kinds,
    look,
    migration,
    pod,
    replacement,
    replica_set,
    said,
    seen,
    selector,
)

from rescheduler.migrations.observed_migration import MigrationSettings, Permission
from rescheduler.migrations.start_first_replacement import (
    replaced_by,
    replacement_manifest,
    replacement_name,
    replaces,
)
from rescheduler.model import names
from rescheduler.model.migration import MoveMode
from rescheduler.model.pod_volumes import PodVolume, VolumeKind
from rescheduler.model.records import ObjectKey, OwnerRef, PodSpec, Workload
from rescheduler.model.selectors import LabelSet
from rescheduler.model.storage_records import PersistentVolumeClaim
from rescheduler.planning.start_first_mode import declared, refusal, replacement_labels

# Mode


@pytest.mark.parametrize(("asked", "default", "declares", "mode"), [
    (MoveMode.AUTO, MoveMode.RESERVE_FIRST, True, MoveMode.START_FIRST),
    (MoveMode.AUTO, MoveMode.RESERVE_FIRST, False, MoveMode.RESERVE_FIRST),
    (MoveMode.AUTO, MoveMode.START_FIRST, False, MoveMode.RESERVE_FIRST),
    (MoveMode.START_FIRST, MoveMode.RESERVE_FIRST, True, MoveMode.START_FIRST),
    (MoveMode.RESERVE_FIRST, MoveMode.START_FIRST, True, MoveMode.RESERVE_FIRST),
])  # fmt: skip
def test_only_a_declared_mode_is_chosen(asked, default, declares, mode):
    settings = MigrationSettings(mode=default)
    outcome = look(migration(mode=asked), settings=settings, start_first=seen(declared=declares))
    assert (outcome.status.phase, outcome.status.mode) == (PHASE.RESERVING, mode)


def test_auto_reserves_first_where_two_pods_may_not_stand_side_by_side():
    outcome = look(migration(), start_first=seen(eligible=Permission(ok=False, message="no")))
    assert "create_reservation" in kinds(outcome)


@pytest.mark.parametrize(("observed", "words"), [
    (None, "must be declared"),
    (seen(declared=False), "rescheduler.dev/mode: StartFirst"),
    (seen(eligible=Permission(ok=False, message="Recreate")), "Recreate"),
])  # fmt: skip
def test_asked_for_by_name_it_is_refused_with_the_reason(observed, words):
    outcome = look(migration(mode=MoveMode.START_FIRST), start_first=observed)
    assert said(outcome) == (PHASE.FAILED, "ModeNotSupported")
    assert words in outcome.status.message


@pytest.mark.parametrize(("on_deployment", "on_set", "by_default", "expected"), [
    ({}, {}, False, False),
    ({}, {}, True, True),
    ({"rescheduler.dev/mode": "StartFirst"}, {}, False, True),
    ({}, {"rescheduler.dev/mode": "StartFirst"}, False, True),
    ({"rescheduler.dev/mode": "ReserveFirst"}, {"rescheduler.dev/mode": "StartFirst"}, True, False),
])  # fmt: skip
def test_who_declares(on_deployment, on_set, by_default, expected):
    owners = replica_set(annotations=LabelSet(on_set)), deployment(annotations=LabelSet(on_deployment))
    assert declared(*owners, by_default=by_default) is expected


# Eligibility


def claim(*modes):
    return PersistentVolumeClaim(namespace="default", name="c", access_modes=modes)


@pytest.mark.parametrize(("change", "words"), [
    ({}, ""),
    ({"set_": replica_set(controller=None), "above": None, "near": ()}, ""),
    ({"who": OwnerRef("apps/v1", "StatefulSet", "db", "s")}, "belongs to StatefulSet"),
    ({"set_": None}, "not known"),
    ({"set_": replica_set(template=None)}, "cannot be read"),
    ({"set_": replica_set(template=PodSpec(gates=("g",)))}, "scheduling gates"),
    ({"above": deployment(surge=False)}, "no surge"),
    ({"set_": replica_set(controller=OwnerRef("x/v1", "Rollout", "r", "r")), "above": None}, "Rollout"),
    ({"near": (Workload(kind="ReplicaSet", namespace="default", name="b", uid="b", selector=selector(app="web")),)}, "would adopt"),
    ({"volume": (VolumeKind.CLAIM, claim("ReadWriteOnce"))}, "two nodes (ReadWriteOnce)"),
    ({"volume": (VolumeKind.CLAIM, claim("ReadWriteOncePod"))}, "two nodes"),
    ({"volume": (VolumeKind.CLAIM, None)}, "two nodes (unknown)"),
    ({"volume": (VolumeKind.CLAIM, claim("ReadWriteMany"))}, ""),
    ({"volume": (VolumeKind.AWS, None)}, "one node only"),
    ({"volume": (VolumeKind.EPHEMERAL, None)}, ""),
])  # fmt: skip
def test_who_may_stand_side_by_side(change, words):
    kind, found = change.get("volume", (None, None))
    volumes = (PodVolume(kind=kind, source="c"),) if kind else ()
    old = msgspec.structs.replace(pod(), spec=PodSpec(volumes=volumes), controller=change.get("who", RS))
    set_, above = change.get("set_", replica_set()), change.get("above", deployment())
    near = change.get("near", (replica_set(), deployment()))
    said = refusal(old, set_, above, lambda _: found, near)
    assert bool(said) is bool(words)
    assert words in said


# The replacement


def test_the_replacement_is_the_template_pinned_and_without_what_its_set_selects_by():
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"inject": "yes"}},
        "spec": {
            "nodeName": "elsewhere",
            "containers": [{"name": "c", "image": "x"}],
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]
                },
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [1],
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [1]}, {"matchFields": [2]}]
                    },
                },
            },
        },
    }
    labels = replacement_labels(LABELS, "m", alone=False)
    made = replacement_manifest(
        template, key=ObjectKey("default", "web-1-x"), migration=ObjectKey("default", "m"), labels=labels,
        says=replaces("rs", "old"), node="n2",
    )  # fmt: skip
    pin = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    affinity = made["spec"]["affinity"]
    assert affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ] == [{"matchExpressions": [1], "matchFields": [pin]}, {"matchFields": [2, pin]}]
    assert affinity["podAntiAffinity"] == template["spec"]["affinity"]["podAntiAffinity"]
    assert "nodeName" not in made["spec"]
    assert made["metadata"]["labels"] == {"app": "web", names.LABEL_START_FIRST: "m"}
    assert made["metadata"]["annotations"]["inject"] == "yes"
    assert "ownerReferences" not in made["metadata"]
    assert template["spec"]["nodeName"] == "elsewhere", "what was read is not changed"


def test_without_a_deployment_only_our_own_label_keeps_it_apart():
    assert replacement_labels(LABELS, "m", alone=True) == {names.LABEL_START_FIRST: "m"}


@pytest.mark.parametrize("owner", ["web", "a" * 253, "a" * 56 + ".-"])
def test_names_are_valid_and_differ_by_move(owner):
    name = replacement_name(owner, "m")
    assert name == replacement_name(owner, "m") != replacement_name(owner, "n")
    assert len(name) <= 64
    assert not {"-", "."} & {name.rsplit("-", 1)[0][-1]}


def test_of_whom_it_takes_the_place_is_read_back():
    assert replaced_by(replacement()) == ("rs", "old")
    assert replaced_by(pod()) == ("", "")
