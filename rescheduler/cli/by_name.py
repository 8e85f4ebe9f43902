"""Which pods and nodes somebody means: ``pod NAME...``, ``pod/NAME``, ``node/NAME`` or a label query, as kubectl takes them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import click

from rescheduler.cli.clients import allowed, by_label, listed
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.label_query import label_query
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ForbiddenError
from rescheduler.model.kinds import Kind
from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.suggestions import did_you_mean

_WORDS: Final = frozenset({"pod", "pods", "po"})
_WORKLOADS: Final = re.compile(r"(deployment|statefulset|replicaset)s?|deploy|sts|rs")
_NODE: Final = re.compile(r"[a-z0-9.-]+")
_RIGHT: Final = "the ClusterRole view has the right"
NODE_RIGHT: Final = (
    "draining needs the rights of kubectl drain: to read all nodes and pods, and to patch nodes"
)

Named = TypeVar("Named")


def pod_names(words: Sequence[str]) -> tuple[str, ...]:
    """The names in ``pod a b``, ``pod/a pod/b`` or ``a b``, each once. Raises CommandError."""
    kind = words[0].partition("/")[0].lower() if words else ""
    if _WORKLOADS.fullmatch(kind) and (len(words) > 1 or "/" in words[0]):
        raise CommandError(
            f"{words[0]!r}: pods are moved; those of a workload are chosen by their labels: -l app=NAME",
            EXIT_USAGE,
        )
    kind_first = bool(words) and words[0].lower() in _WORDS
    if kind_first and len(words) == 1:
        raise CommandError(f"{words[0]!r}: name a pod", EXIT_USAGE)
    rest = words[1:] if kind_first else words
    names: list[str] = []
    for word in rest:
        kind, slash, name = word.rpartition("/")
        if slash and (kind.lower() not in _WORDS or not name):
            raise CommandError(f"{word!r}: write pod NAME or pod/NAME; the namespace is -n", EXIT_USAGE)
        names.append(name)
    return tuple(dict.fromkeys(names))


def pod_key(word: str, default_namespace: str, known: Container[ObjectKey]) -> ObjectKey:
    """The pod that NAME, pod/NAME or NAMESPACE/NAME means; ``known``: pods that exist."""
    first, slash, name = word.partition("/")
    key = ObjectKey(first, name) if slash else ObjectKey(default_namespace, word)
    return (
        ObjectKey(default_namespace, name) if first.lower() in _WORDS and slash and key not in known else key
    )


def find_pods(
    api: KubeApi, namespace: str, names: Sequence[str], *, selector: str = "", node: str = ""
) -> list[Pod]:
    """Pods of a namespace ("": of all), by name, or all that the queries select; in the order of the names.

    Raises:
        CommandError: one does not exist, or they may not be listed.
        ApiError, TransportError: the API server refuses the query, or does not answer.
    """
    query = by_label(selector)
    if node and not _NODE.fullmatch(node):
        raise CommandError(f"there is no node/{node}", EXIT_USAGE)
    if node:
        query["fieldSelector"] = f"spec.nodeName={node}"
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    with allowed(f"list pods {where}", _RIGHT):
        pods = listed(api, Kind.POD, Pod, namespace=namespace, query=query)
    if not names:
        return sorted(pods, key=lambda pod: pod.key)
    empty = "" if pods else ", which has no pods: is it the right one (-n)?"
    return chosen({pod.name: pod for pod in pods}, names, "pod", f" in namespace {namespace}{empty}")


def pods_on(api: KubeApi, nodes: Iterable[str]) -> list[Pod]:
    """All pods of the nodes. Raises as ``find_pods``."""
    return [pod for node in nodes for pod in find_pods(api, "", (), node=node)]


def asked_pods(api: KubeApi, namespace: str, names: Sequence[str], *, selector: str, node: str) -> list[Pod]:
    """The same for a command that acts on them: where nothing is selected, it is because there is nothing left to do.

    Raises as ``find_pods``; CommandError, too: no pod has these labels, or there is no such node.
    """
    found = find_pods(api, namespace, names, selector=selector, node=node)
    if found or names:
        return found
    if selector and not (node and find_pods(api, namespace, (), selector=selector)):
        where = f"namespace {namespace}" if namespace else "any namespace"
        raise CommandError(f"no pod in {where} has the labels {selector}")
    with contextlib.suppress(ForbiddenError):
        nodes = {one.name: one for one in listed(api, Kind.NODE, Node)}
        chosen(nodes, [node] if node else [], "node")
    return []


def need_one_way(words: Sequence[str], selector: str) -> None:
    """Nodes are named, or chosen by labels. Raises UsageError."""
    if bool(words) == bool(selector):
        raise click.UsageError(f"name nodes, or choose them with -l LABELS{', not both' if words else ''}")


def find_nodes(api: KubeApi, words: Sequence[str], selector: str = "") -> list[Node]:
    """Nodes by name (NAME or node/NAME), in that order, or by labels.

    Raises as ``find_pods``; CommandError, too: no node has these labels.
    """
    with allowed("list nodes", NODE_RIGHT):
        found = listed(api, Kind.NODE, Node, query=by_label(selector))
    return _chosen_nodes(found, words, selector)


def find_nodes_in(nodes: Iterable[Node], words: Sequence[str], selector: str = "") -> list[Node]:
    """The same among the nodes of a dump."""
    wanted = label_query("-l", selector)
    return _chosen_nodes([node for node in nodes if wanted.matches(node.labels)], words, selector)


def _chosen_nodes(found: Iterable[Node], words: Sequence[str], selector: str) -> list[Node]:
    known = {node.name: node for node in found}
    if selector and not known:
        raise CommandError(f"no node has the labels {selector}")
    names = [word.removeprefix("nodes/").removeprefix("node/") for word in words]
    return chosen(known, names or sorted(known), "node")


def chosen(found: Mapping[str, Named], names: Sequence[str], kind: str, where: str = "") -> list[Named]:
    """Those of these names, each once. Raises CommandError: one does not exist; ``where``: in which namespace."""
    missing = [name for name in dict.fromkeys(names) if name not in found]
    if missing:
        hint = did_you_mean(missing[0], found)
        named = ", ".join(f"{kind.lower()}/{name}" for name in missing)
        raise CommandError(f"there is no {named}{where}{hint}", EXIT_USAGE)
    return [found[name] for name in dict.fromkeys(names)]
