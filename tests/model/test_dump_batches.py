"""Items of a dump that are taken many at once are those that a JSON parser finds, whatever the text looks like."""

import io
import json
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import deployment, node, pod
from rescheduler.cli.dump_reader import read_sources
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.decode.dump import DumpError, ItemBatch, TypeName, items_of
from rescheduler.model.kinds import Kind

POD = {"apiVersion": "v1", "kind": "Pod"}
TRAPS = [
    POD,
    [POD, POD],
    ["x", POD],
    ',{"apiVersion":"v1","kind":"Pod"',
    '},{"apiVersion":"v1","kind":"Pod","a":"\\',
    '"}]},\n    {\n        "apiVersion": "v1",\n        "kind": "Pod"',
    "[{]}\\\\",
    "",
    None,
    -1.5e3,
]
"""What looks like the beginning of an item, or the end of one, and is not."""

values = st.recursive(
    st.sampled_from(TRAPS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata", "items", ""]), inner, max_size=3),
    ),
    max_leaves=5,
)
things = st.builds(
    lambda head, more: {**head, **more},
    st.sampled_from([POD, {"kind": "Pod", "apiVersion": "v1"}, {"apiVersion": "v1", "kind": "Node"}, {}]),
    st.dictionaries(st.sampled_from(["metadata", "spec", "x"]), values, max_size=3),
)


def written(value, spaces, chance):
    """JSON with white space anywhere between the tokens, or one style throughout."""
    space = (lambda: "") if chance is None else (lambda: chance.choice(spaces))
    if isinstance(value, dict):
        members = (
            f"{space()}{json.dumps(key)}{space()}:{space()}{written(item, spaces, chance)}{space()}"
            for key, item in value.items()
        )
        return "{" + ",".join(members) + space() + "}"
    if isinstance(value, list):
        return "[" + ",".join(f"{space()}{written(item, spaces, chance)}{space()}" for item in value) + "]"
    return json.dumps(value)


def reader(text, step):
    stream = io.BytesIO(text)
    return lambda size: stream.read(min(size, step))


def split(text, piece, step):
    """(all objects in their order, how many of them were taken in batches)."""
    found, taken = [], 0

    def take(batch):
        nonlocal taken
        try:
            raws = msgspec.json.decode(batch.text, type=list[msgspec.Raw])
        except msgspec.DecodeError:
            return False
        found.extend(json.loads(bytes(raw)) for raw in raws)
        taken += len(raws)
        return True

    for item in items_of(reader(text.encode(), step), piece, take):
        found.append(json.loads(bytes(item.raw)))  # noqa: PERF401 - take adds to it in between
    return found, taken


@given(
    st.lists(things, max_size=8),
    st.integers(1, 400),
    st.integers(1, 400),
    st.sampled_from(["compact", "python", "kubectl", "wild"]),
    st.integers(0, 99),
)
def test_every_item_comes_out_once_whole_and_in_order(objects, piece, step, style, seed):
    document = {"apiVersion": "v1", "kind": "List", "items": objects, "metadata": {"x": POD}}
    kind_last = bool(seed % 2)
    if kind_last:
        document["kind"] = document.pop("kind")
    text = {
        "compact": lambda: json.dumps(document, separators=(",", ":")),
        "python": lambda: json.dumps(document),
        "kubectl": lambda: json.dumps(document, indent=4, ensure_ascii=False),
        "wild": lambda: written(document, ["", "", " ", "\n", "\t\r\n "], random.Random(seed)),  # noqa: S311
    }[style]()
    found = split(text, piece, step)[0]
    if kind_last:  # items without a type wait for that of the list
        assert [one for one in found if one.get("kind")] == [one for one in objects if one.get("kind")]
        assert sorted(found, key=str) == sorted(objects, key=str)
    else:
        assert found == objects
    assert split(text[text.index("[") : text.rindex("]") + 1], piece, step)[0] == objects


@pytest.mark.parametrize("indent", [None, 4])
def test_most_items_of_a_long_list_are_taken_at_once(indent):
    objects = [{**POD, "metadata": {"name": f"p{n}", "owners": [POD, POD]}} for n in range(200)]
    text = json.dumps({"apiVersion": "v1", "items": objects, "kind": "List"}, indent=indent)
    found, taken = split(text, 4000, 4000)
    assert found == objects
    assert taken > 100


@given(st.lists(things, min_size=1, max_size=6), st.integers(20, 200), st.data())
def test_a_text_that_is_cut_off_is_an_error_never_a_silent_loss(objects, piece, data):
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, separators=(",", ":"))
    end = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(DumpError):
        split(text[:end], piece, 64)


@given(st.lists(things, min_size=2, max_size=6), st.integers(20, 200), st.data())
def test_a_byte_that_does_not_belong_is_never_passed_over(objects, piece, data):
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, separators=(",", ":"))
    at = data.draw(st.integers(1, len(text) - 1))
    broken = text[:at] + data.draw(st.sampled_from('{}[]",:')) + text[at:]
    try:
        whole = json.loads(broken)
    except json.JSONDecodeError:
        with pytest.raises((DumpError, json.JSONDecodeError)):
            split(broken, piece, 64)
        return
    expected = whole.get("items")
    if (
        whole.get("kind") == "List"
        and isinstance(expected, list)
        and all(isinstance(i, dict) for i in expected)
    ):
        assert sorted(split(broken, piece, 64)[0], key=str) == sorted(expected, key=str)


WEB = deployment("web", "shop").cpu("500m").replicas(2)
LONG = {"note": "x" * 3000}
MIXED = [
    *(node(f"n{n}").manifest() for n in range(70)),
    WEB.manifest(),
    *(WEB.pod(f"web-{n:03}").on(f"n{n % 70}").manifest() | {"padding": LONG} for n in range(140)),
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
    {"apiVersion": "other.example/v1", "kind": "Pod", "metadata": {"name": "stranger"}},
    {"apiVersion": "v1", "kind": "PodList", "items": [WEB.pod("listed").manifest()]},
    *(pod(f"late-{n}").manifest() | {"padding": LONG} for n in range(80)),
]
MIXED.insert(120, pod("bad", "shop").set("spec.containers", []).manifest())
MIXED.insert(250, pod("late-3").set("spec.priority", 7).manifest())


def state_of(path):
    state, warnings = read_sources([str(path)], Decoder(), lambda *_: None)
    return state.snapshot(0.0), [str(warning).replace(str(path), "FILE") for warning in warnings]


@pytest.mark.parametrize("indent", [None, 4])
def test_a_long_list_says_the_same_as_its_objects_one_by_one(tmp_path, indent):
    together, apart = tmp_path / "list.json", tmp_path / "lines.jsonl"
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": MIXED}, indent=indent)
    together.write_text(text)
    apart.write_text("\n".join(json.dumps(item) for item in MIXED))
    found, warnings = state_of(together)
    expected, same_warnings = state_of(apart)
    assert found == expected
    assert len(found.pods) == 140 + 1 + 80
    line = text[: text.index('"bad"')].count("\n") - (0 if indent is None else 4) + 1
    assert warnings[0].startswith(f"FILE:{line}: ")
    assert [w.partition(": ")[2] for w in warnings] == [w.partition(": ")[2] for w in same_warnings]
    assert len(warnings) == 4


def test_only_whole_arrays_of_the_stated_type_are_taken():
    whole = json.dumps([WEB.pod("a").manifest(), WEB.pod("b").manifest()]).encode()
    here = TypeName("v1", "Pod")
    decoder = Decoder()

    def taken(text, stated=here, implied=here):
        return decoder.batch(Kind.POD, ItemBatch(stated, implied, text))

    assert [record.name for record in taken(whole)] == ["a", "b"]
    assert taken(whole[:-2] + b"]") is None
    assert taken(whole.replace(b'"kind": "Pod"', b'"kind": "Node"', 1)) is None
    assert taken(whole.replace(b'"apiVersion": "v1"', b'"apiVersion": "v2"', 1)) is None
    assert taken(whole.replace(b'"kind": "Pod"', b'"kind": null', 1), implied=TypeName()) is None
    assert len(taken(whole.replace(b'"kind": "Pod"', b'"kind": null', 1))) == 2
    assert taken(whole.replace(b'"containers"', b'"containerz"', 1)) is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=8)
)
def test_a_pod_does_not_depend_on_the_pods_before_it(shapes):
    texts = []
    for number, (cpu, allocated, volume, keyed) in enumerate(shapes):
        built = pod(f"p{number}").on("n1").cpu(f"{cpu}00m").set("metadata.labels", {"tier": str(cpu)})
        containers = [{"name": "c", "allocatedResources": {"cpu": f"{allocated}00m"}}] if allocated else []
        built = built.set("status.containerStatuses", containers)
        built = built.set(
            "spec.volumes", [{"name": f"v{number}", ("emptyDir", "ephemeral", "hostPath")[volume]: {}}]
        )
        if keyed:
            built = built.set("metadata.ownerReferences", [{"kind": "ReplicaSet", "name": "r", "uid": "u",
                                                            "apiVersion": "apps/v1", "controller": True}])  # fmt: skip
        texts.append(json.dumps(built.manifest()).encode())
    together = Decoder()
    assert [together.record(Kind.POD, text) for text in texts] == [
        Decoder().record(Kind.POD, text) for text in texts
    ]


def test_adding_gives_what_was_known_already():
    first, newer = (WEB.pod("a").set("metadata.resourceVersion", str(n)).build() for n in (1, 2))
    state, applied = ClusterState(), ClusterState()
    assert state.add(Kind.POD, [first, newer, first]) == [newer, first]
    for record in (first, newer, first):
        applied.apply(Kind.POD, record)
    assert state.snapshot(0.0) == applied.snapshot(0.0)
    state.delete(Kind.POD, newer.key)
    assert state.add(Kind.POD, [newer]) == [newer]
    assert not state.snapshot(0.0).pods
