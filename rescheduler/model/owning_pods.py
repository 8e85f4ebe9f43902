"""What owner references mean: pods that other objects stand and fall with, and owners that count for nothing. Pure.

The leader of a group may own the StatefulSet of its workers, and a driver its executors: whoever evicts the pod ends them all,
while budgets and limits count one pod. An object goes with a pod if all owners that it names are pods. What is read is asked:
pods, the controllers of Kubernetes and Services. Claims are left out, because a pod owns those of its ephemeral volumes and gets
new ones; of ConfigMaps, Secrets and custom objects nothing is known here.

An owner reference to a controller of another namespace counts for nothing, as for the garbage collector. Whoever may create a pod may write
any uid into its ownerReferences; without this a tenant's pods would be siblings of somebody else's.

Promises: what is found depends on the objects that there are, not on the order in which they were seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from rescheduler.model.records import ObjectKey, Pod, Service, Workload

_Name = tuple[int, Any]
"""An object: which of the mappings it is in, and its key there."""


class Dependents(NamedTuple):
    """Objects that may have pods as owners."""

    objects: Mapping[Any, Pod | Workload | Service]
    changed: Collection[Any] | None
    """Keys of what changed; None: all may have."""


class OwningPods:
    """Follows the objects. Used by one thread."""

    def __init__(self) -> None:
        self.shown: dict[ObjectKey, Pod] = {}
        """The pods that own something, with its name."""
        self._owners: dict[_Name, tuple[ObjectKey, ...]] = {}
        self._owned: dict[ObjectKey, dict[_Name, _Owned]] = {}

    def follow(
        self,
        pod_of: Callable[[ObjectKey], Pod | None],
        changed: Collection[ObjectKey] | None,
        dependents: Iterable[Dependents],
    ) -> list[ObjectKey]:
        """Take in what changed (None: all pods may have); gives the keys of which ``shown`` says something else now."""
        asked: set[ObjectKey] = set()
        for number, given in enumerate(dependents):
            for key in self._to_look_at(number, given):
                self._depend((number, key), given.objects.get(key), asked)
        if changed is None:
            asked.update(self._owned, self.shown)
        else:
            asked.update(key for key in changed if key in self._owned or key in self.shown)
        return [key for key in asked if self._judge(key, pod_of(key))]

    def _to_look_at(self, number: int, given: Dependents) -> Collection[Any]:
        if given.changed is not None:
            return given.changed
        known = {key for which, key in self._owners if which == number}
        return known.union(key for key, found in given.objects.items() if found.owner_pods)

    def _depend(self, name: _Name, found: Pod | Workload | Service | None, asked: set[ObjectKey]) -> None:
        owners = found.owner_pods if found is not None else ()
        if not owners and name not in self._owners:
            return
        for key in self._owners.pop(name, ()):
            asked.add(key)
            owned = self._owned[key]
            del owned[name]
            if not owned:
                del self._owned[key]
        if found is None or not owners:
            return
        words = f"{_kind(found)} {found.namespace}/{found.name}"
        keys = {ObjectKey(found.namespace, owner.name): owner.uid for owner in owners}
        self._owners[name] = tuple(keys)
        for key, uid in keys.items():
            self._owned.setdefault(key, {})[name] = _Owned(uid, words)
            asked.add(key)

    def _judge(self, key: ObjectKey, pod: Pod | None) -> bool:
        before = self.shown.get(key)
        words = [one.words for one in self._owned.get(key, {}).values() if pod and one.uid == pod.uid]
        if pod is None or not words:
            self.shown.pop(key, None)
            return before is not None
        now = msgspec.structs.replace(pod, owns=min(words, key=_first))
        self.shown[key] = now
        return before != now


class _Owned(NamedTuple):
    uid: str
    """Of the pod that owns it."""
    words: str


_LAST: Final = "Pod "


def _first(words: str) -> tuple[bool, str]:
    """Controllers before pods: with one of them more pods go."""
    return words.startswith(_LAST), words


def _kind(found: Pod | Workload | Service) -> str:
    return found.kind if isinstance(found, Workload) else type(found).__name__


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
            gone = [key for key in self._depends if key not in objects]
            found = [key for key, one in objects.items() if self._judge(key, one, controllers)]
            return found + [key for key in gone if self._judge(key, None, controllers)]
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
