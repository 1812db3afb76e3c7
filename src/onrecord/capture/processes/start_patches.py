"""Interceptors for starts of processes: `subprocess`, `os.fork`, `os.exec…`, `os.posix_spawn`, `os.system`, and, after
their import, `multiprocessing` and `concurrent.futures.process`.

The start itself runs outside any lane, so the sandbox of a replay does not stop it: it was allowed or refused before.
"""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from typing import Any

from onrecord.capture.interceptors.import_hooks import Interceptor
from onrecord.capture.interceptors.import_hooks import install as install_interceptors
from onrecord.capture.processes import process_run
from onrecord.capture.processes.command_lines import CommandLine, parse_command
from onrecord.capture.processes.spawn import Started, find_starting_lane, start_process
from onrecord.capture.processes.ticket import StartKind, with_ticket
from onrecord.runtime.engine.context import Lane, inside
from onrecord.runtime.engine.lease_keeper import keeper
from onrecord.runtime.scheduler.drivers.coordinator import WATCHDOG
from onrecord.runtime.scheduler.drivers.strands import CURRENT
from onrecord.runtime.scheduler.drivers.timers import TIMERS

_INTERCEPTORS = tuple(
    Interceptor(module, f"onrecord.capture.processes.{replacement}")
    for module, replacement in (
        ("multiprocessing.util", "multiprocessing_patch"),
        ("multiprocessing.spawn", "multiprocessing_patch"),
        ("multiprocessing.popen_fork", "multiprocessing_patch"),
        ("multiprocessing.popen_spawn_posix", "multiprocessing_patch"),
        ("multiprocessing.popen_forkserver", "multiprocessing_patch"),
        ("multiprocessing.connection", "multiprocessing_patch"),
        ("multiprocessing.pool", "pools"),
        ("concurrent.futures.process", "pools"),
    )
)
_real: dict[str, Any] = {}
_POPEN_SIGNATURE = inspect.signature(subprocess.Popen.__init__)


def install() -> None:
    if not _real:
        _real.update({name: getattr(os, name) for name in _REPLACEMENTS})
        popen: Any = subprocess.Popen
        _real["popen"], _real["status"] = popen.__init__, popen._handle_exitstatus
        popen.__init__, popen._handle_exitstatus = _popen, _note_exit_status
        for name, replacement in _REPLACEMENTS.items():
            setattr(os, name, replacement)
        os.register_at_fork(after_in_child=_reset_forked_child)
    install_interceptors(_INTERCEPTORS)


def begin_start(lane: Lane, how: StartKind, command: CommandLine) -> Started:
    """Record the start of a process, or find it in the record, and return it with its ticket."""
    current = process_run.current
    assert current is not None
    return start_process(lane, how, command, strict=current.strict, session=current.session.folder, mode=current.mode)


def starting_lane() -> Lane | None:
    """Return the lane that starts a process, or None if the start is not recorded here."""
    current = process_run.current
    lane = find_starting_lane()
    return lane if lane is not None and current is not None and current.pid == os.getpid() else None


# subprocess


def _popen(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
    lane = starting_lane()
    try:
        bound = _POPEN_SIGNATURE.bind(self, *args, **kwargs) if lane is not None else None
    except TypeError:
        bound = None
    if lane is None or bound is None:
        _real["popen"](self, *args, **kwargs)
        return
    arguments = bound.arguments
    environment = arguments.get("env")
    command = parse_command(
        arguments.get("args"),
        executable=arguments.get("executable"),
        shell=bool(arguments.get("shell")),
        environment=environment,
    )
    started = begin_start(lane, "start", command)
    arguments["env"] = with_ticket(os.environ if environment is None else environment, started.ticket)
    with inside():
        _real["popen"](*bound.args, **bound.kwargs)
    assert process_run.current is not None
    process_run.current.starts.note(self.pid, started)


def _note_exit_status(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
    _real["status"](self, *args, **kwargs)
    if self.returncode is not None:
        note_child_end(self.pid, self.returncode)


def note_child_end(pid: int, status: int) -> None:
    if process_run.current is not None and process_run.current.pid == os.getpid():
        process_run.current.starts.ended(pid, status)


def _waitpid(pid: int, options: int, /) -> tuple[int, int]:
    found: tuple[int, int] = _real["waitpid"](pid, options)
    _note_wait_status(*found)
    return found


def _wait() -> tuple[int, int]:
    found: tuple[int, int] = _real["wait"]()
    _note_wait_status(*found)
    return found


def _note_wait_status(pid: int, status: int) -> None:
    if pid and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
        note_child_end(pid, os.waitstatus_to_exitcode(status))


def _system(command: Any) -> int:
    if starting_lane() is None:
        status: int = _real["system"](command)
        return status
    # Like the C library: while it waits, this process ignores interrupts that are meant for the command.
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in _ignored_interrupts()}
    try:
        with subprocess.Popen(command, shell=True, preexec_fn=_restore_interrupts if ignored else None) as process:  # noqa: S602
            code = process.wait()
    finally:
        for number, handler in ignored.items():
            signal.signal(number, handler)
    return -code if code < 0 else code << 8


def _ignored_interrupts() -> tuple[int, ...]:
    import threading

    return (signal.SIGINT, signal.SIGQUIT) if threading.current_thread() is threading.main_thread() else ()


def _restore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def _posix_spawn(path: Any, argv: Any, env: Any, /, **options: Any) -> int:
    return _spawn("posix_spawn", path, argv, env, options)


def _posix_spawnp(path: Any, argv: Any, env: Any, /, **options: Any) -> int:
    return _spawn("posix_spawnp", path, argv, env, options)


def _spawn(name: str, path: Any, argv: Any, env: Any, options: dict[str, Any]) -> int:
    lane = starting_lane()
    if lane is None:
        pid: int = _real[name](path, argv, env, **options)
        return pid
    started = begin_start(lane, "start", parse_command(argv, executable=path, environment=env))
    with inside():
        pid = _real[name](path, argv, with_ticket(env, started.ticket), **options)
    assert process_run.current is not None
    process_run.current.starts.note(pid, started)
    return pid


# fork


def _fork() -> int:
    lane = starting_lane()
    if lane is None:
        pid: int = _real["fork"]()
        return pid
    pid, _ = _fork_child(lane, lambda: (_real["fork"](), None))
    return pid


def _forkpty() -> tuple[int, int]:
    lane = starting_lane()
    if lane is None:
        found: tuple[int, int] = _real["forkpty"]()
        return found
    return _fork_child(lane, _real["forkpty"])


def _fork_child(lane: Lane, fork: Any) -> tuple[int, Any]:
    from onrecord.capture.processes.child_start import begin

    started = begin_start(lane, "fork", CommandLine(("fork",), None))
    current = process_run.current
    assert current is not None
    with lane.run.lock, inside():  # no other thread holds the lock, so the child does not inherit a locked one
        pid, rest = fork()
    if pid:
        current.starts.note(pid, started)
    else:
        begin(started.ticket, command=sys.orig_argv, forked=lane.strand)
    return pid, rest


def _reset_forked_child() -> None:
    """Drop the parent's run and leases in a forked child, however it was forked."""
    from onrecord.capture.unrecorded import guard

    current = process_run.current
    if current is not None and current.live is not None:
        current.live.is_released = True
        current.live.coordinator.has_ended = True  # no code of this process acts in the parent's name
    process_run.set_current(None)
    CURRENT.strand = None
    for helper in (keeper, WATCHDOG, TIMERS):  # their threads are the parent's
        helper.__init__()  # type: ignore[misc]
    guard.holes.clear()


# exec


def _execv(path: Any, argv: Any, /) -> None:
    if not _exec_recorded(path, argv, None):
        _real["execv"](path, argv)


def _execve(path: Any, argv: Any, env: Any) -> None:
    if not _exec_recorded(path, argv, env):
        _real["execve"](path, argv, env)


def _exec_recorded(path: Any, argv: Any, env: Any) -> bool:
    """End this run and exec the new image, which records its own run. Return False if the exec is not recorded."""
    lane = starting_lane()
    if lane is None:
        return False
    if not isinstance(path, int) and not (os.path.isfile(path) and os.access(path, os.X_OK)):
        return False  # as when every folder of PATH is tried
    executable = f"/proc/self/fd/{path}" if isinstance(path, int) else path
    environment = os.environ if env is None else env
    command = parse_command(argv, executable=executable, environment=environment)
    started = begin_start(lane, "exec", command)
    current = process_run.current
    assert current is not None
    ticket = current.end_before_exec(started)
    with inside():
        _real["execve"](path, argv, with_ticket(environment, ticket))
    return True


_REPLACEMENTS = {
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
