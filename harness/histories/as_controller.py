"""Requests in the controller's name: so the policies that narrow its service account hold in every history."""

from __future__ import annotations

from dataclasses import dataclass

from kube_sandbox.apiserver.admission import acting_as
from rescheduler.kube.transport import Request, Response, Stream, Transport
from rescheduler.model.names import CONTROLLER_USER


@dataclass(frozen=True, slots=True)
class AsController:
    """A transport to a sandbox in this process."""

    transport: Transport

    def send(self, request: Request) -> Response:
        """One request."""
        with acting_as(CONTROLLER_USER):
            return self.transport.send(request)

    def stream(self, request: Request) -> Stream:
        """Opens a watch."""
        return self.transport.stream(request)
