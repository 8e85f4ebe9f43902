"""A ConfigMap of the controller's own, or the configuration; no part of a Snapshot."""

from __future__ import annotations

import base64

from msgspec import field

from rescheduler.model.forms import Texts
from rescheduler.model.records import Namespaced


class ConfigMap(Namespaced, frozen=True, gc=False, kw_only=True):
    """A ConfigMap as it was read; one without a version does not exist."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    valid_until_s: float = 0.0
    """Until when its keys hold pods, by the API server's time; 0: they hold none."""
    data: Texts = field(default_factory=dict, name=".data")
    binary_data: Texts = field(default_factory=dict, name=".binaryData")

    def document(self, key: str) -> bytes | None:
        """What stands under ``key``; kubectl stores a file that is not UTF-8 as binary data, and whoever reads it can say so."""
        if (text := self.data.get(key)) is not None:
            return text.encode()
        coded = self.binary_data.get(key)
        return None if coded is None else base64.b64decode(coded)


MISSING = ConfigMap()
