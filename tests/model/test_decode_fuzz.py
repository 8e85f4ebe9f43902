"""No object, however damaged, escapes: it is a record, or set aside with a reason."""

import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.builders import claim, deployment, node, object_of, pdb, pod, volume
from harness.damage import places, put
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import BadObject, Decoder, UndecodableError
from rescheduler.model.decode.wire_form import manifest
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationOwner

FULL_POD = (
    pod("p").on("n").cpu(1).memory("1Gi").host_port(80).requires_node("a", "b").prefers_node("c", "1", operator="Gt")
    .near("zone", app="x").apart("zone", weight=3, app="y").spread("zone", app="x").tolerate("k").claim("c").owner("ReplicaSet", "r")
    .init_container({"name": "i", "resources": {"requests": {"cpu": "2"}}, "restartPolicy": "Always"}).label(a="b").annotate(x="y")
    .set("status.containerStatuses", [{"name": "main", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}])
)  # fmt: skip
TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}
OWNERS = (ReservationOwner(object=ObjectRef("a", "b", "c")),)
MANIFESTS = [
    (Kind.POD, FULL_POD.manifest()),
    (Kind.NODE, node("n").zone("a").taint("t").image("i", 5).manifest()),
    (Kind.DEPLOYMENT, deployment("d").cpu("1").replicas(3).manifest()),
    (Kind.POD_DISRUPTION_BUDGET, pdb("b").allows(1).manifest()),
    (Kind.PERSISTENT_VOLUME, volume("v").manifest()),
    (Kind.PERSISTENT_VOLUME_CLAIM, claim("c").bound_to("v").manifest()),
    (Kind.CSI_NODE, object_of(Kind.CSI_NODE, "n", spec={"drivers": [{"name": "d"}]}).manifest()),
    (
        Kind.RESERVATION,
        manifest(Reservation(name="r", template_raw=msgspec.json.encode(TEMPLATE), owners=OWNERS, ttl_s=5))
        | {"status": {"phase": "Available"}},
    ),
    (
        Kind.RESERVATION_WINDOW,
        {
            "metadata": {"name": "w"},
            "spec": {
                "cron": "0 3 * * *",
                "duration": "1h",
                "startReserveAgo": "2h",
                "podNumToReserve": 3,
                "nodeSelector": {"a": "b"},
                "resources": {"cpu": "32"},
                "template": TEMPLATE,
                "owners": [{"object": {"name": "p"}}],
            },
            "status": {"phase": "Open", "start": "2027-01-01T00:00:00Z", "placedPods": ["u"], "nodes": ["n"]},
        },
    ),
    (
        Kind.HEAD_ROOM,
        {
            "metadata": {"name": "h"},
            "spec": {"rooms": 3, "spreadOver": "z", "yieldTo": "AnyPod", "template": TEMPLATE, "owners": []},
            "status": {"standing": 1, "nodes": ["n"]},
        },
    ),
    (
        Kind.POD_MIGRATION,
        manifest(PodMigration(namespace="s", name="m", pod_name="p", ttl_s=5))
        | {"status": {"startedAt": "2027-01-01T00:00:00Z"}},
    ),
]
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
    st.sampled_from(["1e999", "-1", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "5m"]),
    st.lists(st.none(), max_size=2), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


def damaged(manifest, path, junk):
    result = copy.deepcopy(manifest)
    put(result, path, junk)
    return result


@given(st.sampled_from(MANIFESTS), st.data())
@settings(max_examples=400, deadline=None)
def test_any_damage_anywhere_is_a_record_or_a_reason(case, data):
    kind, manifest = case
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([place for place in places(manifest) if place]))
        manifest = damaged(manifest, path, data.draw(JUNK))
    decoder, text = Decoder(), msgspec.json.encode(manifest)
    found = decoder.attempt(kind, text)
    good = decoder.page(kind, b'{"items":[' + text + b"]}")
    if isinstance(found, BadObject):
        assert found.error
        assert good.bad == (found,)
        with pytest.raises(UndecodableError, match=kind):
            decoder.record(kind, text)
        return
    assert good.records == (found,)
    assert decoder.event(kind, b'{"type":"ADDED","object":' + text + b"}").record == found
    assert hash(found) == hash(good.records[0]) if kind is not Kind.RESERVATION else True
    state = ClusterState()
    state.apply(kind, found)
    assert state.counts()[kind] == 1


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_in_words(raw):
    found = Decoder().attempt(Kind.POD, raw)
    assert isinstance(found, BadObject)
    assert found.error


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"spec":{"affinity":'])
def test_nesting_without_end_is_refused(opening):
    raw = b'{"metadata":{"name":"a"},"spec":' + opening * 50_000
    assert isinstance(Decoder().attempt(Kind.POD, raw), BadObject)
    closed = b'{"metadata":{"name":"a"},"spec":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    assert isinstance(Decoder().attempt(Kind.POD, closed), BadObject)
