"""What descheduler would evict from a small cluster, asked of this program: its policy is converted, and a plan is made of that.

The rows say what descheduler does in the same situation. Where it evicts into a cluster with a single node, the row has
an empty node besides: without a place to go nothing is planned here, which each table asks of its rows, too.
"""

from dataclasses import dataclass, replace
from typing import Any

from harness import builders as b
from rescheduler.cli.dump_words import resolved
from rescheduler.configuration.document import parse_configuration
from rescheduler.conversion.policy_conversion import convert_policy
from rescheduler.model.kinds import Kind
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import plan
from rescheduler.scheduling.state import SchedulingState


@dataclass(frozen=True)
class Row:
    """One row of a table: a cluster, what the policy says, and who goes."""

    says: str
    nodes: list[Any]
    pods: list[Any]
    goes: int | set[str]
    """How many pods, or their names."""
    arguments: str = "{}"
    evictor: str = "{}"
    top: str = ""
    limited: bool = False
    """One decision of the controller, with all its limits; otherwise what ``rescheduler plan`` shows."""
    aggressiveness: float = 0.5

    def __str__(self) -> str:
        return self.says


def plan_of(plugin: str, row: Row) -> Plan:
    """The plan for the cluster of a row, with the converted policy."""
    text = f"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
{row.top}
profiles:
- name: p
  pluginConfig:
  - {{name: DefaultEvictor, args: {row.evictor}}}
  - {{name: {plugin}, args: {row.arguments}}}
  plugins:
    balance: {{enabled: [{plugin}]}}
"""
    converted = convert_policy(text, "policy.yaml", lambda word, _path: resolved(word))
    configuration = parse_configuration(f"{converted.text}aggressiveness: {row.aggressiveness}\n", "out")
    cluster = b.snapshot(row.nodes, *row.pods)
    inputs = configuration.inputs(unlimited=not row.limited)
    state = SchedulingState(cluster, configuration.profile)
    return plan(cluster, configuration.build_policies(), inputs, state)


def agree(plugin: str, row: Row) -> None:
    """The pods that go are those of the row."""
    names = [move.pod.name for move in plan_of(plugin, row).moves]
    assert (len(names) if isinstance(row.goes, int) else set(names)) == row.goes, names


def nobody_goes_without_spare(plugin: str, row: Row) -> None:
    """No pod goes where the cluster of the row has no node named spare."""
    nodes = [node for node in row.nodes if node.manifest()["metadata"]["name"] != "spare"]
    assert plan_of(plugin, replace(row, nodes=nodes)).moves == ()


def small(name: str, cpu: int = 2000, memory: int = 3000, pods: int = 10) -> b.NodeBuilder:
    """A node as descheduler's tests have them: milli-CPU, bytes, pods."""
    return b.node(name).allocatable(cpu=f"{cpu}m", memory=str(memory), pods=str(pods))


def workload(
    name: str, on: list[str], make: Any = lambda spec: spec, namespace: str = "default", cpu: int = 100
) -> list[Any]:
    """A ReplicaSet and its pods NAME-0, NAME-1, ... on these nodes."""
    owner = make(b.replicaset(name, namespace).cpu(f"{cpu}m")).replicas(len(on))
    return [owner, *(owner.pod(f"{name}-{i}").on(place) for i, place in enumerate(on))]


CRITICAL = 2_000_000_000
"""The lowest priority that is the system's."""
GPU = "example.com/gpu"


def changed(parts: list[Any], change: Any) -> list[Any]:
    """The pods of a workload, changed."""
    return [change(part) if part.kind == Kind.POD else part for part in parts]


def agent(node: str = "n1", count: int = 1, cpu: int = 100) -> list[Any]:
    """Pods of a DaemonSet."""
    owner = b.daemonset("agent").cpu(f"{cpu}m")
    return [owner, *(owner.pod(f"agent-{i}").on(node) for i in range(count))]


def mirror(node: str = "n1", cpu: int = 400) -> list[Any]:
    """That of a static pod."""
    pod = b.pod("mirror").cpu(f"{cpu}m").on(node).annotate({"kubernetes.io/config.mirror": "x"})
    return [pod.owner("Node", node, api_version="v1")]


def with_gpu(spec: Any) -> Any:
    """Requests one GPU."""
    return spec.requests({GPU: "1"})


def gpus(node: b.NodeBuilder, count: int = 8) -> b.NodeBuilder:
    """A node with GPUs."""
    return node.allocatable({GPU: str(count)})
