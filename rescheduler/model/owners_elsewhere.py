"""Owner references that name a controller of another namespace count for nothing. Pure, and kept current as objects change.

Whoever may create a pod may write any uid into its ownerReferences, also that of a controller in a namespace where he has no rights.
Kubernetes does not know such owners: its garbage collector takes those objects away, in its time and once their finalizers let it.
Without this a tenant's pods would be siblings of somebody else's: counted among their replicas, taken for what comes back in
their place, for their moves and their limits.

Promises: what is found depends on the objects that there are, not on the order in which they were seen. An owner that is not among
the known controllers is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from rescheduler.model.records import ObjectKey, Pod, Workload

Key = TypeVar("Key", ObjectKey, str)
Owned = TypeVar("Owned", Pod, Workload)


class OwnersElsewhere(Generic[Key, Owned]):
    """The objects of one kind whose controller is in another namespace. Used by one thread."""

    def __init__(self) -> None:
        self.without: dict[Key, Owned] = {}
        """Those objects, as if they had no controller."""
        self._depends: dict[Key, str] = {}
        """Objects whose controller is unknown, or in another namespace -> its uid."""
        self._dependents: dict[str, set[Key]] = {}

    def follow(
        self,
        objects: Mapping[Key, Owned],
        controllers: Mapping[str, Workload],
        changed: Iterable[Key] | None,
        controllers_changed: Iterable[str] | None,
    ) -> list[Key]:
        """Take in what changed (None: all may have); gives the keys of which ``without`` says something else now.

        ``controllers``: by uid.
        """
        if changed is None or controllers_changed is None:
            keys: Iterable[Key] = {**dict.fromkeys(objects), **dict.fromkeys(self._depends)}
        else:
            keys = {**dict.fromkeys(changed), **dict.fromkeys(self._of(controllers_changed))}
        return [key for key in keys if self._judge(key, objects.get(key), controllers)]

    def _of(self, controllers: Iterable[str]) -> Iterator[Key]:
        for uid in controllers:
            yield from self._dependents.get(uid, ())

    def _judge(self, key: Key, found: Owned | None, controllers: Mapping[str, Workload]) -> bool:
        owner = found.controller if found is not None else None
        above = controllers.get(owner.uid) if owner is not None else None
        if owner is None or found is None or (above is not None and above.namespace == found.namespace):
            if key in self._depends:
                self._depend(key, "")
                return self.without.pop(key, None) is not None
            return False
        self._depend(key, owner.uid)
        if above is None:
            return self.without.pop(key, None) is not None
        alone = msgspec.structs.replace(found, controller=None)
        if self.without.get(key) == alone:
            return False
        self.without[key] = alone
        return True

    def _depend(self, key: Key, uid: str) -> None:
        before = self._depends.pop(key, "")
        if before != uid and before:
            keys = self._dependents[before]
            keys.discard(key)
            if not keys:
                del self._dependents[before]
        if uid:
            self._depends[key] = uid
            self._dependents.setdefault(uid, set()).add(key)
