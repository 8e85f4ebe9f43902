"""Why there is no answer from an API server, in the words of people and not of the HTTP library."""

from __future__ import annotations

import http.client
import ssl
from typing import Final

from urllib3 import exceptions

from rescheduler.kube.transport import Request, TransportError, UnreachableError

BROKEN: Final = (exceptions.HTTPError, http.client.HTTPException, OSError)
"""What a request can end with."""


def no_answer(error: BaseException, server: str, request: Request) -> TransportError:
    """The error for ``request`` to ``server`` (its URL), after which ``error`` came out of the HTTP library."""
    text = f"{server}: {reason(error, request.timeout_s)} ({request.method} {request.path})"
    return UnreachableError(text) if _before_sending(error) else TransportError(text)


def reason(error: BaseException, timeout_s: float) -> str:
    """What happened."""
    match error:
        case exceptions.NameResolutionError():
            return "the name of the host is not known"
        case exceptions.NewConnectionError():
            return _system(error.__cause__) or "no connection"
        case exceptions.ConnectTimeoutError():
            return "no connection in time"
        case exceptions.SSLError():
            return _tls(error)
        case exceptions.ProxyError():
            return f"the proxy gives no connection: {_system(error.__cause__) or error}"
        case exceptions.ReadTimeoutError():
            return f"no answer within {timeout_s:g} s"
        case TimeoutError():
            return str(error) or f"no answer within {timeout_s:g} s"
        case exceptions.ProtocolError() | http.client.HTTPException() | OSError():
            return f"the connection was cut off: {_system(error) or error}"
        case _:
            return str(error)


def _before_sending(error: BaseException) -> bool:
    """True if the server has not seen the request: nobody listens, or not whom the configuration trusts."""
    kinds = exceptions.NewConnectionError | exceptions.SSLError | exceptions.ProxyError
    return isinstance(error, kinds)


def _system(error: BaseException | None) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror or "").lower() if isinstance(error, OSError) else ""


def _tls(error: exceptions.SSLError) -> str:
    for cause in (error, *error.args, error.__cause__):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
    return f"TLS fails: {error}"
