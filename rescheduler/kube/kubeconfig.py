"""Address of the API server and credentials for it: kubeconfig files or the pod's service account.

Reads with the official client, after checks of its own, because that one answers a malformed file with
whatever exception comes up, goes on silently when a credential plugin fails, and asks for a password on
the terminal. Everything wrong is a ``KubeconfigError`` before anything is sent. Order: the given
path, ``$KUBECONFIG``, the service account inside a pod, ``~/.kube/config``.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.dateutil import parse_rfc3339
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.incluster_config import SERVICE_HOST_ENV_NAME, SERVICE_TOKEN_FILENAME
from kubernetes.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

from rescheduler.kube.errors import KubeconfigError
from rescheduler.kube.exec_plugin import credential
from rescheduler.yaml_limits import MOST_BYTES, YamlError, check_limits, decoded, syntax_error

DEFAULT_KUBECONFIG: Final = "~/.kube/config"
_NO_NAMESPACE: Final = "default"
_SECTIONS: Final = ("clusters", "contexts", "users")
_MALFORMED: Final = (
    ConfigException,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    OSError,
    RecursionError,
)
"""What the official loader lets out for a file that it cannot take."""


def load_configuration(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str] | None = None
) -> Configuration:
    """The official client's configuration with fresh credentials.

    Raises:
        KubeconfigError: unreadable or malformed file, unknown context, failing plugin, bad certificates.
    """
    environ = os.environ if environ is None else environ
    where = kubeconfig or environ.get("KUBECONFIG")
    if where is None and SERVICE_HOST_ENV_NAME in environ and Path(SERVICE_TOKEN_FILENAME).exists():
        return _checked(_in_cluster(), SERVICE_TOKEN_FILENAME)
    where = where or DEFAULT_KUBECONFIG
    return _checked(_from_files(where, context), where)


def default_namespace(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str] | None = None
) -> str:
    """The namespace of the context that ``load_configuration`` uses, as kubectl takes it: "default" if it names none.

    Raises:
        KubeconfigError: as ``load_configuration``.
    """
    environ = os.environ if environ is None else environ
    where = kubeconfig or environ.get("KUBECONFIG")
    if where is None and SERVICE_HOST_ENV_NAME in environ and Path(SERVICE_TOKEN_FILENAME).exists():
        own = Path(SERVICE_TOKEN_FILENAME).with_name("namespace")
        return own.read_text(encoding="utf-8").strip() if own.exists() else _NO_NAMESPACE
    where = where or DEFAULT_KUBECONFIG
    chosen = _selected(where, [_read(path) for path in _paths(where)], context).context
    return str(chosen.get("namespace") or _NO_NAMESPACE)


def _in_cluster() -> Configuration:
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise KubeconfigError(
            SERVICE_TOKEN_FILENAME, str(error), "does the pod have a service account token?"
        ) from error
    return configuration


def _from_files(where: str, context: str | None) -> Configuration:
    documents = [_read(path) for path in _paths(where)]
    cluster = _selected(where, documents, context).cluster
    configuration = Configuration()
    try:
        merged = KubeConfigMerger(where)
        loader = _Loader(
            config_dict=merged.config, active_context=context, config_persister=merged.save_changes
        )
        loader.load_and_set(configuration)
    except _MALFORMED as error:
        raise KubeconfigError(where, f"cannot be used: {error}", "kubectl config view") from error
    if not cluster.get("proxy-url") and is_loopback(configuration.host):
        configuration.proxy = None
    return configuration


class _Loader(KubeConfigLoader):  # type: ignore[misc]  # the official client has no types
    """The official loader; a credential plugin has a deadline, and what is wrong with it is an error."""

    def _load_from_exec_plugin(self) -> bool:
        if "exec" not in self._user:
            return False
        base = self._get_base_path(self._cluster.path)
        status = credential(ExecProvider(self._user["exec"], base, self._cluster))
        if status.get("token"):
            self.token = f"Bearer {status['token']}"
        else:
            self.cert_file, self.key_file = (
                FileOrData(
                    status,
                    None,
                    data_key_name=key,
                    file_base_path=base,
                    base64_file_content=False,
                    temp_file_path=self._temp_file_path,
                ).as_file()
                for key in ("clientCertificateData", "clientKeyData")
            )
        if "expirationTimestamp" in status:
            self.expiry = parse_rfc3339(status["expirationTimestamp"])
        return True


def _paths(where: str) -> list[Path]:
    """The files of a list like $KUBECONFIG; as in kubectl, missing ones are left out unless all are."""
    paths = [Path(part).expanduser() for part in where.split(os.pathsep) if part]
    present = [path for path in paths if path.exists()]
    if not present:
        raise KubeconfigError(
            where,
            "no such file",
            "give --kubeconfig, or set KUBECONFIG; in a pod, mount a service account token",
        )
    return present


def _read(path: Path) -> dict[str, Any]:
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
    if not isinstance(document, dict):
        raise KubeconfigError(str(path), "is not a kubeconfig: no mapping at its root", "is it empty?")
    for section in _SECTIONS:
        entries = document.get(section) or []
        if not isinstance(entries, list) or not all(isinstance(e, dict) and "name" in e for e in entries):
            raise KubeconfigError(
                str(path), f"{section} is not a list of named entries", "kubectl config view"
            )
    return document


class _Selected(NamedTuple):
    context: dict[str, Any]
    cluster: dict[str, Any]


def _selected(where: str, documents: list[dict[str, Any]], context: str | None) -> _Selected:
    """The context that will be used and its cluster; its user is there and well-formed."""
    merged = {section: _by_name(documents, section) for section in _SECTIONS}
    name = context or next(
        (d["current-context"] for d in reversed(documents) if d.get("current-context")), None
    )
    known = ", ".join(sorted(merged["contexts"])) or "none"
    if name is None:
        raise KubeconfigError(where, "has no current-context", f"give --context; it has: {known}")
    if name not in merged["contexts"]:
        raise KubeconfigError(where, f"has no context {name!r}", f"it has: {known}")
    chosen = _inner(where, merged["contexts"][name], "context")
    cluster_name, user_name = chosen.get("cluster"), chosen.get("user")
    if cluster_name not in merged["clusters"]:
        raise KubeconfigError(
            where, f"context {name!r} names an unknown cluster {cluster_name!r}", "correct it"
        )
    cluster = _inner(where, merged["clusters"][cluster_name], "cluster")
    if urlsplit(str(cluster.get("server", ""))).scheme not in ("http", "https"):
        raise KubeconfigError(
            where, f"cluster {cluster_name!r} has no http(s) server address", "set its server"
        )
    if user_name and user_name not in merged["users"]:
        raise KubeconfigError(where, f"context {name!r} names an unknown user {user_name!r}", "correct it")
    if user_name:
        _inner(where, merged["users"][user_name], "user")
    return _Selected(chosen, cluster)


def _by_name(documents: list[dict[str, Any]], section: str) -> dict[str, dict[str, Any]]:
    """Entries of a section; the first file that names one wins, as in kubectl."""
    result: dict[str, dict[str, Any]] = {}
    for document in documents:
        for entry in document.get(section) or []:
            result.setdefault(str(entry["name"]), entry)
    return result


def _inner(where: str, entry: dict[str, Any], key: str) -> dict[str, Any]:
    value = entry.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise KubeconfigError(where, f"{key} of {entry['name']!r} is not a mapping", "kubectl config view")
    return value


def _checked(configuration: Configuration, where: str) -> Configuration:
    """Certificates are loaded once here, so that a bad one is not mistaken for a server that is away."""
    ca, certificate = configuration.ssl_ca_cert, configuration.cert_file
    try:
        tls = ssl.create_default_context(cafile=ca)
        if certificate:
            tls.load_cert_chain(certificate, configuration.key_file, password=lambda: "")
    except (ssl.SSLError, OSError, TypeError, ValueError) as error:
        raise KubeconfigError(where, f"certificate or key cannot be used: {error}", "check them") from error
    return configuration


def is_loopback(url: str) -> bool:
    """True if the URL's host is this machine; such a server is never reached through a proxy (as in Go)."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
