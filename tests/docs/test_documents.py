"""The documents tell the truth: links lead somewhere, and tables hold what the program holds."""

import re
import tomllib
from pathlib import Path

from rescheduler.cli.main import main
from rescheduler.configuration.document import keys, parse_configuration
from rescheduler.configuration.start_only import START_ONLY
from rescheduler.controller.metrics import Metrics
from rescheduler.migrations.migration_lifecycle import MigrationReason
from rescheduler.model.times import parse_duration
from rescheduler.model.written import document_key
from rescheduler.planning.limits import NAMED_LEVELS, TABLE, limits_for
from rescheduler.planning.plan import SkipReason
from rescheduler.policies.registry import REGISTRY
from rescheduler.reservations.reservation_lifecycle import ReservationReason
from rescheduler.reservations.waits import WAIT_MESSAGES, HandoverWait

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("examples/*.md")]
)
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


def broken_links(path):
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{path.relative_to(ROOT)}: {link}"


def test_links_lead_somewhere():
    assert [link for path in DOCUMENTS for link in broken_links(path)] == []


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
    assert {*SkipReason, *MigrationReason, *ReservationReason, *HandoverWait} == {
        name for name in first_cells("docs/troubleshooting.md") if re.fullmatch(r"[A-Z]\w+", name)
    }


def test_every_wait_of_a_claimant_has_a_row_with_its_message():
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", text("docs/troubleshooting.md"), re.MULTILINE)
    messages = {reason: message.format(node="NODE") for reason, message in WAIT_MESSAGES.items()}
    assert messages == {name: cell for name, cell in rows if name in set(HandoverWait)}
    assert set(messages) == set(HandoverWait)


def test_metrics_are_those_of_the_program():
    metrics = Metrics()
    metrics.watch_informers([])
    rendered = metrics.render().decode()
    described = set(re.findall(r"^# TYPE (\S+) ", rendered, re.MULTILINE))
    described = {name for name in described if not name.endswith("_created")}
    assert first_cells("docs/metrics.md") == described


def test_configuration_reference_has_every_key():
    named = {name for name in first_cells("docs/configuration.md") if not name.startswith("rescheduler.dev/")}
    assert named == {*keys(), "policies[].mode"}


def test_configuration_reference_names_what_changes_at_a_restart_only():
    _, after = text("docs/configuration.md").split("these keys wait for a restart:")
    sentence, _, _ = after.partition("Until then")
    assert set(re.findall(r"`([^`]+)`", sentence)) == set(START_ONLY)


def test_the_example_of_the_configuration_is_valid():
    for example in re.findall(r"```yaml\n(.*?)```", text("docs/configuration.md"), re.DOTALL):
        parse_configuration(example, "docs/configuration.md")


def test_aggressiveness_table_is_that_of_the_program():
    rows = re.findall(
        r"^\| `(\w+)` \| (\S+) \| (\S+) \| (\S+) \|", text("docs/aggressiveness.md"), re.MULTILINE
    )
    documented = {name: cells for name, *cells in rows}
    for column, level in enumerate(("conservative", "balanced", "aggressive")):
        limits = limits_for(NAMED_LEVELS[level])
        for row in TABLE:
            name = document_key(row.field)
            cell = documented[name][column]
            value = parse_duration(cell) if row.field.endswith("_s") else float(cell)
            assert value == getattr(limits, row.field), (name, level)


def test_policies_and_commands_are_all_described():
    headings = set(HEADING.findall(text("docs/policies.md")))
    assert set(REGISTRY) <= headings
    commands = " ".join(HEADING.findall(text("docs/commands.md")))
    assert all(name in commands for name in main.commands)


def test_layers_are_those_that_import_linter_checks():
    contracts = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["name"] == "Layers"]
    (drawn,) = re.findall(r"^# Layers\n\n```\n(.*?)\n```", text("docs/design/01-layers.md"), re.DOTALL)
    assert drawn.splitlines() == layers
