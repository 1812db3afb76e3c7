"""Clock interceptor: recorded values for the program's own call sites, virtual time for the libraries it uses.

How often libraries read a clock differs from run to run, so their readings are not recorded. In a replay they read the
recorded time plus the time since it was reached, so that the durations they measure stay plausible.

`datetime` is written in C, and other modules hold the class itself: its methods are replaced in place.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from datetime import date, datetime, tzinfo
from typing import Any

from onrecord.capture.draws import draw, is_installed_call, is_own_call
from onrecord.capture.interceptors import sleep
from onrecord.capture.interceptors.sleep import skipped_seconds
from onrecord.journal import sources
from onrecord.runtime.engine.context import PLACE
from onrecord.runtime.scheduler.lanes import Lane

_COUNTERS = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns")
_SYSTEM_CLOCKS = ("clock_gettime", "clock_gettime_ns")
_FORMATTERS = ("localtime", "gmtime", "ctime")
"""Functions that use the current time when called without one."""
_real: dict[str, Callable[..., Any]] = {}
_real_methods: dict[tuple[type, str], Any] = {}


def install() -> None:
    if _real:
        return
    for name in ("time", "time_ns", "strftime", "asctime", *_FORMATTERS, *_COUNTERS, *_SYSTEM_CLOCKS):
        if hasattr(time, name):
            _real[name] = getattr(time, name)
    sources.system_clock = _real["time_ns"]
    time.time = _time
    time.time_ns = _time_ns
    for name in _COUNTERS:
        setattr(time, name, _wrap_counter(name, _real[name]))
    for name in _FORMATTERS:
        setattr(time, name, _wrap_formatter(name, _real[name]))
    time.strftime = _strftime
    time.asctime = _asctime
    for name in _SYSTEM_CLOCKS:
        if name in _real:
            setattr(time, name, _wrap_system_clock(name, _real[name]))
    sleep.install()
    _replace_methods(datetime, {"now": _now, "utcnow": _utcnow})
    _replace_methods(date, {"today": _today})


def uninstall() -> None:
    sleep.uninstall()
    for name, real in _real.items():
        setattr(time, name, real)
    _real.clear()
    sources.system_clock = None
    for (cls, name), real in _real_methods.items():
        _writable_dict(cls)[name] = real
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))
    _real_methods.clear()


# Finding the caller costs more than reading the clock. So the lane is checked first: effects, and code outside any run,
# read the real clock.


def _time() -> float:
    lane = PLACE.get()
    if type(lane) is not Lane:
        return _real["time"]()  # type: ignore[no-any-return]
    if is_own_call(2):
        value: float = draw("time", _real["time"])
        return value
    return _real["time"]() if lane.run.is_live else _virtual_us() / 1e6


def _time_ns() -> int:
    lane = PLACE.get()
    if type(lane) is not Lane:
        return _real["time_ns"]()  # type: ignore[no-any-return]
    if is_own_call(2):
        value: int = draw("time_ns", _real["time_ns"])
        return value
    return _real["time_ns"]() if lane.run.is_live else _virtual_us() * 1000


def _wrap_counter(name: str, real: Callable[[], Any]) -> Callable[[], Any]:
    is_whole, runs_in_sleep = name.endswith("_ns"), not name.startswith("process")

    def read_counter() -> Any:
        if type(PLACE.get()) is Lane and is_own_call(2):
            return draw(name, real)
        if runs_in_sleep and (skipped := skipped_seconds()) and is_installed_call(2):
            return real() + (int(skipped * 1e9) if is_whole else skipped)
        return real()

    read_counter.__name__ = name
    return read_counter


def _wrap_formatter(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def format_time(seconds: float | None = None, /) -> Any:
        return real(_read_time() if seconds is None else seconds)

    format_time.__name__ = name
    return format_time


def _strftime(format: str, moment: Any = None, /) -> str:  # noqa: A002
    text: str = _real["strftime"](format, _real["localtime"](_read_time()) if moment is None else moment)
    return text


def _asctime(moment: Any = None, /) -> str:
    text: str = _real["asctime"](_real["localtime"](_read_time()) if moment is None else moment)
    return text


def _wrap_system_clock(name: str, real: Callable[[int], Any]) -> Callable[[int], Any]:
    def read_system_clock(clock: int, /) -> Any:
        if type(PLACE.get()) is Lane and is_own_call(2):
            return draw(f"{name} {clock}", lambda: real(clock))
        return real(clock)

    read_system_clock.__name__ = name
    return read_system_clock


# Virtual time


_last_reading: list[Any] = [0, 0.0, 0.0]
"""Last recorded time, the monotonic time at which it was read, and the seconds of sleep skipped until then."""


def _virtual_us() -> int:
    """Return the recorded time plus the real and skipped time since it was reached."""
    lane = PLACE.get()
    assert type(lane) is Lane
    now = _real["monotonic"]()
    if lane.run.now_us != _last_reading[0]:
        _last_reading[:] = lane.run.now_us, now, skipped_seconds()
    return int(_last_reading[0] + (now - _last_reading[1] + skipped_seconds() - _last_reading[2]) * 1e6)


# datetime


def _now(cls: type[datetime], tz: tzinfo | None = None) -> datetime:
    return cls.fromtimestamp(_read_time(), tz)


def _utcnow(cls: type[datetime]) -> datetime:
    return cls.utcfromtimestamp(_read_time())


def _today(cls: type[date]) -> date:
    return cls.fromtimestamp(_read_time())


def _read_time() -> float:
    """Return the time for the caller of the clock function, which must be three frames up."""
    lane = PLACE.get()
    if type(lane) is not Lane:
        return _real["time"]()  # type: ignore[no-any-return]
    if is_own_call(3):
        value: float = draw("time", _real["time"])
        return value
    return _real["time"]() if lane.run.is_live else _virtual_us() / 1e6


def _replace_methods(cls: type, methods: dict[str, Callable[..., Any]]) -> None:
    members = _writable_dict(cls)
    for name, method in methods.items():
        _real_methods[cls, name] = members[name]
        members[name] = classmethod(method)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))


def _writable_dict(cls: type) -> dict[str, Any]:
    """Return the dictionary of a class written in C, which does not allow assignment to its attributes."""
    found = gc.get_referents(cls.__dict__)[0]
    assert isinstance(found, dict)
    return found
