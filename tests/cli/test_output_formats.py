"""-o text|wide|name|json|yaml: one meaning in every command that shows objects."""

import json
import re
from functools import partial

import click
import pytest
import yaml

from harness import documents
from rescheduler.cli.main import main

NAME = re.compile(r"[a-z]+(\.[a-z.]+)?/[a-z0-9.-]+")
CREATE = "--cpu 100m --owner-selector app=x -n default --dry-run"
USES = {
    # command: (command line, the kind of its document, whether anything has a name here)
    "plan": ("plan", "Plan", False),
    "explain pod": ("explain pod {pod}", "Explanation", True),
    "explain node": ("explain node n1 n2", "Explanation", True),
    "explain reservation": ("explain reservation spare", "Explanation", True),
    "move": ("move pod/{pod} --dry-run", "List", True),
    "drain": ("drain n1 --plan", "DrainPlan", True),
    "consolidate": ("consolidate --plan --nodes 1", "Consolidation", True),
    "status": ("status --no-plan", "Status", None),
    "check": ("check", "Check", None),
    "budgets": ("budgets", "List", True),
    "history": ("history", "History", False),
    "reserve create": (f"reserve create --name other {CREATE}", "List", True),
    "reserve list": ("reserve list", "List", True),
    "reserve window create": (
        f"reserve window create nightly --cron 0_3_*_*_* --duration 1h --pods 1 {CREATE}",
        "List",
        True,
    ),
    "reserve window list": ("reserve window list", "List", True),
    "reserve window delete": ("reserve window delete early --dry-run", "List", True),
    "reserve release": ("reserve release spare --dry-run", "List", True),
    "uncordon": ("uncordon n1 --dry-run", "List", True),
    "scale": ("scale deployment/web --replicas 3 --dry-run", "List", True),
}


def with_output(group, words=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from with_output(command, (*words, name))
        elif any(param.name == "output" for param in command.params):
            yield " ".join((*words, name))


@pytest.fixture(scope="module")
def running(work):
    """Two pods of a workload, and a Reservation."""
    pod, _ = work.deploy("web", 2)
    spec = {
        "template": {"spec": documents.pod_spec()},
        "owners": [{"labelSelector": {"matchLabels": {"app": "y"}}}],
    }
    path = "/apis/rescheduler.dev/v1alpha1/reservations"
    work.api.create(path, documents.own("Reservation", "spare", spec)).expect()
    work.wait(lambda: work.api.get(f"{path}/spare").body.get("status", {}).get("phase") == "Available")
    window = spec | {"cron": "0 3 * * *", "duration": "1h", "podNumToReserve": 1}
    path = "/apis/rescheduler.dev/v1alpha1/reservationwindows"
    work.api.create(path, documents.own("ReservationWindow", "early", window)).expect()
    return work, pod


def test_every_command_with_formats_is_tried_here():
    assert set(with_output(main)) == set(USES)


def said(command, running, use, output):
    work, pod = running
    words = [word.replace("_", " ") for word in USES[use][0].format(pod=pod).split()]
    done = command(*words, "-o", output, "--kubeconfig", work.kubeconfig)
    assert done.exit_code == 0 or use == "check", done.output
    return done.stdout


@pytest.mark.parametrize("use", USES)
def test_a_format_means_the_same_in_every_command(command, running, use):
    _, kind, named = USES[use]
    write = partial(said, command, running, use)
    text, wide = write("text"), write("wide")
    assert len(wide) >= len(text) or use in ("status", "check")
    documents = [json.loads(one) for one in lines_or_document(write("json"))]
    assert {one["kind"] for one in documents} == {kind}
    again = [one for one in yaml.safe_load_all(write("yaml")) if one is not None]
    assert [sorted(one) for one in again] == [sorted(one) for one in documents]
    if named is None:
        return
    names = write("name").splitlines()
    assert bool(names) is named
    assert all(map(NAME.fullmatch, names)), names


def lines_or_document(text):
    """Commands about several objects write a line for each."""
    return [text] if text.startswith("{\n") else text.splitlines()


def test_names_of_objects_are_asked_for_where_there_are_objects(command, running):
    for use, (_, _, named) in USES.items():
        if named is None:
            work, _ = running
            done = command(*use.split(), "-o", "name", "--kubeconfig", work.kubeconfig)
            assert done.exit_code == 2
            assert "text, wide, json, yaml" in re.sub("'", "", done.stderr)


@pytest.mark.parametrize("output", ["name", "json", "yaml"])
def test_what_a_drain_does_is_on_stderr_where_a_program_reads_stdout(command, running, output):
    work, _ = running
    done = command("drain", "n4", "-o", output, "--kubeconfig", work.kubeconfig)
    assert done.exit_code == 0, done.output
    assert "node/n4 cordoned" in done.stderr
    read = {"name": str.strip, "json": json.loads, "yaml": yaml.safe_load}[output](done.stdout)
    assert read == "node/n4" or (read["kind"], read["nodes"], read["drained"]) == ("Drain", ["n4"], True)
    assert command("uncordon", "n4", "--kubeconfig", work.kubeconfig).exit_code == 0
