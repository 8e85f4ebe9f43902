"""Sends calls, and returns the effect of each.

``ApiSender`` sends to the API server, ``DryRunSender`` only shows what would be sent. A sender decides nothing
and keeps nothing between two calls, so calls about different objects may be sent from different threads.
``kube.retry`` retries a call within its deadline; the reconciler retries a machine after its backoff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, Protocol

import structlog

from rescheduler.calls.call import (
    AnyCall,
    Call,
    CreationTrial,
    GateProbe,
    OnError,
    ReadThenCall,
    Verb,
)
from rescheduler.controller.effects import NO_EFFECT, Effect, NotLeaderError
from rescheduler.coordination.expectations import Touched
from rescheduler.errors import OwnerReplacedError
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
)
from rescheduler.kube.eviction_requests import EvictionRequests
from rescheduler.kube.gate import Gate
from rescheduler.kube.pod_creation import invalid_words, meaning_of, of_change
from rescheduler.kube.transport import TransportError
from rescheduler.model.decode import UndecodableError
from rescheduler.model.decode.decoder import admitted_pod
from rescheduler.model.event import Event
from rescheduler.model.names import API_VERSION, REQUESTER_OF_MOVES
from rescheduler.model.object_meta import Described
from rescheduler.model.outcomes import CreationAnswer, CreationOutcome, EvictionOutcome, EvictionResult
from rescheduler.model.records import OwnerRef

_SHOWN_LINES: Final = 4096
_ASK_AGAIN_S: Final = 5.0
"""How often it is asked whether the turn of other responders is over."""


class Sender(Protocol):
    """Sends calls; safe from many threads."""

    def send(self, call: AnyCall) -> Effect:
        """Send, and read the answer. Raises ApiError, TransportError, NotLeaderError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSender:
    """Sends to the API server."""

    api: KubeApi
    gate: Gate
    still_leader: Callable[[], bool]
    """Asked right before each call that changes anything."""
    record_event: Callable[[Event], None] = field(default=lambda _: None)
    gate_stands: Callable[[], bool] = lambda: True
    """Asked right before each eviction, on any thread: False if somebody else has changed the gate keys."""
    single_api_server: Callable[[], bool] = lambda: False
    """Asked after a proof of the gate, on any thread: True if it is in force wherever pods may be created."""

    controllers_away: Callable[[], str] = lambda: ""
    """Asked before each dry-run creation, on any thread: why nobody would create the pod; "": nothing is known against it."""

    def send(self, call: AnyCall) -> Effect:
        """Send, and read the answer. Raises ApiError, TransportError, NotLeaderError."""
        match call:
            case Call():
                return self._send(call)
            case ReadThenCall():
                return self._read_then_call(call)
            case GateProbe(owner, namespace):
                proven = self.gate.proves(owner, namespace)
                return Effect(gate_proven=proven, single_api_server=proven and self.single_api_server())
            case CreationTrial(steps, changes=changes):
                return self._try_creation(steps, changes)
            case Event():
                self.record_event(call)
                return NO_EFFECT

    def _read_then_call(self, call: ReadThenCall) -> Effect:
        try:
            found = self._request(call.read)
        except NotFoundError:
            if OnError.IGNORE_NOT_FOUND in call.read.on_error:
                return NO_EFFECT
            raise
        following = _next(call, found)
        return NO_EFFECT if following is None else self.send(following)

    def _try_creation(self, steps: ReadThenCall | Call, changes: Iterable[Call]) -> Effect:
        if away := self.controllers_away():
            return Effect(creation=CreationAnswer(CreationOutcome.UNANSWERED, away))
        step: Call | ReadThenCall | None = steps
        try:
            for change in changes:
                if refused := of_change(self._answered(change).refused):
                    return Effect(creation=refused)
            while isinstance(step, ReadThenCall):
                step = _next(step, self._request(step.read))
            body = self.api.try_creation(step.path, step.body) if step is not None else b""
            answer = CreationAnswer(CreationOutcome.ADMITTED, pod=admitted_pod(body))
        except (ApiError, TransportError) as error:
            answer = meaning_of(error, created=isinstance(step, Call))
        except UndecodableError as error:
            answer = CreationAnswer(CreationOutcome.UNANSWERED, str(error))
        return Effect(creation=answer, read=step if isinstance(step, Call) and step is not steps else None)

    def _send(self, call: Call) -> Effect:
        # As late as possible: the check in the turn may be some calls old, and a process may sleep at any moment.
        if call.verb is not Verb.GET and not call.dry_run and not self.still_leader():
            raise NotLeaderError(f"leadership was lost before {call.line}")
        match call.verb:
            case Verb.EVICT:
                return self._evict(call)
            case Verb.EVICT_BY_REQUEST:
                return self._evict_by_request(call)
            case Verb.WITHDRAW_REQUEST:
                return self._withdraw(call)
            case _:
                return self._answered(call)

    def _answered(self, call: Call) -> Effect:
        """Any call but an eviction."""
        try:
            body = self._request(call)
        except NotFoundError:
            if OnError.IGNORE_NOT_FOUND in call.on_error:
                return NO_EFFECT
            raise
        except AlreadyExistsError:
            if OnError.IGNORE_ALREADY_EXISTS in call.on_error:
                return NO_EFFECT
            raise
        except (ForbiddenError, RejectedError) as error:
            if OnError.RETURN_INVALID in call.on_error:
                return Effect(refused=invalid_words(error))
            if OnError.RETURN_REFUSAL in call.on_error:
                return Effect(refused=error.message or str(error))
            raise
        return _effect_of(call, body)

    def _evict(self, call: Call) -> Effect:
        if not call.dry_run:
            self._need_gate()
        namespace, name = call.key
        result = self.api.evict(namespace, name, call.uid, call.grace_s, dry_run=call.dry_run)
        if call.dry_run or result.outcome is not EvictionOutcome.EVICTED:
            return Effect(eviction=result)
        return Effect(eviction=result, touched=(Touched(kind=call.kind, key=call.key, deleted=True),))

    def _need_gate(self) -> None:
        if not self.gate_stands():
            text = "the watch does not show the gate keys as they were written: they are proven again first"
            raise ConflictError(HTTPStatus.CONFLICT, "Conflict", text)

    def _evict_by_request(self, call: Call) -> Effect:
        """The eviction itself is a call of its own: whatever was checked before the request is checked again right before it."""
        self._need_gate()
        try:
            requests = EvictionRequests.served(self.api, REQUESTER_OF_MOVES)
            awaited = ""
            if requests is not None:
                requests.file(call.key, call.uid, _owner(call))
                awaited = requests.awaited(call.key, call.uid)
        except ForbiddenError as error:
            return Effect(eviction=EvictionResult(EvictionOutcome.FORBIDDEN, error.message))
        if awaited:
            return Effect(eviction=EvictionResult(EvictionOutcome.AWAITED, awaited, _ASK_AGAIN_S))
        return self._send(replace(call, verb=Verb.EVICT))

    def _withdraw(self, call: Call) -> Effect:
        with suppress(
            ForbiddenError
        ):  # who may not delete requests may not file them: it is one rule of the role
            requests = EvictionRequests.served(self.api, REQUESTER_OF_MOVES)
            if requests is not None:
                requests.withdraw(call.key, call.uid)
        return Effect(request_withdrawn=True)

    def _request(self, call: Call) -> bytes:
        """The body of the answer to any call but an eviction."""
        api, path, body = self.api, call.path, call.body
        match call.verb:
            case Verb.GET:
                return api.get(path)
            case Verb.CREATE if OnError.RETURN_INVALID in call.on_error:
                return api.try_creation(path, body, strict=True)
            case Verb.CREATE:
                return api.create(path, body, dry_run=call.dry_run)
            case Verb.REPLACE:
                return api.replace(path, body, dry_run=call.dry_run)
            case Verb.MERGE_PATCH:
                return api.merge_patch(path, body, dry_run=call.dry_run)
            case Verb.STRATEGIC_PATCH:
                return api.strategic_patch(path, body, dry_run=call.dry_run)
            case Verb.JSON_PATCH:
                return api.json_patch(path, body, dry_run=call.dry_run)
            case Verb.DELETE:
                return api.delete(
                    path,
                    uid=call.uid,
                    resource_version=call.resource_version,
                    grace_s=call.grace_s,
                    dry_run=call.dry_run,
                )
            case Verb.EVICT | Verb.EVICT_BY_REQUEST | Verb.WITHDRAW_REQUEST:
                raise TypeError("an eviction has an answer of its own")


def _next(call: ReadThenCall, found: bytes) -> Call | ReadThenCall | None:
    try:
        return call.then(found)
    except OwnerReplacedError as error:
        raise ConflictError(HTTPStatus.CONFLICT, "Conflict", str(error)) from None


def _owner(call: Call) -> OwnerRef | None:
    move = call.seen
    return OwnerRef(API_VERSION, "PodMigration", move.name, move.uid) if move is not None else None


def _effect_of(call: Call, body: bytes) -> Effect:
    """What the cache must show before the object is acted on again."""
    if call.verb is Verb.GET or call.dry_run:
        return NO_EFFECT
    if call.verb is Verb.DELETE:
        return Effect(touched=(Touched(kind=call.kind, key=call.key, deleted=True),))
    version = read_answer(body, Described).metadata.resource_version
    return Effect(touched=(Touched(kind=call.kind, key=call.key, version=version),))


@dataclass(frozen=True, slots=True)
class DryRunSender:
    """Sends nothing; shows each call."""

    show: Callable[[AnyCall], None]

    def send(self, call: AnyCall) -> Effect:
        """Show it. Its result is not known, so it has no effect; a dry-run creation shows nothing of the replacement."""
        self.show(call)
        if isinstance(call, CreationTrial):
            message = "this controller runs with --dry-run"
            return Effect(creation=CreationAnswer(CreationOutcome.NO_EVIDENCE, message))
        return NO_EFFECT


@dataclass(frozen=True, slots=True)
class CallLog:
    """Logs each call of a dry run once, although every turn computes it again, because nothing is changed."""

    log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.calls"))
    _shown: dict[str, None] = field(default_factory=dict)
    """Lines without bodies, since bodies have times in them; the oldest is dropped first."""

    def __call__(self, call: AnyCall) -> None:
        """Log ``call`` if its line is new."""
        if call.line in self._shown:
            return
        if len(self._shown) >= _SHOWN_LINES:
            del self._shown[next(iter(self._shown))]
        self._shown[call.line] = None
        self.log.info("Dry run: this call is not sent", call=str(call))
