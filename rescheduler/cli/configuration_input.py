"""Reads what --config and --scheduler-config name. Apart from the options, because it needs the policies and the scheduling rules."""

from __future__ import annotations

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.text_files import read_text
from rescheduler.configuration.document import Configuration, default_configuration, parse_configuration
from rescheduler.configuration.strictyaml import YamlError, load
from rescheduler.scheduling.configuration import SchedulerConfigurationError, parse_scheduler_configuration
from rescheduler.scheduling.framework import Profile


def load_configuration(path: str | None) -> Configuration:
    """The configuration of a file, or the default one."""
    return (
        default_configuration()
        if path is None
        else parse_configuration(read_text(path, "configuration"), path)
    )


def load_profile(path: str | None, configuration: Configuration) -> Profile:
    """The scheduler profile of a file, or that of the configuration."""
    if path is None:
        return configuration.profile
    try:
        document = load(read_text(path, "scheduler configuration"))
    except YamlError as error:
        raise CommandError(f"{path}:{error.line}: {error.message} ({error.remedy})", EXIT_USAGE) from error
    try:
        return parse_scheduler_configuration(document.data)
    except SchedulerConfigurationError as error:
        place = f"{path}:{document.line(error.path)}" if error.path else path
        raise CommandError(f"{place}: {error}", EXIT_USAGE) from error
