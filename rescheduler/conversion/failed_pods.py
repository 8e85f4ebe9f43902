"""What RemoveFailedPods of descheduler becomes: section ``failedPods``, which knows the labels of ``protections`` only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rescheduler.conversion.converted_document import Remark, Result, Section
from rescheduler.conversion.policy_document import Fields, Plugin

PLUGIN: Final = "RemoveFailedPods"
_WITHOUT_MEANING: Final = ("apiVersion", "kind", "nodeFit")
_INIT_TOO: Final = "those of init containers count, too"
_BY_DEFAULT: Final = "as descheduler without minPodLifetimeSeconds, which counts from the creation"
_FROM_CREATION: Final = "minPodLifetimeSeconds counts from the creation, this from the failure"


def convert_failed_pods(
    plugin: Plugin, off: Sequence[str], result: Result, *, bare: bool, daemons: bool
) -> None:
    """Set the section. ``off``: why it must stay off, because descheduler leaves pods that it would delete.

    ``bare``: also pods without a controller. ``daemons``: also those of DaemonSets.
    """
    part = result.failed_pods
    if part.values:
        result.left_out.append(Remark(plugin.line, plugin.name, "another profile has it already"))
        return
    part.put("enabled", True, line=plugin.line)
    part.put("after", "1h", _BY_DEFAULT)
    part.put("excludeOwnerKinds", [] if daemons else ["DaemonSet"])
    if bare:
        part.put("withoutController", True)
    part.put(
        "namespaces",
        {"exclude": []},
        "as descheduler, which excludes none; the default here is [kube-system]",
    )
    more = list(_arguments(plugin.arguments, part)) if plugin.arguments is not None else []
    if reasons := dict.fromkeys((*off, *more)):
        part.put("enabled", False, "; ".join(reasons))


def _arguments(arguments: Fields, part: Section) -> Iterator[str]:
    """Puts them into the section; gives reasons why it must stay off."""
    for key in _WITHOUT_MEANING:
        arguments.get(key, object)
    with_init = bool(arguments.get("includingInitContainers", bool))
    least_s = arguments.get("minPodLifetimeSeconds", int)
    if least_s is not None and least_s >= 0:
        part.put("after", f"{least_s}s", _FROM_CREATION)
    elif least_s is not None:
        arguments.leave_out(part, "minPodLifetimeSeconds", "must be at least 0", least_s)
        yield "descheduler refuses a negative minPodLifetimeSeconds"
    if words := arguments.get("reasons", list[str]):
        part.put("reasons", words, "" if with_init else _INIT_TOO)
    if kinds := arguments.get("excludeOwnerKinds", list[str]):
        part.put("excludeOwnerKinds", sorted({*part.values["excludeOwnerKinds"], *kinds}))
    yield from _namespaces(arguments.within("namespaces"), part)
    for key in arguments.unread():
        arguments.leave_out(part, key, "failedPods has no such key", arguments.raw(key))
        yield f"without {key} it would delete pods that descheduler leaves"


def _namespaces(written: Fields | None, part: Section) -> Iterator[str]:
    if written is None:
        return
    for key in ("include", "exclude"):
        if names := written.namespaces(key, part):
            part.put("namespaces", {key: names})
        elif written.raw(key) and key == "include":
            yield "no namespace that it includes can exist, so descheduler deletes no pod"
    if written.raw("include") and written.raw("exclude"):
        yield "descheduler refuses namespaces to include beside others to exclude"
    written.tell_unread(part, "namespaces")
