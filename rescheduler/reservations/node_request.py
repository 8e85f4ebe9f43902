"""A pod that asks the node autoscaler for a node, as a manifest: shaped like the pod that no node takes (pure).

That is the replacement of a pod that is to move, or the pod of a Reservation's template.

cluster-autoscaler and Karpenter add nodes for pods whose condition PodScheduled is False with reason Unschedulable, whoever wrote it.
This pod is for them alone. Promises: no scheduler serves it, so it is never bound, takes no room and preempts nobody; no label of the
workload is on it; it goes with the Deployment of the controller.

It has what node autoscalers judge: requests, host ports, node constraints, tolerations, affinity of bound volumes, and what it
demands of other pods, as it can be said from another namespace: required pod affinity, and that a node has none of its
siblings (required anti-affinity by host name, or spread by it that allows a skew of 1). In which zones the node must be is worked out
beforehand (``coordination.open_domains``). The node that the pod leaves is not named: Karpenter refuses pods that speak of host names
or of the fields of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from rescheduler.calls.call import Call, create
from rescheduler.model import names
from rescheduler.model.decode.wire_form import encode_label_selector
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import HOSTNAME
from rescheduler.model.records import ObjectKey, Pod, PodAffinityTerm, Workload
from rescheduler.model.reservation import Reservation
from rescheduler.model.resources import placeholder_resources
from rescheduler.model.room_of_move import digest
from rescheduler.model.selectors import LabelSelector, NodeSelector, Operator, Requirement
from rescheduler.reservations.placeholder import owner_reference, pause_spec, slug
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.template import template_of

Json = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def is_node_request(pod: Pod) -> bool:
    """True for any, our own or that of a former process."""
    return pod.labels.get(names.LABEL_PLACEHOLDER) == names.NODE_REQUEST


def holds_nothing(pod: Pod) -> bool:
    """True for a pod of ours that only asks: a scheduler, or the node autoscaler."""
    return pod.labels.get(names.LABEL_PLACEHOLDER) in names.ASKS


def key_of(source: PodMigration | Reservation) -> ObjectKey:
    """A Reservation is in no namespace."""
    return source.key if isinstance(source, PodMigration) else ObjectKey("", source.name)


def request_key(source: PodMigration | Reservation, namespace: str) -> ObjectKey:
    """Always the same for one move or Reservation. ``namespace``: that of placeholders."""
    name = f"node-for-{slug(source.name, 'move')}-{digest(f'{source.uid}/{key_of(source)}')}"
    return ObjectKey(namespace, name)


def asks_words(request: Pod | None, refused: str, why: str) -> str:
    """What a move or Reservation says that waits while ``request`` asks, or is ``refused``; ``why``: no node takes its pod."""
    if refused:
        return f"{why}; the node autoscaler cannot be asked for a node: {refused}"
    if request is not None:
        return f"no node has room; pending pod {request.key} asks the node autoscaler for one: {why}"
    return why


def request_node(
    source: PodMigration | Reservation,
    coming: Pod,
    where: Sequence[NodeSelector],
    settings: ReservationSettings,
    controller: Workload | None,
) -> Call:
    """Make the pod. ``coming``: whom the node is for. ``where``: node affinity of its bound volumes, and what else its node must be. ``controller``: the Deployment of this program; None: there is none."""
    key = request_key(source, settings.namespace)
    metadata: Json = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {names.LABEL_PLACEHOLDER: names.NODE_REQUEST, names.LABEL_CREATED_BY: names.CREATED_BY},
    }
    if isinstance(source, PodMigration):
        metadata["annotations"] = {names.ANNOTATION_MIGRATION: str(source.key)}
    if controller is not None:
        metadata["ownerReferences"] = [owner_reference(controller, controller=False)]  # none of its replicas
    spec = _spec(coming, where, settings)
    body = msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return create("request_node", Kind.POD, key, body)


def _spec(coming: Pod, where: Sequence[NodeSelector], settings: ReservationSettings) -> Json:
    template = template_of(coming.namespace, coming.spec, where, "")["spec"]
    spec = pause_spec("request", settings.pause_image, placeholder_resources(coming.spec.requests))
    spec["containers"][0] = template["containers"][0] | spec["containers"][0]
    affinity = {**template.get("affinity", {}), **_pod_affinity(coming)}
    return {
        **spec,
        "schedulerName": names.NODE_REQUEST_SCHEDULER,
        **({"affinity": affinity} if affinity else {}),
        **{field: template[field] for field in ("nodeSelector", "tolerations") if field in template},
    }


def _pod_affinity(replacement: Pod) -> Json:
    spec = replacement.spec
    apart = [term for term in spec.pod_anti_affinity if term.topology_key == HOSTNAME]
    apart += [PodAffinityTerm(selector, HOSTNAME) for selector in _one_on_a_node(replacement)]
    found = {
        "podAffinity": _terms(spec.pod_affinity, replacement.namespace),
        "podAntiAffinity": _terms(apart, replacement.namespace),
    }
    return {field: {_REQUIRED: terms} for field, terms in found.items() if terms}


def _terms(terms: Iterable[PodAffinityTerm], namespace: str) -> list[Json]:
    return [_term(term, namespace) for term in terms if term.selector is None or not term.selector.invalid]


def _one_on_a_node(replacement: Pod) -> Iterator[LabelSelector]:
    """Spread by host name with a skew of 1: beside an empty node, no other one with a sibling takes it."""
    labels = replacement.labels
    for one in replacement.spec.spread:
        alone = one.hard and one.topology_key == HOSTNAME and one.max_skew == 1
        if alone and one.selector is not None and one.selector.matches(labels):
            same = (Requirement(k, Operator.IN, (labels[k],)) for k in one.match_label_keys if k in labels)
            if requirements := (*one.selector.requirements, *same):
                yield LabelSelector(requirements)


def _term(term: PodAffinityTerm, namespace: str) -> Json:
    """As the replacement would have it: its own namespace is named, because the request stands in another one."""
    own = () if term.namespaces or term.namespace_selector is not None else (namespace,)
    written: Json = {"topologyKey": term.topology_key}
    if term.selector is not None:
        written["labelSelector"] = encode_label_selector(term.selector)
    if listed := (*term.namespaces, *own):
        written["namespaces"] = list(listed)
    if term.namespace_selector is not None:
        written["namespaceSelector"] = encode_label_selector(term.namespace_selector)
    return written
