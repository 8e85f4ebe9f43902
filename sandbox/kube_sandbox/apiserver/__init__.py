"""The API server of the sandbox."""

from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.apiserver.server import ApiServer, HttpServer, InProcessTransport, serve
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
