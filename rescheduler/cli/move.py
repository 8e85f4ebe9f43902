"""``rescheduler move``: asks the controller to move pods, and follows them until they have landed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import click

from rescheduler.cli.by_name import asked_pods, pod_names
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_DONE, EXIT_USAGE, CommandError
from rescheduler.cli.following import exit_code, follow_moves, print_moves, why_not
from rescheduler.cli.live_controller import live_controller, read_for
from rescheduler.cli.migration_client import MigrationClient, MoveOrder
from rescheduler.cli.move_checks import CheckedMove, check_moves
from rescheduler.cli.options import time_limit
from rescheduler.cli.output import emit, emit_objects, is_text, tell
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ForbiddenError
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.model.counted import plural
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import LABEL_GROUP
from rescheduler.model.never_moves import belongs_to_node, never_moves
from rescheduler.model.node_autoscaler import may_be_asked
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.reports.table import flat_table
from rescheduler.suggestions import did_you_mean

_GROUP_BYTES: Final = 4


def run(
    *,
    words: tuple[str, ...],
    selector: str,
    source: str,
    target: str,
    namespace: str | None,
    all_namespaces: bool,
    timeout: str,
    wait: bool,
    followed: str,
    withdraw: str,
    dry_run: bool,
    output: str,
    cluster: NamedCluster,
) -> None:
    """Move pods to other nodes: room for each replacement is reserved before its pod is evicted."""
    ttl_s = time_limit(timeout)
    if all_namespaces and words:
        raise click.UsageError("-A and the name of a pod exclude each other")
    api = cluster.api()
    asking = _Asking(
        cluster=cluster,
        api=api,
        client=MigrationClient(api),
        namespace="" if all_namespaces else cluster.namespace(namespace),
        target=target,
        ttl_s=ttl_s,
        output=output,
    )
    if followed or withdraw:
        if words or selector or source or target:
            raise click.UsageError(
                "--follow and --withdraw name the moves: leave out pods, -l, --from and --to"
            )
        asking.again(followed, withdraw)
        return
    names = pod_names(words)
    if bool(names) == bool(selector or source):
        raise click.UsageError("name pods, or choose them with -l LABELS, --from NODE or both")
    pods = asked_pods(api, asking.namespace, names, selector=selector, node=source)
    if not pods:
        tell("no pods")
        return
    if not names:
        pods = _to_be_moved(pods, off_a_node=bool(source))
    if pods:
        asking.move(pods, wait=wait, dry_run=dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """Whom a command asks, and for what."""

    cluster: NamedCluster
    api: KubeApi
    client: MigrationClient
    namespace: str
    target: str
    ttl_s: float
    output: str

    def move(self, pods: Sequence[Pod], *, wait: bool, dry_run: bool) -> None:
        """Ask for what can be moved, and follow it. Raises CommandError, SystemExit."""
        moving, wanted = self._sorted_out(pods)
        checked = self._checked(wanted)
        group = secrets.token_hex(_GROUP_BYTES)
        order = MoveOrder(group=group, ttl_s=self.ttl_s, reason="asked for with rescheduler move")
        keys, made = self.client.ask([(pod, self.target) for pod in wanted], order, dry_run=dry_run)
        if dry_run:
            _print_dry_run(checked, made, self.output)
        elif wait:
            self._follow([*keys, *moving], group)
        else:
            print_moves(self.client, keys, self.client.group([self.namespace], group), self.output)
            tell(self._how_to_go_on(group))

    def again(self, followed: str, withdrawn: str) -> None:
        """Take up the moves of an earlier command. Raises CommandError, SystemExit."""
        word = followed or withdrawn
        found: Mapping[ObjectKey, PodMigration] = self.client.group([self.namespace], word)
        if not found:
            raise CommandError(
                f"there are no moves with {LABEL_GROUP}={word} in {f'namespace {self.namespace}' if self.namespace else 'any namespace'}",
                EXIT_USAGE,
            )
        if followed:
            self._follow(list(found), word)
            return
        left = self.client.withdraw(found.values())
        live = [key for key, move in found.items() if move.status.phase not in FINISHED]
        emit("".join(f"{key} withdrawn\n" for key in live if key not in left))
        if left:
            raise CommandError("; ".join(f"{key}: {why}" for key, why in left.items()))
        if not live:
            tell("all of them have ended")

    def _follow(self, keys: Sequence[ObjectKey], group: str) -> None:
        found = follow_moves(self.client, keys, ttl_s=self.ttl_s, how_to_go_on=self._how_to_go_on(group))
        if keys:
            print_moves(self.client, keys, found, self.output)
        code = exit_code(keys, found)
        if code != EXIT_DONE:
            for line in why_not(keys, found):
                tell(line)
            raise SystemExit(code)

    def _how_to_go_on(self, word: str) -> str:
        where = f"-n {self.namespace}" if self.namespace else "-A"
        return (
            f"The moves go on. To follow them: rescheduler move {where} --follow {word}; "
            f"to withdraw those that have evicted no pod: rescheduler move {where} --withdraw {word}"
        )

    def _sorted_out(self, pods: Sequence[Pod]) -> tuple[list[ObjectKey], list[Pod]]:
        """(moves of these pods that are under way, pods to move). Raises CommandError if one can never be moved."""
        refused = [(pod, why) for pod in pods if (why := _never(pod))]
        if refused:
            raise CommandError(_refused([f"{pod.key}: the pod {why}" for pod, why in refused]))
        for pod in pods:
            if self.target and pod.node == self.target:
                tell(f"{pod.key} is on node/{self.target} already")
        pods = [pod for pod in pods if not (self.target and pod.node == self.target)]
        live = [m for m in self.client.select(self.namespace) if m.status.phase not in FINISHED]
        by_pod = {ObjectKey(move.namespace, move.pod_name): move for move in live if not move.deleting}
        moving = [(pod, by_pod[pod.key]) for pod in pods if _moves(by_pod.get(pod.key), pod)]
        for pod, move in moving:
            to = move.target_node or move.status.node_name
            if self.target and to and to != self.target:
                raise CommandError(
                    f"{pod.key} is being moved to node/{to} already; to stop that: kubectl delete podmigration "
                    f"-n {move.namespace} {move.name}"
                )
            tell(f"{pod.key} is being moved already, by PodMigration {move.name}")
        taken = {pod.uid for pod, _ in moving}
        return [move.key for _, move in moving], [pod for pod in pods if pod.uid not in taken]

    def _checked(self, pods: Sequence[Pod]) -> list[CheckedMove]:
        """What would become of the moves. Raises CommandError: nobody would carry them out, or one is refused."""
        if not pods:
            return []
        controller = live_controller(self.cluster, self.api)
        controller.need()
        try:
            snapshot = read_for(self.cluster, controller.configuration).snapshot
        except ForbiddenError as error:
            tell(
                f"whether there is room is left to the controller: you may not read the cluster ({error.message})"
            )
            return [CheckedMove(pod=pod, target=self.target) for pod in pods]
        configuration = controller.told_configuration()
        if self.target and self.target not in snapshot.nodes:
            hint = did_you_mean(self.target, snapshot.nodes)
            raise CommandError(f"there is no node/{self.target}{hint}", EXIT_USAGE)
        checked = check_moves(snapshot, configuration, pods, self.target)
        asks = may_be_asked(configuration.reservations.node_autoscaler, snapshot)
        for check in (waiting := [check for check in checked if asks and check.no_room]):
            tell(f"{check.pod.key} waits, and the node autoscaler is asked for a node: {check.refusal}")
        refused = [
            f"{check.pod.key}: {check.refusal}" for check in checked if check.refusal and check not in waiting
        ]
        if refused:
            raise CommandError(_refused(refused))
        return checked


def _to_be_moved(chosen: Sequence[Pod], *, off_a_node: bool) -> list[Pod]:
    """Those that labels or a node stand for, without what is over; all of a node's: without what belongs to it."""
    wanted: list[Pod] = []
    for pod in chosen:
        if pod.deleting or pod.terminal or (off_a_node and belongs_to_node(pod)):
            tell(f"{pod.key} is left out: the pod {_never(pod)}")
        else:
            wanted.append(pod)
    return wanted


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
    rows = [
        (str(c.pod.key), c.pod.node or "-", "-" if c.refusal else c.target, c.refusal or "") for c in checked
    ]
    table = partial(flat_table, ("POD", "FROM", "TO", "REFUSED"), rows)
    emit_objects(output, "pod", (check.pod.name for check in checked), made, table)
    if is_text(output):
        tell("Nothing was changed.")
