"""Reads single ConfigMaps, such as the controller's own, once; ``config_map_informer`` follows one of them."""

from __future__ import annotations

from typing import Final

from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import NotFoundError
from rescheduler.model.config_map import MISSING, ConfigMap
from rescheduler.model.decode.budgets import with_annotations
from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.wire_form import object_reader, object_type
from rescheduler.model.decode.wire_types import MetaWire
from rescheduler.model.kinds import CONFIG_MAPS

_WIRE: Final = object_type(ConfigMap)
_read: Final = object_reader(ConfigMap, SharedParts(), with_annotations)


def read_config_map(api: KubeApi, namespace: str, name: str) -> ConfigMap:
    """The ConfigMap as stored now; empty and without a version if there is none. Raises ApiError, TransportError."""
    try:
        found = read_answer(api.get(CONFIG_MAPS.object_path(namespace, name)), _WIRE)
    except NotFoundError:
        return MISSING
    stored: ConfigMap = _read(found, found.metadata or MetaWire())
    return stored
