"""Address of the API server and credentials for it: kubeconfig files or the pod's service account.

Order: the given path, ``$KUBECONFIG``, the service account inside a pod, ``~/.kube/config``. A kubeconfig is read by the
rules of client-go (``kubeconfig_entries``, ``credentials``); the official client carries the result. Everything wrong is a
``KubeconfigError`` before anything is sent.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kubernetes.client.configuration import Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.incluster_config import SERVICE_HOST_ENV_NAME, SERVICE_TOKEN_FILENAME
from kubernetes.config.kube_config import FileOrData

from rescheduler.kube.credentials import Credentials, Headers, Pem, credentials_of, pem
from rescheduler.kube.errors import KubeconfigError
from rescheduler.kube.kubeconfig_entries import Entry, chosen

DEFAULT_KUBECONFIG: Final = "~/.kube/config"
_NO_NAMESPACE: Final = "default"
_PROXIES: Final = ("http", "https")


class Access(Configuration):  # type: ignore[misc]  # the official client has no types
    """The official client's configuration, and as whom each request is to be made."""

    impersonation: Headers = ()


def load_configuration(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str] | None = None
) -> Access:
    """Where the API server is, with fresh credentials.

    Raises:
        KubeconfigError: unreadable or malformed file, unknown context, failing plugin, bad certificates, what is not supported.
    """
    environ = os.environ if environ is None else environ
    if inside_a_pod(kubeconfig, environ):
        return _checked(_in_cluster(), SERVICE_TOKEN_FILENAME)
    where = _where(kubeconfig, environ)
    found = chosen(where, context, one_file=bool(kubeconfig))
    return _checked(_access(found.cluster, credentials_of(found.user, found.cluster)), where)


def default_namespace(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str] | None = None
) -> str:
    """The namespace of the context that ``load_configuration`` uses, as kubectl takes it: "default" if it names none.

    Raises:
        KubeconfigError: as ``load_configuration``.
    """
    environ = os.environ if environ is None else environ
    if inside_a_pod(kubeconfig, environ):
        own = Path(SERVICE_TOKEN_FILENAME).with_name("namespace")
        return own.read_text(encoding="utf-8").strip() if own.exists() else _NO_NAMESPACE
    found = chosen(_where(kubeconfig, environ), context, one_file=bool(kubeconfig))
    return found.context.text("namespace") or _NO_NAMESPACE


def inside_a_pod(kubeconfig: str | None, environ: Mapping[str, str]) -> bool:
    """True if the service account of the own pod is used."""
    named = kubeconfig or environ.get("KUBECONFIG")
    return not named and SERVICE_HOST_ENV_NAME in environ and Path(SERVICE_TOKEN_FILENAME).exists()


def _where(kubeconfig: str | None, environ: Mapping[str, str]) -> str:
    return kubeconfig or environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG


def _in_cluster() -> Access:
    access = Access()
    try:
        load_incluster_config(client_configuration=access)
    except (ConfigException, OSError) as error:
        raise KubeconfigError(
            SERVICE_TOKEN_FILENAME, str(error), "does the pod have a service account token?"
        ) from error
    return access


def _access(cluster: Entry, credentials: Credentials) -> Access:
    access = Access(host=cluster.text("server").rstrip("/"))
    authority, insecure = pem(cluster, "certificate-authority"), cluster.flag("insecure-skip-tls-verify")
    if authority and insecure:
        raise cluster.error(
            "certificate-authority and insecure-skip-tls-verify are both set", "remove one of them"
        )
    if access.host.startswith("https:"):
        access.verify_ssl = not insecure
        access.ssl_ca_cert = _file(authority)
        access.cert_file, access.key_file = _file(credentials.certificate), _file(credentials.key)
        access.tls_server_name = cluster.text("tls-server-name") or None
    if proxy := cluster.text("proxy-url"):
        if urlsplit(proxy).scheme not in _PROXIES or not urlsplit(proxy).hostname:
            raise cluster.error(
                f"proxy-url {proxy!r} is not supported", "give the address of an http(s) proxy"
            )
        access.proxy, access.no_proxy = proxy, None
    elif is_loopback(access.host):
        access.proxy = None
    if ask := credentials.authorization:
        _set_token(access, ask)
    access.impersonation = credentials.impersonation
    groups = [name for name, _ in access.impersonation]
    if access.proxy and not access.host.startswith("https:") and len(groups) > len(set(groups)):
        raise cluster.error("several groups cannot be sent over a proxy to an http server", "use https")
    return access


def _set_token(access: Access, ask: Callable[[], str]) -> None:
    def refresh(configuration: Configuration) -> None:
        configuration.api_key["BearerToken"] = ask()

    refresh(access)
    access.refresh_api_key_hook = refresh


def _file(found: Pem) -> str | None:
    """OpenSSL reads files only: what the kubeconfig holds itself goes to a temporary one, removed at the end."""
    if not found.data:
        return found.path or None
    made = FileOrData({"pem-data": b64encode(found.data).decode()}, "pem").as_file()
    return str(made)


def _checked(configuration: Access, where: str) -> Access:
    """Certificates are loaded once here, so that a bad one is not mistaken for a server that is away."""
    ca, certificate = configuration.ssl_ca_cert, configuration.cert_file
    try:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if ca:
            tls.load_verify_locations(cafile=ca)
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
