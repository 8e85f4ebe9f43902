"""The API server of the embedded cluster."""

from rescheduler.sim.apiserver.errors import ApiError
from rescheduler.sim.apiserver.server import ApiServer
from rescheduler.sim.apiserver.serving import Server, Tls, serve
from rescheduler.sim.apiserver.store import Store, Write
from rescheduler.sim.apiserver.transport import InProcessTransport

__all__ = ["ApiError", "ApiServer", "InProcessTransport", "Server", "Store", "Tls", "Write", "serve"]
