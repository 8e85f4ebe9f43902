"""Kubeconfig files: read, merged, and the entries of one context chosen, by the rules of client-go.

Of several files the first one that names an entry, or a current context, wins. Paths within an entry are relative to the
folder of its file. A value of the wrong type is an error, as in kubectl: nothing is guessed from it. Keys that kubectl does
not know are ignored, as kubectl ignores them. Everything wrong is a ``KubeconfigError``.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from rescheduler.kube.errors import KubeconfigError
from rescheduler.yaml_limits import MOST_BYTES, YamlError, check_limits, decoded, syntax_error

_SECTIONS: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
_LOOK: Final = "kubectl config view"


@dataclass(frozen=True, slots=True)
class Entry:
    """One named entry of a file. Getters answer "" , False or () for what is not set; wrong types are refused."""

    file: str
    kind: str
    name: str
    values: Mapping[str, Any]

    def error(self, message: str, remedy: str = "correct it") -> KubeconfigError:
        """What is wrong with this entry."""
        return KubeconfigError(self.file, f"{self.kind} {self.name!r}: {message}", remedy)

    def text(self, key: str) -> str:
        """A text. Raises KubeconfigError."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(f"{key} is not a text", "put it in quotes")
        return value or ""

    def flag(self, key: str) -> bool:
        """A boolean. Raises KubeconfigError."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(f"{key} is not a boolean", "write true or false, without quotes")
        return bool(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts. Raises KubeconfigError."""
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise self.error(f"{key} is not a list of texts", "write [a, b]")
        return tuple(value)

    def inner(self, key: str) -> Entry | None:
        """A mapping, as an entry of its own. Raises KubeconfigError."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(f"{key} is not a mapping", _LOOK)
        return Entry(self.file, f"{self.kind} {self.name!r}: {key} of", self.name, value)

    def path(self, key: str) -> str:
        """A path of a file, relative to the folder of this kubeconfig; "" if not set. Raises KubeconfigError."""
        value = self.text(key)
        return str(Path(self.file).absolute().parent / value) if value else ""

    def data(self, key: str) -> bytes:
        """Base64 text as Go reads it: line breaks are allowed. Raises KubeconfigError."""
        value = self.text(key).replace("\n", "").replace("\r", "")
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.error(f"{key} cannot be used: {error}", "it must be base64") from error


@dataclass(frozen=True, slots=True)
class Selection:
    """What a context names. ``user`` is None if it names none."""

    context: Entry
    cluster: Entry
    user: Entry | None


def chosen(where: str, context: str | None, *, one_file: bool = False) -> Selection:
    """The entries of ``context``, or of the current one. ``where``: a list of files like $KUBECONFIG, or one file.

    Raises:
        KubeconfigError: unreadable or malformed file, unknown context, cluster or user.
    """
    documents = _documents(_paths(where, one_file=one_file))
    entries = {section: _by_name(documents, section) for section in _SECTIONS}
    name = context or next(filter(None, (_current(path, document) for path, document in documents)), None)
    known = ", ".join(sorted(entries["contexts"])) or "none"
    if not name:
        remedy = (
            f"give --context; it has: {known}"
            if entries["contexts"]
            else "it has no contexts: give another file"
        )
        raise KubeconfigError(where, "has no current-context", remedy)
    if name not in entries["contexts"]:
        raise KubeconfigError(where, f"has no context {name!r}", f"it has: {known}")
    found = entries["contexts"][name]
    cluster_name, user_name = found.text("cluster"), found.text("user")
    if cluster_name not in entries["clusters"]:
        raise found.error(f"names an unknown cluster {cluster_name!r}")
    if user_name and user_name not in entries["users"]:
        raise found.error(f"names an unknown user {user_name!r}")
    cluster = entries["clusters"][cluster_name]
    _check_server(cluster)
    return Selection(found, cluster, entries["users"].get(user_name))


def _check_server(cluster: Entry) -> None:
    try:
        server = urlsplit(cluster.text("server"))
        usable = server.scheme in ("http", "https") and bool(server.hostname) and (server.port or 1)
    except ValueError:
        usable = False
    if not usable:
        raise cluster.error("no http(s) server address", "set its server")
    if server.username is not None or server.query or server.fragment:
        raise cluster.error(
            "its server has more than an address and a path", "set username and password of the user"
        )


def _paths(where: str, *, one_file: bool) -> list[Path]:
    """The files of a list like $KUBECONFIG; as in kubectl, missing ones are left out unless all are."""
    parts = [where] if one_file else where.split(os.pathsep)
    paths = [Path(part).expanduser() for part in parts if part]
    present = list(dict.fromkeys(path for path in paths if path.exists()))
    if not present:
        raise KubeconfigError(
            where,
            "no such file",
            "give --kubeconfig, or set KUBECONFIG; in a pod, mount a service account token",
        )
    return present


def _documents(paths: list[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """An empty file is passed over if there are others, as in kubectl."""
    read = [(path, _read(path)) for path in paths]
    if all(document is None for _, document in read):
        raise KubeconfigError(str(paths[0]), "is not a kubeconfig: no mapping at its root", "is it empty?")
    return [(path, document) for path, document in read if document is not None]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise KubeconfigError(str(path), f"is larger than {MOST_BYTES >> 20} MiB", "is it a kubeconfig?")
        text = decoded(content)
        check_limits(text)
        document = yaml.load(text, Loader=yaml.CSafeLoader)
    except OSError as error:
        remedy = "give the path of a file" if path.is_dir() else "check its permissions"
        raise KubeconfigError(str(path), error.strerror or str(error), remedy) from error
    except YamlError as error:
        raise KubeconfigError(str(path), f"line {error.line}: {error.message}", error.remedy) from error
    except RecursionError as error:
        raise KubeconfigError(str(path), "is nested too deeply", "is it a kubeconfig?") from error
    except yaml.MarkedYAMLError as error:
        found = syntax_error(error, text)
        raise KubeconfigError(str(path), f"line {found.line}: {found.message}", found.remedy) from error
    except (yaml.YAMLError, ValueError) as error:
        raise KubeconfigError(str(path), f"not YAML: {error}", "is it a kubeconfig?") from error
    if document is not None and not isinstance(document, dict):
        raise KubeconfigError(str(path), "is not a kubeconfig: no mapping at its root", "is it empty?")
    if document and document.get("kind", "Config") not in ("Config", "", None):
        raise KubeconfigError(str(path), f"is a {document['kind']}, not a kubeconfig", "give another file")
    return document


def _current(path: Path, document: dict[str, Any]) -> str:
    return Entry(str(path), "file", path.name, document).text("current-context")


def _by_name(documents: list[tuple[Path, dict[str, Any]]], section: str) -> dict[str, Entry]:
    """Entries of a section; the first file that names one wins, as in kubectl."""
    result: dict[str, Entry] = {}
    for path, document in documents:
        listed = document.get(section) or []
        if not isinstance(listed, list) or not all(
            isinstance(one, dict) and isinstance(one.get("name"), str) for one in listed
        ):
            raise KubeconfigError(str(path), f"{section} is not a list of named entries", _LOOK)
        names = [one["name"] for one in listed]
        for one in listed:
            kind = _SECTIONS[section]
            if names.count(one["name"]) > 1:
                raise KubeconfigError(
                    str(path), f"{section} names {one['name']!r} twice", "remove one of them"
                )
            values = one.get(kind)
            if values is not None and not isinstance(values, dict):
                raise KubeconfigError(str(path), f"{kind} of {one['name']!r} is not a mapping", _LOOK)
            result.setdefault(one["name"], Entry(str(path), kind, one["name"], values or {}))
    return result
