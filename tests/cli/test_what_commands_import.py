"""A command imports what it needs: the lists of commands and the version need neither numpy nor the API client."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

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
PROGRAM = """
import atexit, sys
def tell():
    ours = sorted(name for name in sys.modules if name.startswith("rescheduler."))
    print(len(sys.modules), *ours, *(name for name in sys.modules if "." not in name), file=sys.stderr)
atexit.register(tell)
from rescheduler.cli.entry import main
main(sys.argv[1:])
"""
LIGHT = (("version",), ("--help",), ("reserve", "--help"), ("reserve", "window", "--help"))
MOST_MODULES = 195
"""Of Python, click, msgspec and our own; each costs about half a millisecond of the start."""


def imported(*words):
    """(number of all modules, our modules and the top-level ones)."""
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    number, *names = done.stderr.split()
    return int(number), set(names)


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_lists_of_commands_import_nothing_heavy_and_little_else(words):
    number, names = imported(*words)
    assert names.isdisjoint(HEAVY)
    assert number <= MOST_MODULES


def test_no_help_waits_for_the_official_client():
    places = [known.place.partition(":")[0] for known in COMMANDS.values()]
    ours = [place for place in places if place.startswith("rescheduler.")]
    program = (
        f"import importlib, sys; [*map(importlib.import_module, {ours})]; print('kubernetes' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"


def imports(module):
    """The modules of the command line that a module imports, at whatever depth, as its text says."""
    found, left = set(), [module]
    while left:
        path = Path(importlib.util.find_spec(left.pop()).origin)
        named = {
            node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
        }
        new = {name for name in named if name and name.startswith("rescheduler.cli.")} - found
        found |= new
        left += new
    return found


@pytest.mark.parametrize("table", [COMMANDS, SUBCOMMANDS], ids=["all", "reserve"])
def test_no_command_imports_another_one(table):
    places = {known.place.partition(":")[0] for known in table.values()} - {"rescheduler.cli.version"}
    assert {place: imports(place) & places for place in places} == {place: set() for place in places}


@pytest.mark.parametrize("table", [COMMANDS, SUBCOMMANDS], ids=["all", "reserve"])
def test_each_command_has_the_line_that_the_help_of_its_group_shows(table):
    for name, known in table.items():
        command = known.load(name)
        assert command.name == name
        assert command.get_short_help_str(200) == known.summary()
