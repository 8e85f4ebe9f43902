"""``rescheduler validate FILE...``: checks configuration documents, also in a ConfigMap manifest."""

from __future__ import annotations

import click

from rescheduler.cli.errors import EXIT_USAGE
from rescheduler.cli.output import emit, tell
from rescheduler.cli.text_files import PathText, read_text
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError, Problem
from rescheduler.configuration.strictyaml import YamlError, load
from rescheduler.model.names import CONFIG_KEY


@click.command("validate", short_help="Check configuration documents.")
@click.argument("files", nargs=-1, required=True, type=PathText(), metavar="FILE...")
def validate_command(files: tuple[str, ...]) -> None:
    """Check configuration documents; every problem is printed with file, line and remedy.

    A FILE is a ReschedulerConfiguration, or a ConfigMap manifest that has one under config.yaml.
    """
    bad = 0
    for path in files:
        try:
            _validate(read_text(path, "configuration"), path)
        except ConfigurationError as error:
            bad += 1
            for problem in error.problems:
                tell(str(problem))
        else:
            emit(f"{path}: valid\n")
    if bad:
        raise SystemExit(EXIT_USAGE)


def _validate(text: bytes, path: str) -> None:
    inner, offset = unwrap_config_map(text)
    try:
        parse_configuration(inner, path)
    except ConfigurationError as error:
        moved = [Problem(p.file, p.line + offset, p.field, p.message, p.remedy) for p in error.problems]
        raise ConfigurationError(moved) from error


def unwrap_config_map(text: bytes) -> tuple[bytes, int]:
    """The document inside a ConfigMap manifest and the lines before it; other texts unchanged."""
    try:
        document = load(text)
    except YamlError:
        return text, 0
    data = document.data
    if (
        not isinstance(data, dict)
        or data.get("kind") != "ConfigMap"
        or not isinstance(data.get("data"), dict)
    ):
        return text, 0
    inner = data["data"].get(CONFIG_KEY)
    return (inner.encode(), document.line(("data", CONFIG_KEY))) if isinstance(inner, str) else (text, 0)
