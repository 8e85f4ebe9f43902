import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.transport import LineSplitter, LineTooLongError


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=20), st.data())
def test_lines_come_out_whole_however_the_bytes_are_cut(lines, data):
    stream = b"".join(line + b"\n" for line in lines)
    splitter, found = LineSplitter(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += splitter.feed(stream[:size])
        stream = stream[size:]
    assert found == [line for line in lines if line.strip()]
    assert not splitter.cut_off


def test_bytes_without_a_line_end_are_known_as_cut_off():
    splitter = LineSplitter()
    assert splitter.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert splitter.cut_off


def test_an_endless_line_is_refused_before_it_fills_the_memory():
    splitter = LineSplitter(cap_bytes=100)
    for _ in range(10):
        splitter.feed(b"x" * 10)
    with pytest.raises(LineTooLongError):
        splitter.feed(b"x")
    with pytest.raises(LineTooLongError):
        LineSplitter(cap_bytes=10).feed(b"x" * 11 + b"\n")


def test_many_small_pieces_of_a_large_line_cost_linear_time():
    splitter = LineSplitter()
    for _ in range(20_000):
        assert splitter.feed(b"x" * 100) == []
    (line,) = splitter.feed(b"\n")
    assert len(line) == 2_000_000
