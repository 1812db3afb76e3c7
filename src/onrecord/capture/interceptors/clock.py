"""The clock of a program: exact values for its own call sites, virtual time for the libraries it uses.

Libraries read clocks in numbers that differ from run to run, and offline most of all, so their readings are no part of
the record: in a replay they see the recorded time go on, so that nothing they measure is absurd.

`datetime` is written in C and known to others by identity: its class is changed where it is, not replaced.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from datetime import date, datetime, tzinfo
from typing import Any

from reenact.capture.draws import drawn, is_installed_call, is_own_call
from reenact.capture.seams import sleeping
from reenact.capture.seams.sleeping import skipped_seconds
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE
from reenact.journal import sources

_COUNTERS = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns")
_SYSTEMS = ("clock_gettime", "clock_gettime_ns")
_TOLD = ("localtime", "gmtime", "ctime")
"""What they are not given is what time it is."""
_real: dict[str, Callable[..., Any]] = {}
_real_methods: dict[tuple[type, str], Any] = {}


def install() -> None:
    if _real:
        return
    for name in ("time", "time_ns", "strftime", "asctime", *_TOLD, *_COUNTERS, *_SYSTEMS):
        if hasattr(time, name):
            _real[name] = getattr(time, name)
    sources.system_clock = _real["time_ns"]
    time.time = _time
    time.time_ns = _time_ns
    for name in _COUNTERS:
        setattr(time, name, _counter(name, _real[name]))
    for name in _TOLD:
        setattr(time, name, _told(name, _real[name]))
    time.strftime = _strftime
    time.asctime = _asctime
    for name in _SYSTEMS:
        if name in _real:
            setattr(time, name, _system(name, _real[name]))
    sleeping.install()
    _change_class(datetime, {"now": _now, "utcnow": _utcnow})
    _change_class(date, {"today": _today})


def uninstall() -> None:
    sleeping.uninstall()
    for name, real in _real.items():
        setattr(time, name, real)
    _real.clear()
    sources.system_clock = None
    for (cls, name), real in _real_methods.items():
        _members(cls)[name] = real
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))
    _real_methods.clear()


# Whose reading it is takes longer to find out than reading the clock does. Where there is no lane it does not matter:
# an effect reads the clock as it is, and so does everybody outside of a run.


def _time() -> float:
    lane = PLACE.get()
    if type(lane) is not Lane:
        return _real["time"]()  # type: ignore[no-any-return]
    if is_own_call(2):
        value: float = drawn("time", _real["time"])
        return value
    return _real["time"]() if lane.run.is_live else _virtual_us() / 1e6


def _time_ns() -> int:
    lane = PLACE.get()
    if type(lane) is not Lane:
        return _real["time_ns"]()  # type: ignore[no-any-return]
    if is_own_call(2):
        value: int = drawn("time_ns", _real["time_ns"])
        return value
    return _real["time_ns"]() if lane.run.is_live else _virtual_us() * 1000


def _counter(name: str, real: Callable[[], Any]) -> Callable[[], Any]:
    is_whole, goes_on = name.endswith("_ns"), not name.startswith("process")

    def counted() -> Any:
        if type(PLACE.get()) is Lane and is_own_call(2):
            return drawn(name, real)
        if goes_on and (skipped := skipped_seconds()) and is_installed_call(2):
            return real() + (int(skipped * 1e9) if is_whole else skipped)
        return real()

    counted.__name__ = name
    return counted


def _told(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def told(seconds: float | None = None, /) -> Any:
        return real(_moment() if seconds is None else seconds)

    told.__name__ = name
    return told


def _strftime(format: str, moment: Any = None, /) -> str:  # noqa: A002
    text: str = _real["strftime"](format, _real["localtime"](_moment()) if moment is None else moment)
    return text


def _asctime(moment: Any = None, /) -> str:
    text: str = _real["asctime"](_real["localtime"](_moment()) if moment is None else moment)
    return text


def _system(name: str, real: Callable[[int], Any]) -> Callable[[int], Any]:
    def read(clock: int, /) -> Any:
        if type(PLACE.get()) is Lane and is_own_call(2):
            return drawn(f"{name} {clock}", lambda: real(clock))
        return real(clock)

    read.__name__ = name
    return read


# Virtual time


_seen: list[Any] = [0, 0.0, 0.0]
"""The last recorded time that was seen, when, and how many seconds of sleep had been skipped by then."""


def _virtual_us() -> int:
    """The time of the record, going on as the real one does since it was reached."""
    lane = PLACE.get()
    assert type(lane) is Lane
    now = _real["monotonic"]()
    if lane.run.now_us != _seen[0]:
        _seen[:] = lane.run.now_us, now, skipped_seconds()
    return int(_seen[0] + (now - _seen[1] + skipped_seconds() - _seen[2]) * 1e6)


# datetime


def _now(cls: type[datetime], tz: tzinfo | None = None) -> datetime:
    moment = cls.fromtimestamp(_moment(), tz)
    return moment


def _utcnow(cls: type[datetime]) -> datetime:
    return cls.utcfromtimestamp(_moment())


def _today(cls: type[date]) -> date:
    return cls.fromtimestamp(_moment())


def _moment() -> float:
    """Whoever called the method is three frames up."""
    lane = PLACE.get()
    if type(lane) is not Lane:
        return _real["time"]()  # type: ignore[no-any-return]
    if is_own_call(3):
        value: float = drawn("time", _real["time"])
        return value
    return _real["time"]() if lane.run.is_live else _virtual_us() / 1e6


def _change_class(cls: type, methods: dict[str, Callable[..., Any]]) -> None:
    members = _members(cls)
    for name, method in methods.items():
        _real_methods[cls, name] = members[name]
        members[name] = classmethod(method)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))


def _members(cls: type) -> dict[str, Any]:
    """The dictionary behind a class that is written in C, which cannot be changed by assignment."""
    found = gc.get_referents(cls.__dict__)[0]
    assert isinstance(found, dict)
    return found
