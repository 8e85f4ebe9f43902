"""``rescheduler convert FILE``: a DeschedulerPolicy as a ReschedulerConfiguration."""

from __future__ import annotations

from rescheduler.cli.dump_words import resolved
from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_USAGE
from rescheduler.cli.output import emit, tell, warn
from rescheduler.cli.text_files import read_text_or_stdin
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.conversion.policy_conversion import convert_policy


def run(file: str, *, exit_code: bool) -> None:
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
