"""A command imports what it needs: the lists of commands and the version need neither numpy nor the API client."""

import subprocess
import sys

import pytest

from rescheduler.cli.main import COMMANDS
from rescheduler.cli.reserve import SUBCOMMANDS

HEAVY = (
    "numpy",
    "kubernetes",
    "urllib3",
    "rescheduler.policies",
    "rescheduler.scheduling",
    "rescheduler.controller",
)
PROGRAM = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr))
from rescheduler.cli.entry import main
main(sys.argv[1:])
"""


def run(*words):
    command = [sys.executable, "-c", PROGRAM, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


LIGHT = (
    *("move", "history", "uncordon", "scale", "uninstall", "reserve", "reserve create", "reserve watch"),
    *("plan", "explain", "explain pod", "validate", "drain", "status", "run"),
)
"""Commands whose help needs neither a client of the API server nor the rules."""


@pytest.mark.parametrize(
    "words", [("version",), ("--help",), *((*name.split(), "--help") for name in LIGHT)], ids=" ".join
)
def test_what_computes_nothing_imports_nothing_heavy(words):
    assert run(*words).stderr.strip() == "[]"


@pytest.mark.parametrize("table", [COMMANDS, SUBCOMMANDS], ids=["all", "reserve"])
def test_each_command_has_the_line_that_the_help_of_its_group_shows(table):
    for name, known in table.items():
        command = known.load(name)
        assert command.name == name
        assert command.get_short_help_str(200) == known.summary()
