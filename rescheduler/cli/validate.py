"""Configuration documents: ``rescheduler validate`` checks them, also in a ConfigMap manifest; ``rescheduler convert`` makes one of a DeschedulerPolicy."""

from __future__ import annotations

from rescheduler.cli.dump_files import read_text_or_stdin
from rescheduler.cli.dump_words import resolved
from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_USAGE
from rescheduler.cli.output import emit, tell, warn
from rescheduler.configuration.document import Configuration, parse_configuration
from rescheduler.configuration.problems import ConfigurationError, Problem
from rescheduler.configuration.strictyaml import Document, YamlError, load
from rescheduler.conversion.policy_conversion import convert_policy
from rescheduler.model.names import CONFIG_KEY
from rescheduler.scheduling.nodes import NodeTable


def validate(files: tuple[str, ...], dumps: tuple[str, ...]) -> None:
    """Check configuration documents; every problem is printed with file, line and remedy."""
    nodes = _nodes(dumps) if dumps else None
    bad = 0
    for path in files:
        try:
            configuration = _validate(read_text_or_stdin(path, "configuration"), path)
        except ConfigurationError as error:
            bad += 1
            for problem in error.problems:
                tell(str(problem))
        else:
            for unknown in configuration.unknown_to(nodes) if nodes is not None else ():
                warn(f"{path}: {unknown}")
            emit(f"{path}: valid\n")
    if bad:
        raise SystemExit(EXIT_USAGE)


def _nodes(dumps: tuple[str, ...]) -> NodeTable:
    from rescheduler.cli.clients import NamedCluster  # noqa: PLC0415 - what reads clusters, which a document needs not
    from rescheduler.cli.snapshot_input import read_input  # noqa: PLC0415 - the same

    found = read_input(NamedCluster(), paths=dumps)
    return NodeTable(tuple(found.snapshot.nodes.values()))


def _validate(text: bytes, path: str) -> Configuration:
    """The document, or the one inside of a ConfigMap manifest, by the lines of the file."""
    try:
        document = load(text)
        inner = _text_within(document, CONFIG_KEY)
    except YamlError:
        inner = document = None
    if inner is None:
        if (
            document is not None
            and isinstance(document.data, dict)
            and document.data.get("kind") == "ConfigMap"
        ):
            line = document.line(("data",)) if "data" in document.data else 1
            remedy = "a ConfigMap has the document as text there"
            raise ConfigurationError([Problem(path, line, f"data.{CONFIG_KEY}", "is missing", remedy)])
        return parse_configuration(text, path)
    try:
        return parse_configuration(inner[0].encode(), path)
    except ConfigurationError as error:
        moved = [Problem(p.file, p.line + inner[1], p.field, p.message, p.remedy) for p in error.problems]
        raise ConfigurationError(moved) from error


def _text_within(document: Document, key: str) -> tuple[str, int] | None:
    """The text, and the lines before it; None if the document is no ConfigMap that has it."""
    data = document.data
    if (
        not isinstance(data, dict)
        or data.get("kind") != "ConfigMap"
        or not isinstance(data.get("data"), dict)
    ):
        return None
    text = data["data"].get(key)
    return (text, document.line(("data", key))) if isinstance(text, str) else None


def convert(file: str, *, exit_code: bool) -> None:
    """Convert a DeschedulerPolicy of descheduler (v1alpha1 or v1alpha2) to a ReschedulerConfiguration, on stdout."""
    text = read_text_or_stdin(file, "DeschedulerPolicy")
    name = "stdin" if file == "-" else file
    try:
        conversion = convert_policy(text, name, lambda word, _path: resolved(word))
    except ConfigurationError as error:
        for problem in error.problems:
            tell(str(problem))
        raise SystemExit(EXIT_USAGE) from error
    emit(conversion.text)
    for remark in conversion.remarks:
        warn(f"{name}: {remark}")
    if exit_code and conversion.remarks:
        raise SystemExit(EXIT_BLOCKED)
