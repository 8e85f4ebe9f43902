"""The API server of the sandbox."""

from rescheduler.sandbox.apiserver.errors import StatusError
from rescheduler.sandbox.apiserver.http_server import HttpServer, Tls, serve
from rescheduler.sandbox.apiserver.server import ApiServer, InProcessTransport
from rescheduler.sandbox.apiserver.store import ObjectStore, WriteOptions

__all__ = [
    "ApiServer",
    "HttpServer",
    "InProcessTransport",
    "ObjectStore",
    "StatusError",
    "Tls",
    "WriteOptions",
    "serve",
]
