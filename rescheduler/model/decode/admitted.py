"""Decodes the answer to a dry-run creation into what is kept of it: the pod as admission completed it."""

from __future__ import annotations

import msgspec

from rescheduler.model.decode.decoder import Decoder, UndecodableError
from rescheduler.model.kinds import Kind
from rescheduler.model.names import GATE
from rescheduler.model.records import Pod
from rescheduler.model.replacement_rules import AdmittedPod


def admitted_pod(body: bytes) -> AdmittedPod:
    """The pod without the gate of this program, which is removed from every replacement.

    Gates of others stay. So does a preference of our admission policy ``hint.rescheduler.dev``: the replacement gets it too.

    Raises:
        UndecodableError: the body is no pod.
    """
    pod = Decoder().record(Kind.POD, body)
    if not isinstance(pod, Pod):
        raise UndecodableError("the answer to a dry-run creation is no pod")
    spec = pod.spec
    if GATE in spec.gates:
        spec = msgspec.structs.replace(spec, gates=tuple(gate for gate in spec.gates if gate != GATE))
    return AdmittedPod(spec=spec, labels=pod.labels)
