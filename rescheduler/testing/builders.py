"""Builders of manifests and records for tests: ``pod("web-1").on("n1").cpu("500m").build()``.

Every builder makes a manifest as an API server would hold it; ``build`` decodes that manifest with the
real decoder, so records and manifests always agree. Builders are immutable: each call gives a new one,
so a half-built object can be shared between tests.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar, cast

import msgspec
from typing_extensions import Self

from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder, Record
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.snapshot import Snapshot

Manifest = dict[str, Any]
RecordT = TypeVar("RecordT", bound=Record)
NOW_S = 1_800_000_000.0
"""Seconds since the epoch of snapshots, if a test does not say otherwise (2027-01-15T08:00:00Z)."""
