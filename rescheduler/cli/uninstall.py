"""``rescheduler uninstall``: takes rescheduler out of a cluster, in the order in which no pod is left waiting."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import click

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_USAGE, CommandError
from rescheduler.cli.output import emit, tell
from rescheduler.cli.uninstall_cluster import InstalledCluster
from rescheduler.cli.uninstall_steps import POLL_S, RemovalStep, Steps
from rescheduler.kube.errors import ApiError, ForbiddenError
from rescheduler.kube.installation import Manifest, everything
from rescheduler.kube.retry import DEADLINE_S
from rescheduler.kube.transport import TransportError

_GATES: Final = (
    "MutatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingWebhookConfiguration",
)
_GUARD: Final = "ValidatingWebhookConfiguration"
_RESPONDER: Final = ("responder.rescheduler.dev", "rescheduler-responder")
"""Of EvictionRequests: its policy, and its rights, without which it hears of none."""
_THING: Final = "  "
"""Begins the line of a thing that is there."""
_KUBELET_S: Final = 30.0
"""A kubelet that has not ended a placeholder after so long is down."""
_QUIET_S: Final = 3.0
"""How long an API server may go by a policy that is deleted."""


_STOP_IT: Final = "a controller that no Deployment started is running: {} renews the Lease; stop that process and run this again"
_LETS_GO: Final = (
    "a controller is running: {} renews the Lease, and lets gated pods go itself; what each of them waits for: "
    "rescheduler explain pod --all-pending"
)
_DONE: Final = """\
rescheduler is uninstalled.
Before it is installed here again, restart the API servers, which do not follow the ConfigMap of policies that come back.
Where you cannot, install it with the webhook instead: manifests/overlays/webhook, or helm with --set webhook=true.
"""


def run(*, cluster: NamedCluster, dry_run: bool, namespace: str, wait_s: float, yes: bool) -> None:
    """Take rescheduler out of a cluster: no pod stays gated, no room, taint or object stays behind."""
    installed, server = _installed(cluster, namespace, "--namespace"), cluster.server()
    if sys.stdin.isatty() and not (yes or dry_run) and not _confirmed(server):
        raise CommandError("nothing was changed")
    said = _carry_out(server, lambda steps: uninstall(installed, steps, dry_run=dry_run, wait_s=wait_s))
    if dry_run:
        emit("Nothing was changed.\n")
    elif any(line.startswith(_THING) for line in said):
        emit(_DONE)
    else:
        emit(f"rescheduler is not installed in {server}: nothing of it was found.\n")


def let_go(*, cluster: NamedCluster, dry_run: bool) -> None:
    """Let the pods go that wait at the gate of a controller that has stopped; all else stays."""
    installed = _installed(cluster, cluster.controller_namespace, "--controller-namespace")
    _carry_out(cluster.server(), lambda steps: release_gates(installed, steps, dry_run=dry_run))
    emit("Nothing was changed.\n" if dry_run else "No pod waits at the gate.\n")


def _installed(cluster: NamedCluster, namespace: str, option: str) -> InstalledCluster:
    """Raises CommandError: the controller is in another namespace, where nothing would stop it."""
    found = InstalledCluster(cluster.api(DEADLINE_S), namespace)
    if elsewhere := found.elsewhere():
        raise CommandError(f"the controller is in namespace {elsewhere}: {option} {elsewhere}", EXIT_USAGE)
    return found


def _carry_out(server: str, work: Callable[[Steps], tuple[str, ...]]) -> list[str]:
    """The lines that were told. Raises SystemExit where something is left over; ApiError, TransportError, CommandError."""
    said = list[str]()

    def say(line: str) -> None:
        emit(f"{line}\n" if said else f"The cluster: {server}\n{line}\n")
        said.append(line)

    try:
        left = work(Steps(say=say))
    except (ApiError, TransportError) as error:
        again = "run it again as an administrator" if isinstance(error, ForbiddenError) else "run it again"
        error.add_note(f"Nothing is lost: {again}, it goes on where it stopped.")
        raise
    if left:
        listed = "".join(f"\n  {what}" for what in left)
        tell(f"Not everything could be removed; run it again:{listed}")
        raise SystemExit(EXIT_BLOCKED)
    return said


def _confirmed(server: str) -> bool:
    try:
        return click.confirm(f"Take rescheduler out of {server}?", err=True)
    except click.Abort:  # the end of the input, or Ctrl-C, which is told as such
        return False


def uninstall(cluster: InstalledCluster, steps: Steps, *, dry_run: bool, wait_s: float) -> tuple[str, ...]:
    """Take all steps. Returns what is left over. Raises ApiError, TransportError, CommandError."""
    first, last = plan(cluster, everything(cluster.namespace), steps.clock, wait_s)
    if dry_run:
        for step in (*first, *last):
            steps.show(step)
        return ()
    if cluster.leader_is_outside():
        refuse_a_running_controller(cluster, steps, f"{_STOP_IT}. Nothing was changed.")
    # Moves that do not end in time are given back with their rooms: what is left of these steps is no failure.
    for step in first:
        steps.take(step)
    refuse_a_running_controller(cluster, steps)
    left = (what for step in last for what in steps.take(step, past_refusals=True))
    return tuple(dict.fromkeys(left))


def release_gates(cluster: InstalledCluster, steps: Steps, *, dry_run: bool) -> tuple[str, ...]:
    """Let all gated pods go, nothing else. Returns those left over. Raises ApiError, TransportError, CommandError."""
    step = RemovalStep(title="Pods that wait at the gate", find=cluster.gated_pods, quiet_s=_QUIET_S)
    if dry_run:
        steps.show(step)
        return ()
    refuse_a_running_controller(cluster, steps, _LETS_GO)
    return steps.take(step, past_refusals=True)


def plan(
    cluster: InstalledCluster, manifests: Sequence[Manifest], clock: Callable[[], float], wait_s: float
) -> tuple[tuple[RemovalStep, ...], tuple[RemovalStep, ...]]:
    """The steps that stop the controller, and those that remove what it leaves."""
    deployments = [obj for obj in manifests if obj["kind"] == "Deployment"]
    guards = [obj for obj in manifests if obj["kind"] == _GUARD or obj["metadata"]["name"] in _RESPONDER]
    gates = [obj for obj in manifests if obj["kind"] in _GATES and obj not in guards]
    rest = [
        obj
        for obj in manifests
        if obj["kind"] not in ("Deployment", "Namespace", *_GATES) and obj not in guards
    ]
    namespaced = [obj for obj in rest if "namespace" in obj["metadata"]]
    others = [obj for obj in rest if "namespace" not in obj["metadata"]]
    released = partial(RemovalStep, find=cluster.gated_pods)
    first = (
        # Before the moves: evictions that wait would make new ones.
        RemovalStep(title="The guard: evictions go on as without it", find=lambda: cluster.objects(guards)),
        RemovalStep(
            title="Moves: none begins any more, those that have evicted their pods end",
            find=cluster.moves,
            limit_s=wait_s if cluster.may_act(deployments) else 0.0,
            quiet_s=1.0,
        ),
        # Before everything else: with the controller gone, nobody would take the gate off.
        RemovalStep(title="The gate: no new pod is gated", find=lambda: cluster.objects(gates)),
        RemovalStep(title="The controller", find=lambda: cluster.controller(deployments), limit_s=120.0),
    )
    last = (
        RemovalStep(
            title="The gate, if the controller has made it again",
            find=lambda: cluster.objects(gates),
            again=True,
        ),
        released(title="Pods that wait at the gate", quiet_s=_QUIET_S),
        RemovalStep(
            title="Moves and rooms", find=partial(cluster.rooms, _after(_KUBELET_S, clock)), limit_s=120.0
        ),
        RemovalStep(title="Nodes", find=cluster.nodes),
        RemovalStep(title="Notes of rooms on pods", find=cluster.notes),
        released(title="Pods that came to the gate meanwhile", again=True),
        RemovalStep(title="Objects without a namespace", find=lambda: cluster.objects(others), limit_s=120.0),
        RemovalStep(title="Objects of the namespace", find=lambda: cluster.objects(namespaced)),
        RemovalStep(title="The namespace", find=lambda: cluster.own_namespace(manifests), limit_s=120.0),
    )
    return first, last


def _after(seconds: float, clock: Callable[[], float]) -> Callable[[], bool]:
    """False until so long after the first call."""
    began_s: list[float] = []

    def passed() -> bool:
        now_s = clock()
        if not began_s:
            began_s.append(now_s)
        return now_s - began_s[0] >= seconds

    return passed


def refuse_a_running_controller(cluster: InstalledCluster, steps: Steps, remedy: str = _STOP_IT) -> None:
    """Raises CommandError if a controller (outside of the Deployment) renews its Lease: it would make everything again.

    Whether it lives is seen by the Lease alone, for its duration: clocks of two machines are not compared.
    """
    holder, renewed, lasts_s = cluster.lease()
    ends_s = steps.clock() + lasts_s
    if holder:
        steps.say(f"The Lease of {holder}: is it renewed within {lasts_s:g} s?")
    while holder and steps.clock() < ends_s:
        steps.sleep(POLL_S)
        holder, now_renewed, _ = cluster.lease()
        if holder and now_renewed != renewed:
            raise CommandError(remedy.format(holder))
