"""The replacement of mode StartFirst as it is stored and bound, compared with what was asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from start_first_objects import PASSED, PHASE, PROVEN, look, migration, pinned, pod, replacement, said, seen

from rescheduler.migrations.start_first_replacement import AskedSurgePod, unlike_asked
from rescheduler.model.records import FieldWriter, Node, PodSpec, Toleration
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet

HALF = Resources(cpu_milli=500, memory_bytes=2**30)
FULL = Resources(cpu_milli=1000, memory_bytes=2**30)
SPEC = PodSpec(requests=FULL, node_selector=(("disk", "ssd"),), tolerations=(Toleration("pool"),))
NODE = Node(name="n2", labels=LabelSet({"disk": "ssd"}))


def found(*specs, node="", held=FULL, asked_priority=0, **stored):
    base = {"requests": FULL, "node_selector": SPEC.node_selector, "tolerations": SPEC.tolerations}
    pin = stored.pop("pin", "n2")
    new = replacement(spec=pinned(pin, **{**base, **stored}), node=node, held=held)
    return unlike_asked(new, AskedSurgePod(specs or (SPEC,), asked_priority, "n2", NODE))


def test_what_is_stored_as_it_was_sent_is_as_asked():
    assert found() == ""
    assert found(node="n2") == ""


@pytest.mark.parametrize(("stored", "words"), [
    ({"requests": HALF}, "request for cpu is 500m instead of 1"),
    ({"node": "n2", "held": HALF}, "cpu that is held is 500m instead of 1"),
    ({"node": "n3"}, "spec.nodeName is n3 instead of n2"),
    ({"pin": "n3"}, "spec.affinity.nodeAffinity is n3 instead of node/n2"),
    ({"scheduler_name": "other"}, "spec.schedulerName is other instead of default-scheduler"),
    ({"node_selector": (("pool", "b"),)}, "spec.nodeSelector is pool=b instead of what node/n2 matches"),
    ({"tolerations": ()}, "spec.tolerations is none of these instead of pool"),
    ({"asked_priority": 10, "priority": -5, "priority_class": "low"}, "spec.priority is -5 instead of 10"),
    ({"deadline_s": 600}, "spec.activeDeadlineSeconds is 600 s instead of none"),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else "")  # fmt: skip
def test_what_is_less_than_asked_is_told(stored, words):
    assert words in found(**stored)


def test_who_has_written_it_is_told():
    writers = (FieldWriter("vpa", b'{"f:spec":{"f:containers":{}}}'),)
    new = replacement(spec=pinned("n2", requests=HALF), node="n2", held=HALF, writers=writers)
    assert "(written by vpa)" in unlike_asked(new, AskedSurgePod((PodSpec(requests=FULL),), 0, "n2", NODE))


@given(
    template=st.integers(0, 4),
    old=st.integers(0, 4),
    shown=st.none() | st.integers(0, 4),
    stored=st.integers(0, 4),
)
def test_what_all_pods_of_the_workload_get_is_as_asked(template, old, shown, stored):
    """A policy that lowers every pod, a VPA that raised the old one: only what is less than each of them counts."""
    amounts = [template, old, *([] if shown is None else [shown])]
    specs = [PodSpec(requests=Resources(cpu_milli=amount)) for amount in amounts]
    words = found(*specs, requests=Resources(cpu_milli=stored), held=Resources(cpu_milli=stored), node="n2")
    assert bool(words) == (stored < min(amounts))


LESS = replacement(node="n3")


def test_the_move_ends_before_the_old_pod_is_evicted():
    outcome = look(migration(PHASE.RESERVING), start_first=seen(replacement=LESS))
    assert said(outcome) == (PHASE.FAILED, "ReplacementChanged")
    assert "spec.nodeName is n3 instead of n2" in outcome.status.message


def test_it_is_looked_at_again_right_before_the_eviction():
    """A resize lowers what is held while the move waits for its budget."""
    smaller = replacement(spec=pinned("n2", requests=HALF), held=HALF)
    calls = {"calls": PASSED, "pod": pod(spec=PodSpec(requests=FULL))}
    owner = seen(replacement=smaller).replica_set
    assert owner is not None
    moving = migration(PHASE.EVICTING)
    before = look(moving, start_first=seen(replacement=smaller), **calls)
    assert said(before)[0] is PHASE.EVICTING, "its template asks for nothing"
    asks = seen(replacement=smaller, replica_set=_asking(owner))
    assert said(look(moving, start_first=asks, **calls)) == (PHASE.FAILED, "ReplacementChanged")
    moving = migration(PHASE.EVICTING, requested=1.0)
    calls["calls"] = PROVEN
    assert said(look(moving, start_first=asks, **calls)) == (PHASE.FAILED, "ReplacementChanged")


def _asking(owner):
    return type(owner)(
        **{field: getattr(owner, field) for field in owner.__struct_fields__ if field != "template"},
        template=PodSpec(requests=FULL),
    )
