"""``rescheduler convert FILE``: a DeschedulerPolicy as a ReschedulerConfiguration."""

from __future__ import annotations

import click

from rescheduler.cli.dump_words import resolved
from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_USAGE
from rescheduler.cli.output import emit, tell, warn
from rescheduler.cli.text_files import PathText, read_text_or_stdin
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.conversion.policy_conversion import convert_policy


@click.command("convert")
@click.argument("file", type=PathText(), metavar="FILE")
@click.option("--exit-code", is_flag=True, help="Exit with 3 if a line of the policy has no equivalent.")
def convert_command(file: str, *, exit_code: bool) -> None:
    """Convert a DeschedulerPolicy of descheduler (v1alpha1 or v1alpha2) to a ReschedulerConfiguration, on stdout.

    FILE is a DeschedulerPolicy, or has one in it: a ConfigMap, values of descheduler's Helm chart, a HelmRelease, an Argo CD
    Application, or a KubeDescheduler; '-' is stdin. Every line without an equivalent becomes a comment with the reason.
    """
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
