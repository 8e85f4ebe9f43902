"""Single ConfigMaps, such as the controller's own: they are no part of a Snapshot.

Read once here; ``config_map_informer`` follows one of them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import NotFoundError
from rescheduler.model.decode.budgets import ConfigMapWire
from rescheduler.model.decode.wire_types import MetaWire
from rescheduler.model.kinds import CONFIG_MAPS
from rescheduler.model.names import ANNOTATION_VALID_UNTIL
from rescheduler.model.times import parse_timestamp


@dataclass(frozen=True, slots=True)
class StoredConfigMap:
    """A ConfigMap as it was read. ``version``: its resourceVersion; empty if it does not exist."""

    data: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    valid_until_s: float = 0.0
    """Until when its keys hold pods, by the API server's time; 0: they hold none."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    binary_data: Mapping[str, str] = field(default_factory=dict)

    def document(self, key: str) -> bytes | None:
        """What stands under ``key``; kubectl stores a file that is not UTF-8 as binary data, and whoever reads it can say so."""
        if (text := self.data.get(key)) is not None:
            return text.encode()
        coded = self.binary_data.get(key)
        return None if coded is None else base64.b64decode(coded)


def read_config_map(api: KubeApi, namespace: str, name: str) -> StoredConfigMap:
    """The ConfigMap as stored now; empty and without a version if there is none. Raises ApiError, TransportError."""
    try:
        body = api.get(CONFIG_MAPS.object_path(namespace, name))
    except NotFoundError:
        return StoredConfigMap()
    found = read_answer(body, ConfigMapWire)
    meta = found.metadata or MetaWire()
    noted = {key: text or "" for key, text in (meta.annotations or {}).items()}
    version, binary_data = meta.resource_version or "", found.binary_data or {}
    return StoredConfigMap(found.data or {}, version, valid_until_s(noted), noted, binary_data)


def valid_until_s(annotations: Mapping[str, str]) -> float:
    """0 if there is no time, or one that cannot be read: then the gate policy holds no pod either."""
    try:
        return parse_timestamp(annotations.get(ANNOTATION_VALID_UNTIL, ""))
    except ValueError:
        return 0.0
