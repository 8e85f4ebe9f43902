"""The API server of the sandbox."""

from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.apiserver.http_server import HttpServer, serve
from kube_sandbox.apiserver.server import ApiServer, InProcessTransport
from kube_sandbox.apiserver.store import ObjectStore, WriteOptions

__all__ = [
    "ApiServer",
    "HttpServer",
    "InProcessTransport",
    "ObjectStore",
    "StatusError",
    "WriteOptions",
    "serve",
]
