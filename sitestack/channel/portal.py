"""The portal: trio in a thread, for channels of programs that run on asyncio or on threads.

All such channels of a process share the thread, which lives as long as one of them (decision 35). A
call is a trio task, whose outcome returns to the loop or thread that made it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

import trio

from sitestack.channel.channel import Channel
from sitestack.channel.sending.sending import CALLER
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.errors import ChannelClosed, LocalError
from sitestack.model.view import View

C = TypeVar("C")
E = TypeVar("E")
K = TypeVar("K", bound=Channel[Any])
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

#: Seconds for which all channels wait for a callback.
CALLBACK_S = 30.0

#: The call that the present trio task serves.
_CALL: ContextVar[Call[Any]] = ContextVar("_CALL")


class PortalClosed(ChannelClosed):
    """No channel is open any more."""

    def __init__(self) -> None:
        super().__init__("the channel is closed")


class Call(Generic[R]):
    """One call: made by the caller's side, served in the thread of the portal."""

    def __init__(
        self, work: Callable[[], Awaitable[R]], caller: object, post: Callable[[Callable[[], object]], object]
    ) -> None:
        """`post` runs a function at the caller, while it waits for this call."""
        self.caller = caller
        self.post = post
        self.is_done = False
        self._work = work
        self._scope = trio.CancelScope()
        self._results: list[R] = []
        self._error: BaseException | None = None

    async def serve(self, done: Callable[[], object]) -> None:
        _CALL.set(self)
        CALLER.set(self.caller)
        try:
            with self._scope:
                self._results.append(await self._work())
        except trio.Cancelled:
            self._error = PortalClosed()
            raise
        except BaseException as error:
            self._error = error
        finally:
            self.end(done)

    def end(self, done: Callable[[], object], error: BaseException | None = None) -> None:
        self._error = self._error or error
        self.is_done = True
        self.post(done)

    def cancel(self) -> None:
        try:
            PORTAL.post(self._scope.cancel)
        except PortalClosed:
            if not self.is_done:  # the thread has failed
                raise

    @property
    def was_cancelled(self) -> bool:
        """Whether a cancelled call has done nothing."""
        return not self._results and (self._error is None or isinstance(self._error, PortalClosed))

    def result(self) -> R:
        """Return the result of a call that was not cancelled, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._results[0]


class Portal:
    def __init__(self) -> None:
        self._lock = threading.RLock()  # also for a finalizer that runs meanwhile
        #: Open channels and transports; the thread runs while there is one.
        self._users = 0
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._ended = trio.Event()

    def acquire(self) -> None:
        with self._lock:
            if self._thread is None:
                begun, failed = threading.Event(), list[BaseException]()
                thread = threading.Thread(target=self._run, args=(begun, failed), name="sitestack portal", daemon=True)
                thread.start()
                self._thread = thread
                begun.wait()
                if failed:
                    self._thread = None
                    raise failed[0]
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= self._users > 0
            if self._users == 0 and self._thread is not None and not sys.is_finalizing():
                with suppress(PortalClosed):  # the thread has failed
                    self.post(self._ended.set)
                thread, self._thread = self._thread, None
                if thread is not threading.current_thread():
                    thread.join()

    def forget_thread(self) -> None:
        """Begin anew in a forked process, which has no thread."""
        self._lock, self._users, self._thread, self._token = threading.RLock(), 0, None, None

    def _run(self, begun: threading.Event, failed: list[BaseException]) -> None:
        try:
            trio.run(self._serve, begun)
        except OSError as error:
            if begun.is_set():
                raise
            failed.append(error)
        finally:
            begun.set()  # also if it cannot begin

    async def _serve(self, begun: threading.Event) -> None:
        self._token, self._ended = trio.lowlevel.current_trio_token(), trio.Event()
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            begun.set()
            await self._ended.wait()
            nursery.cancel_scope.cancel()

    def post(self, action: Callable[..., object], *args: object) -> None:
        """Run a function in the thread. Raises PortalClosed without one."""
        try:
            if self._token is None or sys.is_finalizing():  # at its end the interpreter stops the thread
                raise trio.RunFinishedError
            self._token.run_sync_soon(action, *args)
        except trio.RunFinishedError:
            raise PortalClosed from None

    @property
    def is_here(self) -> bool:
        """Whether this is its thread, as in a callback or a finalizer."""
        return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._token

    def start(self, call: Call[Any], done: Callable[[], object]) -> None:
        """Serve a call; then run `done` at its caller. Raises LocalError."""
        if self.is_here:
            raise LocalError("this runs in the thread of all channels, so it must not use one; hand it to another thread")

        def begin() -> None:
            if self._ended.is_set():
                call.end(done, PortalClosed())
            else:
                self.nursery.start_soon(call.serve, done)

        self.post(begin)


PORTAL = Portal()
os.register_at_fork(after_in_child=PORTAL.forget_thread)


class Lease(Generic[T]):
    """A context manager that one call enters and another leaves; a task of the portal is inside."""

    def __init__(self, context: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._context = context
        self._scope = trio.CancelScope()
        self._leaving, self._left = trio.Event(), trio.Event()
        self._left.set()  # until it is entered
        self._error: BaseException | None = None

    async def enter(self) -> T:
        self._left = trio.Event()
        entered: T = await PORTAL.nursery.start(self._hold)
        return entered

    async def _hold(self, task_status: trio.TaskStatus[T]) -> None:
        CALLER.set(None)  # the channel's tasks serve no caller
        is_inside = False
        try:
            with self._scope:
                async with self._context() as value:
                    is_inside = True
                    task_status.started(value)
                    await self._leaving.wait()
        except BaseException as error:
            if not is_inside or _has_cancelled(error):
                raise
            self._error = error
        finally:
            self._left.set()

    async def leave(self) -> None:
        """Leave as at the end of the block, with the error that ended it. A cancellation is a crash."""
        self._leaving.set()
        try:
            await self._left.wait()
        except trio.Cancelled:
            await self.abandon()
            raise
        if self._error is not None:
            raise self._error

    def drop(self) -> None:
        """As `abandon`, without waiting."""
        self._scope.cancel()

    async def abandon(self) -> None:
        """End like a cancelled block: the other members see a crash."""
        self.drop()
        with trio.CancelScope(shield=True):
            await self._left.wait()


def _has_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(trio.Cancelled) is not None
    return isinstance(error, trio.Cancelled)


def at_caller(function: Callable[..., T]) -> Callable[..., T]:
    """Return a function for the thread of the portal that runs this one at the caller of the present
    call, which waits meanwhile.
    """

    @wraps(function)
    def run(*args: object) -> T:
        results: list[T] = []
        errors: list[BaseException] = []
        finished = threading.Event()

        def here() -> None:
            try:
                results.append(function(*args))
            except BaseException as error:
                errors.append(error)
            finished.set()

        _CALL.get().post(here)
        if not finished.wait(CALLBACK_S):
            why = "it must not use a channel, or wait for a task or thread that does"
            raise LocalError(f"{getattr(function, '__name__', repr(function))} has not returned after {CALLBACK_S:g} s; {why}")
        if errors:
            raise errors[0]
        return results[0]

    return run


def at_callers(arguments: Mapping[str, object]) -> dict[str, Any]:
    callbacks = {name: arguments[name] for name in ("get_state", "set_state") if callable(arguments.get(name))}
    return {**arguments, **{name: at_caller(cast("Callable[..., object]", each)) for name, each in callbacks.items()}}


class Door(Generic[C]):
    """An object of trio as a program outside of trio sees it. Any thread reads annotated attributes directly."""

    def __init__(self, inner: C) -> None:
        self._inner = inner

    async def _await(self, method: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        """Run this method, unless its caller has cancelled the call."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return await getattr(self._inner, method.__name__)(*args, **kwargs)

    async def _compute(self, method: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        """Run this method, which does not wait, in any case: a cancelled block releases its lock."""
        return getattr(self._inner, method.__name__)(*args, **kwargs)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if any(name in vars(each).get("__annotations__", ()) for each in type(self).__mro__):
                return getattr(self._inner, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class ChannelDoor(Door[K]):
    me: ProxyUUID
    address: ProxyUUID
    site: str
    name: str
    view: View
    is_coordinator: bool
    name_of: Callable[[Address], str]
