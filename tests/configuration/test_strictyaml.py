"""YAML 1.2, strictly, with positions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.configuration.strictyaml import YamlError, load, looks_like_yaml11_bool


@pytest.mark.parametrize(("text", "value"), [
    ("a: on", "on"),
    ("a: yes", "yes"),
    ("a: true", True),
    ("a: 22:30", "22:30"),
    ("a: 0600", 600),
    ("a: 0o17", 15),
    ("a: 0x1F", 31),
    ("a: 1e3", 1000.0),
    ("a: 2026-11-20", "2026-11-20"),
    ("a: '1'", "1"),
    ("a: ~", None),
    ("a:", None),
    ("a: .5", 0.5),
    ("a: 1_000", "1_000"),
    ("a: |\n  x\n", "x\n"),
])  # fmt: skip
def test_scalars_follow_yaml_1_2(text, value):
    found = load(text).data["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("text", "line", "words"), [
    ("a: 1\nb: 2\na: 3\n", 3, "duplicate key 'a' (first on line 1)"),
    ("a:\n  b: 1\n  b: 2\n", 3, "duplicate key 'b'"),
    ("a: [1,\n", 2, "not YAML"),
    ("a: 1\n---\nb: 2\n", 3, "second document"),
    ("a: !!python/object:os.system x\n", 1, "tag"),
    ("a: 1\n? [x]\n: 2\n", 2, "not a plain word"),
    ("a: 1\nb: 2e832088\n", 2, "2e832088 is read as a number, and is too large"),
    (f"a: {'9' * 5000}\n", 1, "has 5000 digits"),
    ("a: &x [*x]\n", 1, "inside of its own anchor"),
    ("a: b\n\tc: d\n", 2, "indented with a tab"),
    ("a:\n\tb: 1\n", 2, "indented with a tab"),
    ("a:\n \tb: 1\n", 2, "indented with a tab"),
    ("a: b\nc: @d\n", 2, "no text begins with @"),
])  # fmt: skip
def test_errors_name_the_line(text, line, words):
    with pytest.raises(YamlError) as caught:
        load(text)
    assert caught.value.line == line
    assert words in caught.value.message


def test_lines_of_values_and_of_the_nearest_value_around():
    document = load("a: 1\nb:\n- x: 1\n  y: 2\n- z\n")
    assert document.line(("b", 0, "y")) == 4
    assert document.line(("b", 1)) == 5
    assert document.line(("b", 1, "missing", 3)) == 5
    assert document.line(("nothing",)) == 1


def test_an_empty_document_is_nothing():
    assert load("").data is None
    assert load("# only a comment\n").data is None


def test_bytes_that_are_no_text():
    with pytest.raises(YamlError, match="line 2: the text is not UTF-8: byte 0x80"):
        load(b"a: b\nc: \x80\xff")


TEXT = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], max_codepoint=0xD7FF))


@given(st.recursive(st.integers() | st.booleans() | TEXT, lambda c: st.dictionaries(TEXT, c) | st.lists(c)))
def test_what_is_quoted_comes_back_as_it_was(value):
    assert load(json.dumps({"v": value}, ensure_ascii=False)).data == {"v": value}


def test_words_that_were_booleans_once():
    assert looks_like_yaml11_bool("on")
    assert not looks_like_yaml11_bool("one")
    assert not looks_like_yaml11_bool(True)
