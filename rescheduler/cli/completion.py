"""What a shell completes: the scripts for commands and flags, the same for kubectl, and names of objects.

kubectl asks a program ``kubectl_complete-rescheduler`` for the completions of ``kubectl rescheduler``, in the form of cobra: one
a line, with what it means behind a tab, and a number at the end. Names are asked of the API server that the line so far names. A
shell waits at each press of a key, so there is a short limit. Whatever goes wrong, nothing is completed and nothing is printed: an
error would end up in the middle of somebody's line.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.main import COMPLETE_VARIABLE, PROGRAM
from rescheduler.cli.main import main as commands
from rescheduler.cli.output import emit
from rescheduler.errors import ReschedulerError
from rescheduler.kube.answers import read_items
from rescheduler.kube.client import KubeApi
from rescheduler.model.decode.wire_types import ObjectWire
from rescheduler.model.kinds import RESOURCES, Kind

SHELLS: Final[dict[str, type[ShellComplete]]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}
_NO_FILES: Final = ":4"
"""Cobra's ShellCompDirectiveNoFileComp."""
LIMIT_S: Final = 2.0
"""What was read until then is offered."""


def run(shell: str) -> None:
    """Print the completion script of a shell."""
    found = SHELLS[shell](commands, {}, PROGRAM, COMPLETE_VARIABLE)
    # Not ``source()``, which runs bash to ask for its version.
    emit(f"{found.source_template % found.source_vars()}\n")


def completions(words: Sequence[str]) -> list[str]:
    """What the last of ``words``, which may be empty, can become: lines for kubectl."""
    *before, incomplete = words or ("",)
    found = ShellComplete(commands, {}, PROGRAM, COMPLETE_VARIABLE).get_completions(list(before), incomplete)
    lines = [
        f"{item.value}\t{item.help}" if item.help else item.value for item in found if item.type == "plain"
    ]
    return [*lines, _NO_FILES]


def for_kubectl() -> None:
    """The console script ``kubectl_complete-rescheduler``."""
    emit("\n".join(completions(sys.argv[1:])) + "\n")


def names(
    kind: Kind,
    prefixes: Iterable[str],
    context: click.Context,
    parameter: click.Parameter,
    incomplete: str,
) -> list[str]:
    """Names of this kind that begin like this, also after one of ``prefixes`` (``pod/``); those that are on the line already are left out."""
    prefix = next((one for one in sorted(prefixes, reverse=True) if incomplete.startswith(one)), "")
    begun = incomplete.removeprefix(prefix)
    given = context.params.get(parameter.name or "") or ()
    there = {word.rpartition("/")[2] for word in ((given,) if isinstance(given, str) else given)}
    found = _read_within_limit(context, kind)
    return sorted(prefix + name for name in found if name.startswith(begun) and name not in there)


def _read_within_limit(context: click.Context, kind: Kind) -> set[str]:
    found: set[str] = set()
    reader = threading.Thread(target=_read, args=(context, kind, found), daemon=True)
    reader.start()
    reader.join(LIMIT_S)
    return set(found)


def _read(context: click.Context, kind: Kind, found: set[str]) -> None:
    given = context.params
    cluster = NamedCluster(
        kubeconfig=given.get("kubeconfig"), context=given.get("context"), as_user=given.get("as_user") or ""
    )
    try:
        api = KubeApi(cluster.connected(), timeout_s=LIMIT_S)
        resource = RESOURCES[kind]
        path = resource.collection_path
        if resource.namespaced:
            path = resource.object_path(cluster.namespace(given.get("namespace")), "")
        for page in api.list(path):
            items = read_items(page, ObjectWire)
            found.update(one.metadata.name or "" for one in items if one.metadata)
    except (ReschedulerError, OSError):
        return  # see above: nothing is completed
