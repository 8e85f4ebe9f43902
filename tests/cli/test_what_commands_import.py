"""A command imports what it needs: no help and no version needs numpy or the API client."""

import ast
import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from rescheduler import logs
from rescheduler.cli import completion
from rescheduler.cli.deferred import OF_CLUSTER, imported
from rescheduler.cli.main import main
from rescheduler.cli.node_marks import Then
from rescheduler.planning import limits

HEAVY = (
    "numpy", "kubernetes", "urllib3", "rescheduler.policies", "rescheduler.scheduling",
    "rescheduler.controller", "rescheduler.kube.client", "structlog",
)  # fmt: skip
PROGRAM = """
import json, sys
from rescheduler.cli.main import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, words
print(len(sys.modules), *sys.modules, file=sys.stderr)
"""


def commands(group, words=()):
    """Each command with the words that name it."""
    for name, command in group.commands.items():
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


EVERY = dict(commands(main))
LIGHT = (("version",), ("--help",), *((*words, "--help") for words in EVERY))
MOST_MODULES = 195
"""Of Python, click, msgspec and our own; each costs about half a millisecond of the start."""


def test_lists_of_commands_import_nothing_heavy_and_little_else():
    """All of them in one process: what none of them imports, each of them does not."""
    line = [sys.executable, "-c", PROGRAM, json.dumps(LIGHT)]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
    number, *names = done.stderr.split()
    assert set(names).isdisjoint(HEAVY)
    assert int(number) <= MOST_MODULES


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_work_of_each_command_takes_its_options(words):
    command = EVERY[words]
    if isinstance(command, click.Group):
        return
    given = {param.name for param in command.params if param.expose_value}
    if "kubeconfig" in given:
        given = given - set(OF_CLUSTER) | {"cluster"}
    inspect.signature(imported(command.work)).bind(**dict.fromkeys(given))


@pytest.mark.parametrize("work", ["history", "uninstall"])
def test_commands_that_only_read_and_write_objects_do_without_numpy(work):
    """It takes longer to import than all that they do."""
    program = f"import sys, rescheduler.cli.{work}; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_plan_needs_nothing_that_tells_of_installed_packages():
    """It takes a twentieth of the start; only policies of others are looked up there."""
    program = "import sys, rescheduler.cli.plan; sys.exit('importlib.metadata' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_the_garbage_collector_is_off_while_modules_are_imported_and_on_while_a_command_works():
    program = """
import gc, sys
from rescheduler.cli import deferred, entry
from rescheduler.cli.main import main
told = []
deferred.imported = lambda _: told.append(gc.isenabled()) or (lambda **_: told.append(gc.isenabled()))
entry._end = lambda _: sys.exit(told != [False, True])
entry.main(["version"])
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_choices_are_those_of_the_work():
    def option(words, name):
        return next(param for param in EVERY[words].params if param.name == name)

    assert option(("plan",), "effort").default == limits.EFFORT
    assert option(("plan",), "effort").type.max == limits.MOST_EFFORT
    assert list(option(("consolidate",), "then").type.choices) == list(Then)
    assert list(option(("run",), "log_level").type.choices) == list(logs.LEVELS)
    assert set(option(("completion",), "shell").type.choices) == set(completion.SHELLS)


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


def test_no_command_imports_another_one():
    works = {command.work.partition(":")[0] for command in EVERY.values() if hasattr(command, "work")}
    places = {place for place in works if place.startswith("rescheduler.")} - {"rescheduler.cli.main"}
    assert {place: imports(place) & places for place in places} == {place: set() for place in places}
