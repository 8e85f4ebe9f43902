"""``rescheduler move``: asks the controller to move pods, and follows them until they have landed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from rescheduler.cli.api_access import api_of, namespace_of_context
from rescheduler.cli.errors import EXIT_DONE, EXIT_USAGE, CommandError
from rescheduler.cli.following_moves import exit_code, follow, print_moves, why_not
from rescheduler.cli.migration_client import AskedMove, MigrationClient, MoveOrder, manifest
from rescheduler.cli.moves_printing import OUTPUTS, checks_table
from rescheduler.cli.name_completion import names_of
from rescheduler.cli.options import (
    cluster_options,
    config_option,
    controller_namespace_option,
    move_ttl,
    target_namespace_option,
    timeout_option,
)
from rescheduler.cli.output import emit, tell
from rescheduler.cli.pods_by_name import find_pods, pod_names
from rescheduler.cli.reserve.printing import json_list, yaml_list
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ForbiddenError
from rescheduler.migrations.lifecycle import FINISHED
from rescheduler.model.counted import plural
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import LABEL_GROUP
from rescheduler.model.never_moves import never_moves
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.suggestions import did_you_mean

if TYPE_CHECKING:
    from rescheduler.cli.move_checks import CheckedMove

_GROUP_BYTES: Final = 4


@click.command("move")
@click.argument(
    "words",
    nargs=-1,
    metavar="[pod NAME... | pod/NAME...]",
    shell_complete=names_of(Kind.POD, prefixes=("", "pod/")),
)
@click.option("-l", "--selector", default="", metavar="LABELS", help="All pods with these labels.")
@click.option(
    "--from",
    "source",
    default="",
    metavar="NODE",
    help="Only pods on this node.",
    shell_complete=names_of(Kind.NODE),
)
@click.option(
    "--to",
    "target",
    default="",
    metavar="NODE",
    help="Default: the node that the controller chooses.",
    shell_complete=names_of(Kind.NODE),
)
@target_namespace_option
@timeout_option(
    "5m", "For so long a move may wait for its eviction; then it ends and its pod was not disturbed."
)
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Follow the moves until they have ended."
)
@click.option(
    "--follow", "followed", default="", metavar="WORD", help="Follow the moves of an earlier command again."
)
@click.option(
    "--withdraw",
    default="",
    metavar="WORD",
    help="Withdraw those of an earlier command that evicted nothing.",
)
@click.option("--dry-run", is_flag=True, help="Only show where each pod would go; nothing is created.")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="text", show_default=True)
@config_option
@controller_namespace_option
@cluster_options
def move_command(
    *,
    words: tuple[str, ...],
    selector: str,
    source: str,
    target: str,
    namespace: str | None,
    timeout: str,
    wait: bool,
    followed: str,
    withdraw: str,
    dry_run: bool,
    output: str,
    config_file: str | None,
    controller_namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Move pods to other nodes: room for each replacement is reserved before its pod is evicted.

    Examples: move pod web-7d9-x2x --to node-4; move -l app=web --from node-1; move pod/db-0 --dry-run.

    What would be refused is refused before anything is created. Ctrl-C leaves the moves to the controller. Exit codes:
    0 all landed, 1 one failed, 2 wrong usage, 3 none failed but some waited in vain or are under way.
    """
    ttl_s = move_ttl(timeout)
    api = api_of(kubeconfig, context)
    asking = _Asking(
        api=api,
        client=MigrationClient(api, Decoder()),
        namespace=namespace or namespace_of_context(kubeconfig, context),
        target=target,
        controller_namespace=controller_namespace,
        config_file=config_file,
        kubeconfig=kubeconfig,
        context=context,
    )
    if followed or withdraw:
        if words or selector or source or target:
            raise click.UsageError(
                "--follow and --withdraw name the moves: leave out pods, -l, --from and --to"
            )
        _again(asking, followed, withdraw, ttl_s, output)
        return
    names = pod_names(words)
    if bool(names) == bool(selector or source):
        raise click.UsageError("name pods, or choose them with -l LABELS, --from NODE or both")
    pods = find_pods(api, asking.namespace, names, selector=selector, node=source)
    if not pods:
        tell("no pods")
        return
    moving, wanted = asking.sorted_out(pods)
    checked = asking.checked(wanted)
    order = MoveOrder(
        group=secrets.token_hex(_GROUP_BYTES), ttl_s=ttl_s, reason="asked for with rescheduler move"
    )
    bodies = [manifest(AskedMove(pod=pod, target=target), order) for pod in wanted]
    made = asking.client.create(bodies, dry_run=dry_run)
    if dry_run:
        _print_dry_run(checked, made, output)
        return
    keys = [ObjectKey(str(b["metadata"]["namespace"]), str(b["metadata"]["name"])) for b in bodies]
    how = _how_to_go_on(asking.namespace, order.group)
    if not wait:
        print_moves(asking.client, keys, asking.client.group([asking.namespace], order.group), output)
        tell(how)
        return
    _end(asking.client, [*keys, *moving], ttl_s, output, how)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """Whom a command asks, and for what."""

    api: KubeApi
    client: MigrationClient
    namespace: str
    target: str
    controller_namespace: str
    config_file: str | None
    kubeconfig: str | None
    context: str | None

    def sorted_out(self, pods: Sequence[Pod]) -> tuple[list[ObjectKey], list[Pod]]:
        """(moves of these pods that are under way, pods to move). Raises CommandError if one can never be moved."""
        refused = [(pod, why) for pod in pods if (why := _never(pod))]
        if refused:
            raise CommandError(_refused([f"{pod.key}: the pod {why}" for pod, why in refused]))
        for pod in pods:
            if self.target and pod.node == self.target:
                tell(f"{pod.key} is on node {self.target} already")
        pods = [pod for pod in pods if not (self.target and pod.node == self.target)]
        live = [m for m in self.client.select(self.namespace) if m.status.phase not in FINISHED]
        by_pod = {move.pod_name: move for move in live if not move.deleting}
        moving = [(pod, by_pod[pod.name]) for pod in pods if _moves(by_pod.get(pod.name), pod)]
        for pod, move in moving:
            to = move.target_node or move.status.node_name
            if self.target and to and to != self.target:
                raise CommandError(
                    f"{pod.key} is being moved to node {to} already; to stop that: kubectl delete podmigration "
                    f"-n {move.namespace} {move.name}"
                )
            tell(f"{pod.key} is being moved already, by PodMigration {move.name}")
        taken = {pod.uid for pod, _ in moving}
        return [move.key for _, move in moving], [pod for pod in pods if pod.uid not in taken]

    def checked(self, pods: Sequence[Pod]) -> list[CheckedMove]:
        """What would become of the moves. Raises CommandError: nobody would carry them out, or one is refused."""
        if not pods:
            return []
        from rescheduler.cli.controller_configuration import live_controller  # noqa: PLC0415 - needs all of planning
        from rescheduler.cli.move_checks import CheckedMove, check_moves  # noqa: PLC0415 - the same
        from rescheduler.cli.snapshot_input import read_live  # noqa: PLC0415 - the same

        controller = live_controller(self.api, self.controller_namespace, self.config_file)
        controller.need()
        try:
            source = read_live(
                self.kubeconfig,
                self.context,
                controller.configuration.replacements,
                self.controller_namespace,
            )
        except ForbiddenError as error:
            tell(
                f"whether there is room is left to the controller: you may not read the cluster ({error.message})"
            )
            return [CheckedMove(pod=pod, target=self.target) for pod in pods]
        configuration = controller.told_configuration()
        if self.target and self.target not in source.snapshot.nodes:
            hint = did_you_mean(self.target, source.snapshot.nodes)
            raise CommandError(f"there is no node {self.target}{hint}", EXIT_USAGE)
        checked = check_moves(source.snapshot, configuration, pods, self.target)
        refused = [f"{check.pod.key}: {check.refusal}" for check in checked if check.refusal]
        if refused:
            raise CommandError(_refused(refused))
        return checked


def _never(pod: Pod) -> str:
    """Why nothing can move the pod, as the end of a sentence."""
    if pod.deleting:
        return "is terminating"
    if pod.terminal:
        return f"has ended ({pod.phase})"
    if not pod.node:
        return "is not on any node yet"
    never = never_moves(pod)
    return never.value if never is not None else ""


def _moves(move: PodMigration | None, pod: Pod) -> bool:
    return move is not None and move.pod_uid in ("", pod.uid)


def _refused(lines: Sequence[str]) -> str:
    listed = "".join(f"\n  {line}" for line in lines)
    return f"{plural(len(lines), 'pod')} cannot be moved, and nothing was begun:{listed}"


def _print_dry_run(checked: Sequence[CheckedMove], made: Sequence[bytes], output: str) -> None:
    match output:
        case "json":
            emit(json_list(made))
        case "yaml":
            emit(yaml_list(made))
        case "name":
            emit("".join(f"pod/{check.pod.name}\n" for check in checked))
        case _:
            emit(checks_table(checked))
            tell("Nothing was changed.")


def _again(asking: _Asking, followed: str, withdrawn: str, ttl_s: float, output: str) -> None:
    """Take up the moves of an earlier command."""
    word = followed or withdrawn
    found: Mapping[ObjectKey, PodMigration] = asking.client.group([asking.namespace], word)
    if not found:
        raise CommandError(
            f"there are no moves with {LABEL_GROUP}={word} in namespace {asking.namespace}", EXIT_USAGE
        )
    if followed:
        _end(asking.client, list(found), ttl_s, output, _how_to_go_on(asking.namespace, word))
        return
    left = asking.client.withdraw(found.values())
    live = [key for key, move in found.items() if move.status.phase not in FINISHED]
    emit("".join(f"{key} withdrawn\n" for key in live if key not in left))
    if left:
        raise CommandError("; ".join(f"{key}: {why}" for key, why in left.items()))
    if not live:
        tell("all of them have ended")


def _end(client: MigrationClient, keys: Sequence[ObjectKey], ttl_s: float, output: str, how: str) -> None:
    found = follow(client, keys, ttl_s=ttl_s, how_to_go_on=how)
    if keys:
        print_moves(client, keys, found, output)
    code = exit_code(keys, found)
    if code != EXIT_DONE:
        for line in why_not(keys, found):
            tell(line)
        raise SystemExit(code)


def _how_to_go_on(namespace: str, word: str) -> str:
    return (
        f"The moves go on. To follow them: rescheduler move -n {namespace} --follow {word}; "
        f"to withdraw those that have evicted no pod: rescheduler move -n {namespace} --withdraw {word}"
    )
