"""Which pods somebody means: ``pod NAME...``, ``pod/NAME``, or a label query, as kubectl takes them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.installed import allowed
from rescheduler.cli.listing import listed
from rescheduler.kube.client import KubeApi
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.suggestions import did_you_mean

_WORDS: Final = frozenset({"pod", "pods", "po"})
_WORKLOADS: Final = frozenset(
    {
        "deployment",
        "deployments",
        "deploy",
        "statefulset",
        "statefulsets",
        "sts",
        "replicaset",
        "replicasets",
        "rs",
    }
)
_RIGHT: Final = "the ClusterRole view has the right"


def pod_names(words: Sequence[str]) -> tuple[str, ...]:
    """The names in ``pod a b``, ``pod/a pod/b`` or ``a b``, each once. Raises CommandError."""
    kind = words[0].partition("/")[0].lower() if words else ""
    if kind in _WORKLOADS and (len(words) > 1 or "/" in words[0]):
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
    query = {"labelSelector": selector} if selector else {}
    if node:
        query["fieldSelector"] = f"spec.nodeName={node}"
    pods = _listed(api, namespace, query)
    if not names:
        return sorted(pods, key=lambda pod: pod.key)
    found = {pod.name: pod for pod in pods}
    missing = [name for name in names if name not in found]
    if missing:
        hint = did_you_mean(missing[0], found)
        raise CommandError(f"there is no pod {', '.join(missing)} in namespace {namespace}{hint}", EXIT_USAGE)
    return [found[name] for name in names]


def _listed(api: KubeApi, namespace: str, query: dict[str, str]) -> list[Pod]:
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    with allowed(f"list pods {where}", _RIGHT):
        return listed(api, Decoder(), Kind.POD, Pod, namespace=namespace, query=query)
