"""Pages and events: one pass, damaged objects set aside, equal parts shared."""

import msgspec
import pytest

from harness.builders import deployment, node, object_of, pod
from rescheduler.model.decode import BadObject, Decoder, EventType, UndecodableError
from rescheduler.model.decode.interning import InternTable
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import ANNOTATION_EVICT

encode = msgspec.json.encode


def page(*items, **meta):
    return encode({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": list(items)})


def event(kind, item):
    return encode({"object": item, "type": kind})


def test_a_page_gives_records_version_and_token():
    body = page(pod("a").manifest(), pod("b").manifest(), **{"resourceVersion": "77", "continue": "next"})
    found = Decoder().page(Kind.POD, body)
    assert [record.name for record in found.records] == ["a", "b"]
    assert (found.resource_version, found.continue_token, found.bad) == ("77", "next", ())


def test_one_damaged_object_does_not_cost_the_page():
    bad = pod("bad").set("spec.containers", "none").manifest()
    found = Decoder().page(Kind.POD, page(pod("a").manifest(), bad, pod("b").manifest(), resourceVersion="7"))
    assert [record.name for record in found.records] == ["a", "bad", "b"], "its stand-in counts instead"
    assert found.bad == (BadObject("Pod", "default/bad", found.bad[0].error),)
    assert "spec.containers" in found.bad[0].error
    assert found.resource_version == "7"


@pytest.mark.parametrize("item", [{}, {"metadata": {}}, {"metadata": None}, 5, None, []])
def test_an_object_without_a_name_is_damaged(item):
    found = Decoder().page(Kind.NODE, page(item, node("n1").manifest()))
    assert [record.name for record in found.records] == ["n1"]
    assert [(bad.kind, bad.name) for bad in found.bad] == [("Node", "?")]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"<html>", b'{"items": 5}', b"\xff\xfe"])
def test_a_body_that_is_no_list_is_an_error(body):
    with pytest.raises(UndecodableError, match="list of Pod"):
        Decoder().page(Kind.POD, body)


def test_nulls_where_go_writes_them_are_empty():
    assert Decoder().page(Kind.POD, b'{"metadata":null,"items":null}').records == ()
    spec = dict.fromkeys(
        ("affinity", "tolerations", "topologySpreadConstraints", "nodeSelector", "volumes", "initContainers",
         "schedulingGates", "overhead", "resources", "resourceClaims", "schedulingGroup", "workloadRef", "priority")
    )  # fmt: skip
    status = dict.fromkeys(("conditions", "containerStatuses", "initContainerStatuses", "startTime", "phase"))
    nulls = {
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "u",
            "labels": None,
            "annotations": None,
            "ownerReferences": None,
            "deletionTimestamp": None,
            "creationTimestamp": None,
        },
        "spec": {
            "containers": [
                {"name": "c", "image": None, "resources": None, "ports": None, "volumeMounts": None}
            ],
            **spec,
        },
        "status": status,
    }
    bare = {
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "c"}]},
    }
    decoder = Decoder()
    assert decoder.record(Kind.POD, encode(nulls)) == decoder.record(Kind.POD, encode(bare))
    for kind in RESOURCES:
        if kind is not Kind.POD:
            meta = {"name": "a", "labels": None, "annotations": None, "ownerReferences": None}
            found = decoder.record(kind, encode({"metadata": meta, "spec": None, "status": None}))
            assert found.name == "a"


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_events_of_objects(kind):
    found = Decoder().event(Kind.POD, event(kind, pod("a").version("9").manifest()))
    assert found.type is EventType(kind)
    assert (found.record.name, found.resource_version, found.bad) == ("a", "9", None)


def test_the_type_may_come_first_or_last():
    text = encode(pod("a").manifest())
    first = Decoder().event(Kind.POD, b'{"type":"ADDED","object":' + text + b"}")
    last = Decoder().event(Kind.POD, b'{"object":' + text + b',"type":"ADDED"}')
    assert first == last


def test_bookmarks_and_the_end_of_the_initial_events():
    meta = {"resourceVersion": "8", "annotations": {"k8s.io/initial-events-end": "true"}}
    found = Decoder().event(
        Kind.POD, event("BOOKMARK", {"kind": "Pod", "metadata": meta, "spec": {"containers": None}})
    )
    assert (found.type, found.resource_version, found.initial_events_end) == (EventType.BOOKMARK, "8", True)
    meta = {"resourceVersion": "9", "creationTimestamp": None}
    found = Decoder().event(Kind.POD, event("BOOKMARK", {"metadata": meta}))
    assert (found.resource_version, found.initial_events_end) == ("9", False)


def test_an_error_event_carries_code_and_message():
    found = Decoder().event(
        Kind.POD, event("ERROR", {"kind": "Status", "code": 410, "message": "too old", "reason": "Expired"})
    )
    assert (found.type, found.status_code, found.message) == (EventType.ERROR, 410, "too old")


def test_a_damaged_object_in_an_event_is_named_and_the_version_kept():
    bad = pod("a").version("12").set("spec.containers", []).manifest()
    found = Decoder().event(Kind.POD, event("MODIFIED", bad))
    assert found.record.name == "a"
    assert found.record.annotations[ANNOTATION_EVICT] == "false"
    assert (found.type, found.resource_version) == (EventType.MODIFIED, "12")
    assert found.bad == BadObject("Pod", "default/a", "spec.containers is empty")


@pytest.mark.parametrize(
    "line", [b"", b"{", b"5", b'{"type":"NEW","object":{}}', b'{"object":{}}', b"HTTP/1.1 503"]
)
def test_a_line_that_is_no_event_is_an_error(line):
    with pytest.raises(UndecodableError, match="watch of Pod"):
        Decoder().event(Kind.POD, line)


def test_pods_of_one_template_share_spec_labels_owner_and_amounts():
    made = deployment("web").cpu("500m").volume({"name": "token-x", "projected": {}})
    decoder = Decoder()
    pods = [made.pod(f"web-{n}").on(f"n{n}") for n in range(3)]
    renamed = [p.set("spec.volumes", [{"name": f"token-{n}", "projected": {}}]) for n, p in enumerate(pods)]
    one, *others = decoder.page(Kind.POD, page(*(p.manifest() for p in renamed))).records
    for other in others:
        assert other.spec is one.spec
        assert other.labels is one.labels
        assert other.controller is one.controller
        assert other.held is one.spec.requests
        assert other.node != one.node


def test_white_space_does_not_part_equal_specs():
    decoder, text = Decoder(), encode(pod("a").label(app="x").cpu(1).manifest())
    spread = msgspec.json.format(text, indent=4)
    one, two = decoder.record(Kind.POD, text), decoder.record(Kind.POD, spread)
    assert one == two
    assert one.spec is two.spec
    assert one.labels is two.labels


def test_tables_forget_what_nobody_asks_for():
    table, made = InternTable(size=10), []
    for number in range(1000):
        table.get(number, lambda key: made.append(key) or f"value {key}")
        table.get(0, lambda key: made.append(key) or f"value {key}")
        assert len(table) <= 20
    assert made.count(0) == 1
    assert len(made) == 1000


@pytest.mark.parametrize("kind", RESOURCES)
def test_every_kind_can_be_decoded_from_its_name_alone(kind):
    extra = {"spec": {"containers": [{"name": "c"}]}} if kind is Kind.POD else {}
    record = object_of(kind, "a", **extra).build()
    assert record.name == "a"
