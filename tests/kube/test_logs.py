import io
import json
import logging

import pytest
import structlog

from rescheduler import logs


@pytest.fixture(autouse=True)
def restore():
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def lines():
    stream = io.StringIO()

    def read():
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    read.stream = stream
    return read


def test_one_json_object_per_line_with_the_fixed_keys_first(lines):
    logs.configure("info", stream=lines.stream)
    structlog.get_logger("rescheduler.loop").info("A move landed", pod="a/b", took_s=1.5)
    (line,) = lines()
    assert list(line)[:4] == ["ts", "level", "logger", "msg"]
    assert line["ts"].endswith("Z")
    assert (line["level"], line["logger"], line["msg"]) == ("info", "rescheduler.loop", "A move landed")
    assert (line["pod"], line["took_s"]) == ("a/b", 1.5)


def test_levels(lines):
    logs.configure("warning", stream=lines.stream)
    log = structlog.get_logger("x")
    log.info("No")
    log.warning("Yes")
    assert [line["msg"] for line in lines()] == ["Yes"]
    with pytest.raises(ValueError, match="loud"):
        logs.configure("loud")


def test_bound_keys_are_on_every_line_inside(lines):
    logs.configure(stream=lines.stream)
    log = structlog.get_logger("x")
    with logs.bind(cycle=7):
        log.info("In")
    log.info("Out")
    assert [line.get("cycle") for line in lines()] == [7, None]


def test_logs_of_libraries_and_tracebacks_have_the_same_shape(lines):
    logs.configure(stream=lines.stream)
    logging.getLogger("library").error("broken %s", "pipe")
    try:
        {}["x"]
    except KeyError:
        structlog.get_logger("x").exception("It failed")
    library, failed = lines()
    assert (library["logger"], library["msg"]) == ("library", "broken pipe")
    assert "KeyError" in failed["exception"]


@pytest.mark.parametrize(("environ", "coloured"), [({}, False), ({"FORCE_COLOR": "1"}, True)])
def test_people_get_readable_lines(lines, environ, coloured):
    logs.configure(stream=lines.stream, console=True, environ=environ)
    structlog.get_logger("x").info("A move landed", pod="a/b")
    text = lines.stream.getvalue()
    assert "A move landed" in text
    assert ("\x1b[" in text) is coloured


def test_values_that_are_no_json_do_not_break_a_line(lines):
    logs.configure(stream=lines.stream)
    structlog.get_logger("x").info("Odd", thing={1, 2}.__class__, text="é\n")
    (line,) = lines()
    assert line["text"] == "é\n"
