"""Dumps are cut into objects exactly, wherever the pieces of text happen to end."""

import io
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.decode.dump import DumpError, TypeName, items_of
from rescheduler.model.kinds import Kind

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
)
things = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.sampled_from(["Pod", "Node", "Secret"]), "x": values}
)


def reader(text, step):
    stream = io.BytesIO(text)
    return lambda size: stream.read(min(size, step))


def cut(text, step=7, piece=16):
    if isinstance(text, str):
        text = text.encode()
    return [(item.type.kind, json.loads(bytes(item.raw))) for item in items_of(reader(text, step), piece)]


@given(
    st.lists(things, max_size=4),
    st.integers(1, 40),
    st.integers(1, 64),
    st.fixed_dictionaries(
        {"indent": st.sampled_from([None, 1, 4]), "ensure_ascii": st.booleans(), "sort_keys": st.booleans()}
    ),
)
def test_every_object_comes_out_once_and_whole(objects, step, piece, style):
    text = json.dumps(
        {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}, **style
    )
    assert cut(text, step, piece) == [(item["kind"], item) for item in objects]


@given(st.lists(things, min_size=1, max_size=3), st.integers(1, 40), st.integers(1, 64))
def test_arrays_single_objects_and_documents_in_a_row(objects, step, piece):
    expected = [(item["kind"], item) for item in objects]
    assert cut(json.dumps(objects), step, piece) == expected
    assert cut("\n".join(json.dumps(item) for item in objects), step, piece) == expected
    assert cut("".join(json.dumps(item) for item in objects), step, piece) == expected


@given(st.lists(things, min_size=1, max_size=3), st.integers(1, 40), st.integers(1, 64))
def test_lists_of_lists(objects, step, piece):
    inner = {"kind": "List", "apiVersion": "v1", "items": objects}
    text = json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": [inner, {"kind": "List", "items": None}, inner]}
    )
    assert cut(text, step, piece) == [(item["kind"], item) for item in objects] * 2


def test_items_of_an_api_list_get_its_kind():
    text = b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}}]}'
    for piece in (8, 1000):
        (item,) = items_of(reader(text, 9), piece)
        assert item.type == TypeName("v1", "Pod")


@pytest.mark.parametrize("order", list(itertools.permutations(["apiVersion", "items", "kind"])))
def test_items_get_the_kind_of_their_list_wherever_it_stands(order):
    bare, typed = {"metadata": {"name": "a"}}, {"apiVersion": "v1", "kind": "Node"}
    document = {"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [bare, typed, bare]}
    text = json.dumps({key: document[key] for key in order}, indent=1).encode()
    for piece in (8, 1000):
        found = list(items_of(reader(text, 9), piece))
        assert sorted(item.type for item in found) == [
            TypeName("apps/v1", "Deployment"), TypeName("apps/v1", "Deployment"), TypeName("v1", "Node")
        ]  # fmt: skip
        assert {item.type.kind: json.loads(bytes(item.raw)) for item in found} == {
            "Deployment": bare,
            "Node": typed,
        }


def test_a_kind_of_another_group_is_not_ours():
    assert TypeName("serving.knative.dev/v1", "Service").known is None
    assert TypeName("v1", "Service").known == "Service"
    assert TypeName("scheduling.koordinator.sh/v1alpha1", "Reservation").known is Kind.KOORDINATOR_RESERVATION
    assert TypeName("rescheduler.dev/v1alpha1", "Reservation").known is Kind.RESERVATION
    assert TypeName("scheduling.volcano.sh/v1beta1", "Reservation").known is None


def test_lines_are_counted_across_pieces():
    objects = [{"apiVersion": "v1", "kind": "Pod", "n": n} for n in range(5)]
    text = json.dumps({"apiVersion": "v1", "items": objects, "kind": "List"}, indent=1).encode()
    lines = [item.line for item in items_of(reader(text, 11), 16)]
    assert lines == [4 + 5 * n for n in range(5)]


@given(st.lists(things, min_size=1, max_size=2), st.data())
def test_a_text_that_is_cut_off_is_an_error_never_a_silent_loss(objects, data):
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=1)
    end = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(DumpError):
        cut(text[:end], 9, 32)


@pytest.mark.parametrize(("text", "line", "says"), [
    ("{\n\n  oops", 3, "not JSON"),
    ('{"a": 1}\n\nnonsense', 3, "neither a JSON object nor an array"),
    ('{"items": [{} {}]}', 1, "expected ','"),
    ('{"kind": "List", "items": {"a": 1}}', 1, "cannot be read"),
    ('[\n{"kind": "Pod"},\n]', 3, "not JSON: invalid character"),
])  # fmt: skip
def test_what_is_not_json_is_named_with_its_line(text, line, says):
    for piece in (8, 1000):
        with pytest.raises(DumpError) as error:
            cut(text, 5, piece)
        assert error.value.line == line
        assert says in str(error.value)


@pytest.mark.parametrize(
    "text", ["", " \n ", "[]", '{"kind":"List","apiVersion":"v1","items":[]}', "\ufeff[]"]
)
def test_nothing_is_no_error(text):
    assert cut(text) == []
