"""Replacements of mode StartFirst that no live move cares for are adopted or removed; those of others are left alone."""

from dataclasses import replace as but

import msgspec
import pytest
from start_first_objects import (
    ADOPTED,
    LABELLED,
    LABELS,
    PHASE,
    migration,
    pod,
    replacement,
    replica_set,
    seen,
)

from rescheduler.migrations.start_first_replacement import is_unadopted, orphan_calls
from rescheduler.model import names
from rescheduler.model.migration import MoveMode
from rescheduler.model.records import PodPhase, PodSpec
from rescheduler.model.selectors import LabelSet

# Replacements that nobody cares for


OWNERS = (replica_set(),)


def decided(mine=None, *, moves=(), owners=OWNERS, pods=()):
    found = orphan_calls(
        [mine or replacement()],
        {m.key: m for m in moves},
        {w.uid: w for w in owners},
        lambda uid: [p for p in pods if p.controller.uid == uid],
    )
    return [action.does for _, action in found]


OTHERS = tuple(pod(uid=f"p{i}") for i in range(2))
GATED = pod(uid="gated", node="", spec=PodSpec(gates=(names.GATE,)))


@pytest.mark.parametrize(("fields", "expected"), [
    ({"moves": (migration(PHASE.RESERVING),)}, []),
    ({"moves": (migration(PHASE.FAILED),), "pods": (*OTHERS, pod())}, ["remove_replacement"]),
    ({"pods": (*OTHERS, pod())}, ["remove_replacement"]),
    ({"pods": OTHERS}, ["label_replacement"]),
    ({"pods": (*OTHERS, GATED)}, ["label_replacement"]),
    ({"pods": (*OTHERS, pod(deleting=True))}, ["label_replacement"]),
    ({"pods": (*OTHERS, pod(uid="new"))}, ["remove_replacement"]),
    ({"mine": replacement(ready=False), "pods": OTHERS}, ["remove_replacement"]),
    ({"mine": replacement(phase=PodPhase.FAILED), "pods": OTHERS}, ["remove_replacement"]),
    ({"mine": replacement(deleting=True)}, []),
    ({"mine": LABELLED}, []),
    ({"mine": LABELLED, "owners": ()}, ["remove_replacement"]),
    ({"mine": ADOPTED, "owners": ()}, []),
    ({"owners": ()}, ["remove_replacement"]),
    ({"mine": replacement(annotations=LabelSet())}, ["remove_replacement"]),
])  # fmt: skip
def test_a_replacement_without_a_move_is_adopted_or_removed(fields, expected):
    assert decided(**fields) == expected


def test_pods_of_others_are_no_orphans():
    assert not is_unadopted(pod())
    assert not is_unadopted(but_without_label())


def but_without_label():
    return msgspec.structs.replace(replacement(), labels=LABELS)


def test_the_mode_serves_only_what_asks_for_it():
    good = seen()
    assert [good.serves(mode) for mode in MoveMode] == [
        mode in (MoveMode.AUTO, MoveMode.START_FIRST) for mode in MoveMode
    ]
    assert not but(good, declared=False).serves(MoveMode.AUTO)
