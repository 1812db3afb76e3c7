"""Clock interceptor: every reading of a clock in a lane is a draw.

A reading that the record does not have fits the run's clock: the time of day is that of the last delivery, and a
counter continues from its last value in this run, in a replay and after a resume.

`datetime` is written in C, and other modules hold the class itself: its methods are replaced in place.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from datetime import date, datetime, tzinfo
from functools import partial
from importlib.util import find_spec, module_from_spec
from types import BuiltinFunctionType
from typing import Any
from weakref import WeakKeyDictionary, ref

from onrecord.capture.draws import draw_at, drawing_lane, find_site
from onrecord.capture.interceptors.replacements import Replacement
from onrecord.runtime.engine.run import LiveRun

_COUNTERS = ("monotonic", "perf_counter", "process_time")
_SYSTEM_CLOCKS = ("clock_gettime", "clock_gettime_ns")
_TIMES_OF_DAY = frozenset({getattr(time, "CLOCK_REALTIME", 0), getattr(time, "CLOCK_TAI", 11)})
_FORMATTERS = ("localtime", "gmtime", "ctime")
"""Functions that use the current time when called without one."""
_NANOSECONDS = 1_000_000_000
_COUNTER_NAMES = tuple(f"{name}{unit}" for name in _COUNTERS for unit in ("", "_ns"))


def _find_real(name: str) -> Callable[..., Any]:
    """Return a function of `time`, also if a test has replaced it by a clock of its own."""
    found: Callable[..., Any] = getattr(time, name)
    if not isinstance(found, BuiltinFunctionType):
        spec = find_spec("time")
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(fresh := module_from_spec(spec))
        found = getattr(fresh, name)
    return found


_REAL: dict[str, Callable[..., Any]] = {
    name: _find_real(name)
    for name in ("time", "time_ns", "strftime", "asctime", *_FORMATTERS, *_COUNTER_NAMES, *_SYSTEM_CLOCKS)
    if hasattr(time, name)
}
_real_methods: dict[tuple[type, str], Any] = {}


def replacements() -> list[Replacement]:
    wrappers = {"time": _time, "time_ns": _time_ns, "strftime": _strftime, "asctime": _asctime}
    wrappers |= {name: _wrap_counter(name) for name in _COUNTER_NAMES}
    wrappers |= {name: _wrap_formatter(name, _REAL[name]) for name in _FORMATTERS}
    wrappers |= {name: _wrap_system_clock(name, _REAL[name]) for name in _SYSTEM_CLOCKS if name in _REAL}
    return [Replacement(time, name, _REAL[name], wrapper) for name, wrapper in wrappers.items()]


def install_methods() -> None:
    """Replace the methods of `datetime`."""
    if not _real_methods:
        _replace_methods(datetime, {"now": _now, "utcnow": _utcnow})
        _replace_methods(date, {"today": _today})


def uninstall_methods() -> None:
    for (cls, name), real in _real_methods.items():
        _writable_dict(cls)[name] = real
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))
    _real_methods.clear()


# Readings


class _RunClock:
    """The clocks of a run with a history, as its program sees them. All values are nanoseconds."""

    def __init__(self, run: LiveRun) -> None:
        self._find_run = ref(run)  # the clock is kept by its run
        self._delivered = -1
        self._since = 0
        self._counters: dict[str, tuple[int, int, int]] = {}
        """The last value of each counter, with the real one and the run's time at that moment."""

    @property
    def _run(self) -> LiveRun:
        run = self._find_run()
        assert run is not None
        return run

    def time_ns(self) -> int:
        """Return a time of day that is not on record."""
        run = self._run
        if run.is_live:
            return int(_REAL["time_ns"]())
        now = int(_REAL["monotonic_ns"]())
        if run.now_us != self._delivered:
            self._delivered, self._since = run.now_us, now
        return self._delivered * 1000 + now - self._since  # a loop that waits for a time of day ends

    def count_ns(self, counter: str, read: Callable[[], int]) -> int:
        """Return a value of a counter that is not on record: it never goes backwards."""
        real = int(read())
        if counter not in self._counters:
            return real
        last, real_then, time_then = self._counters[counter]
        continued = last + max(0, real - real_then, (self._run.now_us - time_then) * 1000)
        return max(real, continued) if self._run.is_live else continued

    def note_counter(self, counter: str, value: int, read: Callable[[], int]) -> None:
        self._counters[counter] = value, int(read()), self._run.now_us


_clocks: WeakKeyDictionary[LiveRun, _RunClock] = WeakKeyDictionary()


def _clock_of(run: LiveRun) -> _RunClock:
    found = _clocks.get(run)
    if found is None:
        found = _clocks[run] = _RunClock(run)
    return found


def _read_time(what: str) -> float:
    """Return the time of day in seconds."""
    lane = drawing_lane()
    if lane is None or (site := find_site(what)) is None:
        return _REAL["time"]()  # type: ignore[no-any-return]
    run = lane.run
    make = _REAL["time"] if run.history is None else lambda: _clock_of(run).time_ns() / _NANOSECONDS
    value: float = draw_at(lane, site, make)
    return value


def _time() -> float:
    return _read_time("time")


def _time_ns() -> int:
    return _read_time_ns("time_ns")


def _read_time_ns(what: str) -> int:
    lane = drawing_lane()
    if lane is None or (site := find_site(what)) is None:
        return _REAL["time_ns"]()  # type: ignore[no-any-return]
    make = _REAL["time_ns"] if lane.run.history is None else _clock_of(lane.run).time_ns
    value: int = draw_at(lane, site, make)
    return value


def _read_counter(what: str, counter: str, read: Callable[[], Any], read_ns: Callable[[], int]) -> Any:
    """Return the value of a counter: by `read`, or as nanoseconds by `read_ns`."""
    lane = drawing_lane()
    if lane is None or (site := find_site(what)) is None:
        return read()
    run = lane.run
    if run.history is None:
        return draw_at(lane, site, read)
    clock, is_whole = _clock_of(run), read is read_ns

    def continue_count() -> Any:
        value = clock.count_ns(counter, read_ns)
        return value if is_whole else value / _NANOSECONDS

    value = draw_at(lane, site, continue_count)
    clock.note_counter(counter, value if is_whole else int(value * _NANOSECONDS), read_ns)
    return value


def _wrap_counter(name: str) -> Callable[[], Any]:
    counter = name.removesuffix("_ns")
    read, read_ns = _REAL[name], _REAL[f"{counter}_ns"]

    def read_counter() -> Any:
        return _read_counter(name, counter, read, read_ns)

    read_counter.__name__ = name
    return read_counter


def _wrap_formatter(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def format_time(seconds: float | None = None, /) -> Any:
        return real(_read_time(name) if seconds is None else seconds)

    format_time.__name__ = name
    return format_time


def _strftime(format: str, moment: Any = None, /) -> str:  # noqa: A002
    text: str = _REAL["strftime"](format, _REAL["localtime"](_read_time("strftime")) if moment is None else moment)
    return text


def _asctime(moment: Any = None, /) -> str:
    text: str = _REAL["asctime"](_REAL["localtime"](_read_time("asctime")) if moment is None else moment)
    return text


def _wrap_system_clock(name: str, real: Callable[[int], Any]) -> Callable[[int], Any]:
    def read_system_clock(clock: int, /) -> Any:
        if clock in _TIMES_OF_DAY:
            read_time = _read_time_ns if name.endswith("_ns") else _read_time
            return read_time(f"{name} {clock}")
        read_ns = partial(_REAL["clock_gettime_ns"], clock)
        read = read_ns if name.endswith("_ns") else partial(real, clock)
        return _read_counter(f"{name} {clock}", f"clock {clock}", read, read_ns)

    read_system_clock.__name__ = name
    return read_system_clock


# datetime


def _now(cls: type[datetime], tz: tzinfo | None = None) -> datetime:
    return cls.fromtimestamp(_read_time("datetime.now"), tz)


def _utcnow(cls: type[datetime]) -> datetime:
    return cls.utcfromtimestamp(_read_time("datetime.utcnow"))


def _today(cls: type[date]) -> date:
    return cls.fromtimestamp(_read_time("date.today"))


def _replace_methods(cls: type, methods: dict[str, Callable[..., Any]]) -> None:
    members = _writable_dict(cls)
    for name, method in methods.items():
        method.__name__ = name  # by which it is pickled
        _real_methods[cls, name] = members[name]
        members[name] = classmethod(method)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))


def _writable_dict(cls: type) -> dict[str, Any]:
    """Return the dictionary of a class written in C, which does not allow assignment to its attributes."""
    found = gc.get_referents(cls.__dict__)[0]
    assert isinstance(found, dict)
    return found
