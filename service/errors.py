"""What can go wrong in the service, without a word of HTTP.

ServiceError
├─ NotFound            no such dataset, model, job, algorithm …
├─ Conflict            the resource is in a state that forbids the request
├─ Stale               the caller's version of the resource is not the newest
├─ Invalid             well formed, but breaks a rule; carries `issues`
├─ Malformed           the body cannot be read at all
├─ TooLarge            over a stated limit
├─ QueueFull           the ledger takes no more jobs now; carries `retry_after_seconds`
├─ Unsupported         the model or format cannot do what was asked
├─ NotAcceptable       no offered media type suits the caller
├─ UnknownMediaType    the body's media type is not read here
├─ Unauthenticated     a key is needed and none, or an unknown one, came
├─ Forbidden           the caller may not do this, with whatever key
├─ StorageFull         the disk cannot take the write
├─ NotReady            a part of the service is not up yet
├─ EngineLost          an engine or a store that the job works with went away; the job runs again
├─ EngineMismatch      the engine runs other versions, or sees other stores, than the job
├─ WrongKey            this process signs with another key than the service
└─ ArtifactRejected    a stored file failed its digest, signature or allow-list

The docstring of a class is its default message.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Issue:
    """One offending place: a JSON pointer (or a column, line, cell), a stable code and what to do."""

    pointer: str
    code: str
    detail: str


class ServiceError(Exception):
    """Something went wrong in the service."""

    def __init__(self, detail: str = "", *, issues: tuple[Issue, ...] = ()) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip()
        self.issues = issues
        super().__init__(self.detail)


class NotFound(ServiceError):
    """There is no such resource."""


class Conflict(ServiceError):
    """The resource is in a state that forbids this request."""


class Stale(ServiceError):
    """The resource has changed since the version named by If-Match."""


class Invalid(ServiceError):
    """The request is well formed but breaks a rule."""


class Malformed(ServiceError):
    """The body cannot be read."""


class TooLarge(ServiceError):
    """The request exceeds a stated limit."""


class QueueFull(ServiceError):
    """The queue is full; try again later."""

    def __init__(self, detail: str = "", *, retry_after_seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class Unsupported(ServiceError):
    """This model cannot do what was asked."""


class NotAcceptable(ServiceError):
    """None of the media types this route offers is acceptable to the caller."""


class UnknownMediaType(ServiceError):
    """The media type of the body is not read by this route."""

    def __init__(self, detail: str = "", *, read: tuple[str, ...] = ("application/json",)) -> None:
        super().__init__(detail)
        self.read = read


class Unauthenticated(ServiceError):
    """A valid API key is needed."""


class Forbidden(ServiceError):
    """This caller may not do this."""


class StorageFull(ServiceError):
    """The disk is full; nothing was stored."""


class NotReady(ServiceError):
    """The service is not ready yet."""


class EngineLost(ServiceError):
    """An engine or store that the job worked with went away."""


class EngineMismatch(ServiceError):
    """The engine of several machines does not fit this host."""


class ArtifactRejected(ServiceError):
    """A stored file failed its digest, signature or allow-list check."""


class WrongKey(ServiceError):
    """This process has another signing key than the service."""
