"""Objects of one kind as a command lists them: decoded, without damaged ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from rescheduler.kube.client import KubeApi
from rescheduler.kube.list_page import read_page
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind

Record = TypeVar("Record")

_ALL: Final[Mapping[str, str]] = {}


def listed(
    api: KubeApi,
    decoder: Decoder,
    kind: Kind,
    record: type[Record],
    *,
    namespace: str = "",
    query: Mapping[str, str] = _ALL,
) -> list[Record]:
    """All that a query selects; ``namespace`` "": of all. Raises ApiError, TransportError."""
    resource = RESOURCES[kind]
    path = resource.object_path(namespace, "") if namespace else resource.collection_path
    found = (one for page in api.list(path, query) for one in read_page(page, decoder, kind).records)
    return [one for one in found if isinstance(one, record)]
