"""Where a program starts processes: `subprocess`, `os.fork`, `os.exec…`, `os.posix_spawn`, `os.system`, and the modules
that are put in order when they are imported (`multiprocessing`, `concurrent.futures.process`).

The start itself belongs to no lane, so the traps of a replay let it pass: whether it may happen was decided before.
"""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reenact.capture.processes import own_run
from reenact.capture.processes.command_lines import CommandLine, command_line
from reenact.capture.processes.starting import Started, lane_here, started
from reenact.capture.processes.tickets import How, with_ticket
from reenact.capture.seams.hooks import Seam
from reenact.capture.seams.hooks import install as install_seams
from reenact.effect.keeping import keeper
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE

_MULTI = tuple(
    Seam(module, f"reenact.capture.processes.{ours}")
    for module, ours in (
        ("multiprocessing.util", "multi"),
        ("multiprocessing.spawn", "multi"),
        ("multiprocessing.popen_fork", "multi"),
        ("multiprocessing.popen_spawn_posix", "multi"),
        ("multiprocessing.popen_forkserver", "multi"),
        ("multiprocessing.connection", "multi"),
        ("multiprocessing.pool", "pools"),
        ("concurrent.futures.process", "pools"),
    )
)
_real: dict[str, Any] = {}
_ARGUMENTS = inspect.signature(subprocess.Popen.__init__)


def install() -> None:
    if not _real:
        _real.update({name: getattr(os, name) for name in _OURS})
        popen: Any = subprocess.Popen
        _real["popen"], _real["status"] = popen.__init__, popen._handle_exitstatus
        popen.__init__, popen._handle_exitstatus = _popen, _ended
        for name, ours in _OURS.items():
            setattr(os, name, ours)
        os.register_at_fork(after_in_child=_after_in_child)
    install_seams(_MULTI)


@contextmanager
def nowhere() -> Iterator[None]:
    """What happens inside belongs to no lane. Not by a token: a fork may leave it in another process."""
    place = PLACE.get()
    PLACE.set(None)
    try:
        yield
    finally:
        PLACE.set(place)


def begun(lane: Lane, how: How, command: CommandLine) -> Started:
    own = own_run.own
    assert own is not None
    return started(lane, how, command, strict=own.strict, session=own.session.folder, mode=own.mode)


def starter() -> Lane | None:
    """The lane that starts a process of this run."""
    own = own_run.own
    lane = lane_here()
    return lane if lane is not None and own is not None and own.pid == os.getpid() else None


# subprocess


def _popen(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
    lane = starter()
    try:
        given = _ARGUMENTS.bind(self, *args, **kwargs) if lane is not None else None
    except TypeError:
        given = None
    if lane is None or given is None:
        _real["popen"](self, *args, **kwargs)
        return
    named = given.arguments
    environment = named.get("env")
    command = command_line(
        named.get("args"),
        executable=named.get("executable"),
        shell=bool(named.get("shell")),
        environment=environment,
    )
    one = begun(lane, "start", command)
    named["env"] = with_ticket(os.environ if environment is None else environment, one.ticket)
    with nowhere():
        _real["popen"](*given.args, **given.kwargs)
    assert own_run.own is not None
    own_run.own.starts.note(self.pid, one)


def _ended(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
    _real["status"](self, *args, **kwargs)
    if self.returncode is not None:
        tell_ended(self.pid, self.returncode)


def tell_ended(pid: int, status: int) -> None:
    if own_run.own is not None and own_run.own.pid == os.getpid():
        own_run.own.starts.ended(pid, status)


def _waitpid(pid: int, options: int, /) -> tuple[int, int]:
    found: tuple[int, int] = _real["waitpid"](pid, options)
    _waited(*found)
    return found


def _wait() -> tuple[int, int]:
    found: tuple[int, int] = _real["wait"]()
    _waited(*found)
    return found


def _waited(pid: int, status: int) -> None:
    if pid and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
        tell_ended(pid, os.waitstatus_to_exitcode(status))


def _system(command: Any) -> int:
    if starter() is None:
        status: int = _real["system"](command)
        return status
    # As the C library does it: who waits is not interrupted by what is meant for the command.
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in _interrupts()}
    try:
        with subprocess.Popen(command, shell=True, preexec_fn=_restore if ignored else None) as process:  # noqa: S602
            code = process.wait()
    finally:
        for number, handler in ignored.items():
            signal.signal(number, handler)
    return -code if code < 0 else code << 8


def _interrupts() -> tuple[int, ...]:
    import threading

    return (signal.SIGINT, signal.SIGQUIT) if threading.current_thread() is threading.main_thread() else ()


def _restore() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def _posix_spawn(path: Any, argv: Any, env: Any, /, **options: Any) -> int:
    return _spawned("posix_spawn", path, argv, env, options)


def _posix_spawnp(path: Any, argv: Any, env: Any, /, **options: Any) -> int:
    return _spawned("posix_spawnp", path, argv, env, options)


def _spawned(name: str, path: Any, argv: Any, env: Any, options: dict[str, Any]) -> int:
    lane = starter()
    if lane is None:
        pid: int = _real[name](path, argv, env, **options)
        return pid
    one = begun(lane, "start", command_line(argv, executable=path, environment=env))
    with nowhere():
        pid = _real[name](path, argv, with_ticket(env, one.ticket), **options)
    assert own_run.own is not None
    own_run.own.starts.note(pid, one)
    return pid


# fork


def _fork() -> int:
    lane = starter()
    if lane is None:
        pid: int = _real["fork"]()
        return pid
    pid, _ = _forked(lane, lambda: (_real["fork"](), None))
    return pid


def _forkpty() -> tuple[int, int]:
    lane = starter()
    if lane is None:
        found: tuple[int, int] = _real["forkpty"]()
        return found
    return _forked(lane, _real["forkpty"])


def _forked(lane: Lane, fork: Any) -> tuple[int, Any]:
    from reenact.capture.processes.arriving import begin

    one = begun(lane, "fork", CommandLine(("fork",), None))
    own = own_run.own
    assert own is not None
    with lane.run.lock:  # nobody is in the middle of something that the child would never see the end of
        place = PLACE.get()
        PLACE.set(None)
        pid, rest = fork()
        PLACE.set(place)
    if pid:
        own.starts.note(pid, one)
    else:
        begin(one.ticket, command=sys.orig_argv, lane=lane)
    return pid, rest


def _after_in_child() -> None:
    """A forked child carries nothing of its parent's, however it was forked."""
    from reenact.capture.guard import guard

    own = own_run.own
    if own is not None and own.live is not None:
        own.live.was_let_go = True
    own_run.set_own(None)
    keeper.__init__()  # type: ignore[misc]
    guard.holes.clear()


# exec


def _execv(path: Any, argv: Any, /) -> None:
    if not _executed(path, argv, None):
        _real["execv"](path, argv)


def _execve(path: Any, argv: Any, env: Any) -> None:
    if not _executed(path, argv, env):
        _real["execve"](path, argv, env)


def _executed(path: Any, argv: Any, env: Any) -> bool:
    """The run ends here, and what this process becomes has one of its own. False: nothing of it is on record."""
    lane = starter()
    if lane is None:
        return False
    if not isinstance(path, int) and not (os.path.isfile(path) and os.access(path, os.X_OK)):
        return False  # as when a name is looked for in every folder of the path
    executable = f"/proc/self/fd/{path}" if isinstance(path, int) else path
    environment = os.environ if env is None else env
    command = command_line(argv, executable=executable, environment=environment)
    one = begun(lane, "exec", command)
    own = own_run.own
    assert own is not None
    ticket = own.becomes(one)
    with nowhere():
        _real["execve"](path, argv, with_ticket(environment, ticket))
    return True


_OURS = {
    "fork": _fork,
    "forkpty": _forkpty,
    "execv": _execv,
    "execve": _execve,
    "posix_spawn": _posix_spawn,
    "posix_spawnp": _posix_spawnp,
    "system": _system,
    "waitpid": _waitpid,
    "wait": _wait,
}
