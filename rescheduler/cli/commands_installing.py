"""The commands around the controller and its configuration: their options. The work of each is imported when it is called."""

from __future__ import annotations

import click

from rescheduler.cli.deferred import command
from rescheduler.cli.options import (
    NamespaceText,
    Number,
    PathText,
    cluster_options,
    config_option,
    controller_namespace_option,
    flag,
    number,
)
from rescheduler.model.names import DEFAULT_NAMESPACE


@command("run", "rescheduler.cli.run:run", "Run the controller.")
@cluster_options
@config_option
@click.option(
    "--config-map",
    envvar="RESCHEDULER_CONFIG_MAP",
    metavar="NS/NAME",
    help="The ConfigMap whose key config.yaml is the configuration; read again when it changes. "
    "Default: rescheduler/rescheduler.",
)
@click.option("--dry-run", is_flag=True, envvar="RESCHEDULER_DRY_RUN", help="Decide and log, change nothing.")
@flag(
    "--once",
    help="One decision, without /healthz and /metrics; ends when its moves have ended, and prints what became of each.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Of /healthz, /readyz and /metrics, instead of server.port of the configuration; 0 takes a free one.",
)
@click.option(
    "--identity",
    envvar="RESCHEDULER_IDENTITY",
    default="",
    metavar="NAME",
    help="Name in the Lease. Give one only if no two processes with it can live at once (the pod's uid): a "
    "restarted container then goes on at once instead of waiting for its own Lease to expire.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    envvar="RESCHEDULER_LOG_LEVEL",
)
@click.option("--log-format", type=click.Choice(["auto", "json", "text"]), default="auto", show_default=True)
def run_command() -> None:
    """Run the controller until it is stopped.

    It works from outside the cluster too: nothing calls back into it. SIGTERM and SIGINT end it gracefully: no
    new step is begun, and what is under way is taken up again by the next start.
    """


@command("uninstall", "rescheduler.cli.uninstall:run", "Take rescheduler out of a cluster.")
@cluster_options
@flag("--dry-run", help="Print what would be done, change nothing.")
@click.option(
    "--namespace",
    "-n",
    type=NamespaceText(),
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="The controller's namespace.",
)
@number(
    Number(),
    120.0,
    "--wait",
    "wait_s",
    help="How long moves that have evicted their pods may take to end.",
    metavar="SECONDS",
)
@flag("--yes", help="Do not ask.")
def uninstall_command() -> None:
    """Take rescheduler out of a cluster: no pod stays gated, no room, taint or object stays behind.

    It may be interrupted and run again, with the controller up, down or gone already: each step looks what is still
    there. Exit codes: 0 all is gone, 1 failed (run it again), 3 what is named at the end could not be removed in time.
    """


@command(
    "release-gates", "rescheduler.cli.uninstall:let_go", "Let pods go that wait for a stopped controller."
)
@flag("--dry-run", help="Only name them.")
@controller_namespace_option
@cluster_options
def release_gates_command() -> None:
    """Take the scheduling gate off the pods that wait for a controller that has stopped; all else stays.

    While a controller leads, it is refused: that one lets them go, or says what they wait for. Exit codes: 0 no pod waits,
    1 refused or failed, 3 what is named at the end still waits.
    """


@command("validate", "rescheduler.cli.validate:validate", "Check configuration documents.")
@click.argument("files", nargs=-1, required=True, type=PathText(), metavar="FILE...")
@click.option(
    "--from",
    "dumps",
    multiple=True,
    type=PathText(),
    metavar="PATH",
    help="A dump of the cluster that the documents are for, as 'plan --from' takes it: what they name and no node "
    "of it has is a warning. May be given several times.",
)
def validate_command() -> None:
    """Check configuration documents; every problem is printed with file, line and remedy.

    A FILE is a ReschedulerConfiguration, or a ConfigMap manifest that has one under config.yaml; '-' is stdin. Warnings leave the
    exit code as it is.
    """


@command("convert", "rescheduler.cli.validate:convert", "Convert a policy of descheduler to a configuration.")
@click.argument("file", type=PathText(), metavar="FILE")
@flag("--exit-code", help="Exit with 3 if a line of the policy has no equivalent.")
def convert_command() -> None:
    """Convert a DeschedulerPolicy of descheduler (v1alpha1 or v1alpha2) to a ReschedulerConfiguration, on stdout.

    FILE is a DeschedulerPolicy, or has one in it: a ConfigMap, values of descheduler's Helm chart, a HelmRelease, an Argo CD
    Application, or a KubeDescheduler; '-' is stdin. Every line without an equivalent becomes a comment with the reason.
    """


@command("completion", "rescheduler.cli.completion:run", "Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def completion_command() -> None:
    """Print the completion script of a shell.

    bash: source <(rescheduler completion bash); zsh: the same, after compinit; fish: rescheduler completion fish |
    source. 'kubectl rescheduler' is completed by kubectl's own script.
    """


@command("version", "rescheduler.cli.main:print_version", "Print the version.")
def version_command() -> None:
    """Print the version."""
