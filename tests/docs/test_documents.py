"""The documents tell the truth: links lead somewhere, and tables hold what the program holds."""

import re
from pathlib import Path

import msgspec
import pytest

from rescheduler import config
from rescheduler.cli.main import COMMANDS
from rescheduler.config_rooms import ReservationsWire
from rescheduler.controller.metrics import Metrics
from rescheduler.migrations.lifecycle import MigrationReason
from rescheduler.model.durations import parse_duration
from rescheduler.planning.aggressiveness import NAMED_LEVELS, limits_for
from rescheduler.planning.plan import SkipReason
from rescheduler.policies.registry import REGISTRY
from rescheduler.reservations.lifecycle import ReservationReason

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def anchors(path):
    found = (
        re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-")
        for h in HEADING.findall(path.read_text())
    )
    return set(found)


def first_cells(document):
    """Words in code marks of the first column of every table."""
    return set(re.findall(r"^\| `([^`]+)`", text(document), re.MULTILINE))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{path.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{path.name}: {link}"


def test_every_document_is_reachable_from_the_index():
    seen, todo = set(), [ROOT / "docs/index.md"]
    while todo:
        path = todo.pop()
        if path in seen or path.suffix != ".md" or not path.exists():
            continue
        seen.add(path)
        todo += [(path.parent / link.partition("#")[0]).resolve() for link in LINK.findall(path.read_text())]
    assert {p for p in DOCUMENTS if p.is_relative_to(ROOT / "docs")} <= seen


def test_every_reason_has_a_row_that_says_what_to_do():
    assert {*SkipReason, *MigrationReason, *ReservationReason} == {
        name for name in first_cells("docs/troubleshooting.md") if re.fullmatch(r"[A-Z]\w+", name)
    }


def test_metrics_are_those_of_the_program():
    metrics = Metrics()
    metrics.watch_informers([])
    rendered = metrics.render().decode()
    described = set(re.findall(r"^# TYPE (\S+) ", rendered, re.MULTILINE))
    described = {name for name in described if not name.endswith("_created")}
    assert first_cells("docs/metrics.md") == described


def test_configuration_reference_has_every_key():
    named = first_cells("docs/configuration.md")
    for section, kind in (
        ("limits", config._LimitsWire),
        ("protections", config._ProtectionsWire),
        ("reservations", ReservationsWire),
        ("leaderElection", config._LeaderElectionWire),
        ("server", config._ServerWire),
        ("gate", config._GateWire),
    ):
        for field in msgspec.structs.fields(kind):
            assert f"{section}.{field.encode_name}" in named
    sections = {name.partition(".")[0] for name in named}
    assert set(config._TOP_LEVEL) - {"apiVersion", "kind", "metadata"} <= sections


def test_the_example_of_the_configuration_is_valid():
    for example in re.findall(r"```yaml\n(.*?)```", text("docs/configuration.md"), re.DOTALL):
        config.parse_configuration(example, "docs/configuration.md")


def test_aggressiveness_table_is_that_of_the_program():
    rows = re.findall(
        r"^\| `(\w+)` \| (\S+) \| (\S+) \| (\S+) \|", text("docs/aggressiveness.md"), re.MULTILINE
    )
    documented = {name: cells for name, *cells in rows}
    for column, level in enumerate(("conservative", "balanced", "aggressive")):
        limits = limits_for(NAMED_LEVELS[level])
        for field in msgspec.structs.fields(type(limits)):
            value = getattr(limits, field.name)
            name = config._camel(field.name.removesuffix("_s"))
            cell = documented[name][column]
            assert (parse_duration(cell) if field.name.endswith("_s") else float(cell)) == value, (
                name,
                level,
            )


def test_policies_and_commands_are_all_described():
    headings = set(HEADING.findall(text("docs/policies.md")))
    assert set(REGISTRY) <= headings
    commands = " ".join(HEADING.findall(text("docs/commands.md")))
    assert all(name in commands for name in COMMANDS)
