"""Policies of descheduler's repository, and such as public ones have them: what is there under which name, what is not."""

from pathlib import Path

import pytest

from rescheduler.cli.dump_words import resolved
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.conversion.policy_conversion import convert_policy

FIELD = (Path(__file__).parent / "field.txt").read_text().removeprefix("### ").split("\n### ")
"""A name, lines that begin with ``#`` with what becomes of it, the policy."""
CASES = {case.partition("\n")[0]: case.partition("\n")[2] for case in FIELD}


def said_of(text):
    """What the conversion makes of a policy, as the file says it."""
    try:
        found = convert_policy(text, "policy.yaml", lambda word, _path: resolved(word))
    except ConfigurationError as error:
        return [f"error: {str(error).splitlines()[0]}"]
    configuration = parse_configuration(found.text, "out")
    state = {one.title: one.args.enabled for one in configuration.policies}
    if "failedPods:" in found.text:
        state["failedPods"] = configuration.failed_pods.enabled
    on, off = ([name for name in state if state[name] is wanted] for wanted in (True, False))
    return [
        f"on: {', '.join(on) or 'nothing'}",
        *([f"off: {', '.join(off)}"] if off else []),
        *(f"not here: {remark.what}" for remark in found.remarks),
    ]


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_it(name):
    lines = CASES[name].splitlines(keepends=True)
    expected = [line.strip()[2:] for line in lines if line.startswith("# ")]
    assert said_of("".join(line for line in lines if not line.startswith("# "))) == expected


@pytest.mark.parametrize("name", CASES)
def test_whatever_is_off_is_warned_of(name):
    said = said_of(
        "".join(line for line in CASES[name].splitlines(keepends=True) if not line.startswith("# "))
    )
    assert any(line.startswith("not here: ") for line in said) or not any(
        line.startswith("off: ") for line in said
    )


def test_whatever_is_off_or_left_out_has_a_reason_in_the_configuration():
    for name, case in CASES.items():
        text = "".join(line for line in case.splitlines(keepends=True) if not line.startswith("# "))
        try:
            found = convert_policy(text, "policy.yaml", lambda word, _path: resolved(word))
        except ConfigurationError:
            continue
        lines = [line.strip() for line in found.text.splitlines()]
        for number, line in enumerate(lines):
            assert line != "enabled: false" or lines[number - 1].startswith("#"), (name, found.text)
        assert all(remark.reason for remark in found.remarks)
