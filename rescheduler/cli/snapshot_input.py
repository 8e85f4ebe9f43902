"""Reads the Snapshot for a command, from a dump or from the live cluster. Both ways make the same Snapshot.

``kubectl cluster-info dump``, must-gather and ``kubectl get nodes,pods`` leave most kinds out. What the pods of the dump refer to
tells which of them are missing; of budgets and quotas nothing tells, so they are named whenever there are none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import click
from click.core import ParameterSource

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.dump_files import InputError, SourceWarning
from rescheduler.cli.dump_reader import read_sources
from rescheduler.cli.options import parse_moment
from rescheduler.cli.output import StatusLine, warn
from rescheduler.controller.reading import read_cluster, read_rules
from rescheduler.model.cluster import ClusterState
from rescheduler.model.counted import plural
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import Pod
from rescheduler.model.replacement_rules import DEFAULT_RULES, ReplacementRules
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_timestamp

COMPLETE_DUMP: Final = (
    "kubectl get nodes,pods,replicasets,deployments,statefulsets,daemonsets,jobs,pdb,resourcequotas,priorityclasses,pv,pvc,sc,csinodes,ns "
    "-A -o json"
)
"""What has all that a plan looks at in a cluster without extensions."""
_DUMP_IT: Final = f"write it with: {COMPLETE_DUMP}"
_NAMED: Final = 5
UNDATED_S: Final = 1e9
"""The moment of a dump in which nothing has a time: long after 0.0, which stands for a time that an object does not have.

So every age is a long one, as it is of nearly all pods of a cluster, and the plan is the one of any ``--now``.
"""
_LIKE_THE_PRESENT: Final = "it is assumed that each pod is replaced by one like it"
_CONTROLLERS: Final = (Kind.REPLICA_SET, Kind.REPLICATION_CONTROLLER, Kind.STATEFUL_SET, Kind.JOB)
_CLAIMS: Final = (VolumeKind.CLAIM, VolumeKind.EPHEMERAL)
_SYSTEM: Final = "system-"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInput:
    """A snapshot and its source."""

    snapshot: Snapshot
    source: str
    warnings: tuple[str, ...]


def read_input(
    cluster: NamedCluster,
    *,
    paths: Sequence[str] = (),
    more_paths: Sequence[str] = (),
    now: str | None = None,
    rules: ReplacementRules = DEFAULT_RULES,
    namespace: str = "",
    pod_usage: bool = False,
    warned: bool = True,
) -> SnapshotInput:
    """Read a dump if paths are given, else the live cluster.

    ``warned``: warnings are written to stderr too.
    ``rules``: which controllers replace their pods, by configuration.
    ``namespace``: where the controller of the live cluster keeps its ConfigMaps, if not as the options say.
    ``pod_usage``: measured usage of pods too; a dump tells what is in it.

    Without --now the time of a dump is its newest timestamp, or UNDATED_S, so that the same input gives the same output.
    """
    moment = None if now is None else parse_moment("--now", now)
    if paths:
        sources = (*paths, *more_paths)
        with StatusLine() as line:
            state, warnings = read_sources(sources, Decoder(), line.progress("reading"))
        found = state.snapshot((newest_time_s(state) or UNDATED_S) if moment is None else moment, rules)
        texts = (*map(str, warnings), *judged_dump(found, ", ".join(sources), warnings))
    else:
        api = cluster.api()
        with StatusLine() as line:
            namespace = namespace or cluster.controller_namespace
            advance = line.progress("reading the cluster")
            read = read_cluster(
                api, Decoder(), advance, now_s=time.time(), namespace=namespace, pod_usage=pod_usage
            )
            found = read.state.snapshot(time.time() if moment is None else moment, read_rules(read, rules))
        texts = read.warnings if found.nodes else (*read.warnings, "the live cluster has no nodes")
    for text in texts if warned else ():
        warn(text)
    return SnapshotInput(
        snapshot=found, source=", ".join((*paths, *more_paths)) or "live cluster", warnings=texts
    )


def need_from(paths: Sequence[str], more_paths: Sequence[str] = ()) -> None:
    """Refuse paths of a dump without --from, and a dump together with a cluster. Raises UsageError."""
    told = click.get_current_context().get_parameter_source
    for name in ("kubeconfig", "context") if paths else ():
        if told(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--from reads a dump, and --{name} names a live cluster: leave one of them out"
            )
    if not paths and more_paths:
        raise click.UsageError(
            f"unexpected argument {more_paths[0]!r}; to read a dump use --from {more_paths[0]}"
        )


def need_rehearsal(paths: Sequence[str], *, rehearsed: bool) -> None:
    """Refuse to change what is in a dump. Raises UsageError."""
    need_from(paths)
    if paths and not rehearsed:
        raise click.UsageError("--from reads a dump, in which nothing can be changed: add --plan")


def judged_dump(snapshot: Snapshot, source: str, warnings: Sequence[SourceWarning] = ()) -> Iterator[str]:
    """What a plan for this dump leaves out, for people. ``warnings``: of reading it; the first may say where the nodes are.

    Raises:
        InputError: there is no cluster in it.
    """
    if not snapshot.nodes:
        others = ", and nothing else" if not snapshot.pods else f", but {plural(len(snapshot.pods), 'pod')}"
        skipped = f" ({warnings[0]})" if warnings else ""
        raise InputError(source, 0, f"the dump has no nodes{others}{skipped}", _DUMP_IT)
    if not snapshot.pods:
        yield f"{source}: the dump has no pods; {_DUMP_IT}"
    missing = [f"the dump has no {plural_of(kind)}: {assumed}" for kind, assumed in missing_kinds(snapshot)]
    yield from (f"{source}: {text}" for text in missing[:-1])
    if missing:
        yield f"{source}: {missing[-1]}; if the cluster has any, {_DUMP_IT}"
    lost = sorted(str(p.key) for p in snapshot.pods.values() if p.node and p.node not in snapshot.nodes)
    if lost:
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        named = ", ".join(lost[:_NAMED])
        yield (
            f"{source}: {plural(len(lost), 'pod')} on nodes that are not in the dump: {named}{more}; they do not count, "
            "neither as moved nor as in the way"
        )
    if snapshot.taken_at_s == UNDATED_S:
        yield (
            f"{source}: no node and no pod has a time: everything counts as old, and the plan is dated "
            f"{format_timestamp(UNDATED_S)}; give --now to date it"
        )


def newest_time_s(state: ClusterState) -> float:
    """The newest timestamp of nodes, pods and measurements; 0.0 if there is none."""
    snapshot = state.snapshot(0.0)
    pods = (max(p.created_at_s, p.started_at_s, p.ready_since_s) for p in snapshot.pods.values())
    nodes = (n.created_at_s for n in snapshot.nodes.values())
    measured = (usage.measured_at_s for usage in snapshot.usage.values())
    return max(max(times, default=0.0) for times in (pods, nodes, measured))


def missing_kinds(snapshot: Snapshot) -> Iterator[tuple[Kind, str]]:
    """Each kind that is missing, with what the plan assumes."""
    pods, workloads = snapshot.pods.values(), snapshot.workloads.values()
    if not pods:
        return
    if not snapshot.budgets:
        yield Kind.POD_DISRUPTION_BUDGET, "it is assumed that no budget forbids an eviction"
    if not snapshot.resource_quotas:
        yield Kind.RESOURCE_QUOTA, "it is assumed that no quota refuses a replacement or a Reservation"
    known = {workload.kind for workload in workloads}
    wanted = {pod.controller.kind for pod in pods if pod.controller is not None}
    for kind in _CONTROLLERS:
        if kind in wanted and kind not in known:
            yield kind, _LIKE_THE_PRESENT
    above = {workload.controller.kind for workload in workloads if workload.controller is not None}
    if Kind.DEPLOYMENT in above and Kind.DEPLOYMENT not in known:
        yield Kind.DEPLOYMENT, "it is assumed that no rollout is under way"
    classes = {pod.spec.priority_class for pod in pods}
    if not snapshot.priority_classes and any(name and not name.startswith(_SYSTEM) for name in classes):
        yield Kind.PRIORITY_CLASS, "it is assumed that each replacement has the priority of its pod"
    yield from _storage(snapshot)
    if not snapshot.namespaces and any(_selects_namespaces(pod) for pod in pods):
        yield Kind.NAMESPACE, "it is assumed that no namespace has labels"


def plural_of(kind: Kind) -> str:
    """For people."""
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def _storage(snapshot: Snapshot) -> Iterator[tuple[Kind, str]]:
    volumes = {volume.kind for pod in snapshot.pods.values() for volume in pod.spec.volumes}
    claims = snapshot.claims.values()
    if not claims and not volumes.isdisjoint(_CLAIMS):
        yield Kind.PERSISTENT_VOLUME_CLAIM, "pods with claims fit on no node"
    if not snapshot.volumes and any(claim.volume for claim in claims):
        yield Kind.PERSISTENT_VOLUME, "pods with bound claims fit on no node"
    if not snapshot.storage_classes and any(not claim.volume for claim in claims):
        yield Kind.STORAGE_CLASS, "claims that are not bound get no volume"
    if not snapshot.csi_nodes and snapshot.volumes:
        yield Kind.CSI_NODE, "it is assumed that each node attaches any number of volumes"


def _selects_namespaces(pod: Pod) -> bool:
    spec = pod.spec
    return any(term.namespace_selector is not None for term in (*spec.pod_affinity, *spec.pod_anti_affinity))
