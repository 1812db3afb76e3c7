"""Encode subclasses of built-in types: the built-in value inside, and the attributes of the instance.

Values are read and set with the built-in's own methods, so that an overridden `__iter__`, `__getitem__` or `__init__`
has no effect.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from onrecord.core.codec.registry import label_of

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: set by a class statement; C types have their own layouts
_STANDARD = (OrderedDict, defaultdict, deque)
_FACTORIES = {label_of(cls): cls for cls in (int, float, str, list, dict, set, tuple, bool, bytes, frozenset)}


def _filler(make: Callable[[type], Any], add: Callable[[Any, Any], Any]) -> Callable[[type, Any], Any]:
    """Return a function that makes an empty instance of a class and adds the items of a plain value."""

    def fill(cls: type, value: Any) -> Any:
        made = make(cls)
        add(made, value)
        return made

    return fill


def _fill_ordered(cls: type, value: dict[Any, Any]) -> Any:
    made: Any = OrderedDict.__new__(cls)
    for key, item in value.items():
        OrderedDict.__setitem__(made, key, item)
    return made


def _datetime_parts(value: datetime) -> tuple[Any, ...]:
    day = (value.year, value.month, value.day)
    return (*day, value.hour, value.minute, value.second, value.microsecond, value.tzinfo)


def _time_parts(value: time) -> tuple[Any, ...]:
    return (value.hour, value.minute, value.second, value.microsecond, value.tzinfo)


# Built-in → (type of the plain value, read it from an instance, build an instance). Derived types come first.
_BASES: dict[type, tuple[type, Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    OrderedDict: (dict, lambda v: dict(OrderedDict.items(v)), _fill_ordered),
    defaultdict: (dict, dict.copy, _filler(defaultdict.__new__, dict.update)),
    dict: (dict, dict.copy, _filler(dict.__new__, dict.update)),
    deque: (list, lambda v: list(deque.__iter__(v)), _filler(deque.__new__, deque.extend)),
    list: (list, list.copy, _filler(list.__new__, list.extend)),
    tuple: (tuple, lambda v: tuple(tuple.__iter__(v)), tuple.__new__),
    set: (set, lambda v: set(set.__iter__(v)), _filler(set.__new__, set.update)),
    frozenset: (frozenset, lambda v: frozenset(frozenset.__iter__(v)), frozenset.__new__),
    str: (str, str.__str__, str.__new__),
    bytes: (bytes, lambda v: bytes(memoryview(v)), bytes.__new__),
    bytearray: (bytearray, lambda v: bytearray(memoryview(v)), _filler(bytearray.__new__, bytearray.extend)),
    int: (int, int.__int__, int.__new__),
    float: (float, float.__float__, float.__new__),
    complex: (complex, complex.__pos__, complex.__new__),
    datetime: (
        datetime,
        lambda v: datetime(*_datetime_parts(v), fold=v.fold),
        lambda cls, v: datetime.__new__(cls, *_datetime_parts(v), fold=v.fold),
    ),
    date: (date, lambda v: date(v.year, v.month, v.day), lambda cls, v: date.__new__(cls, v.year, v.month, v.day)),
    time: (
        time,
        lambda v: time(*_time_parts(v), fold=v.fold),
        lambda cls, v: time.__new__(cls, *_time_parts(v), fold=v.fold),
    ),
    timedelta: (
        timedelta,
        lambda v: timedelta(v.days, v.seconds, v.microseconds),
        lambda cls, v: timedelta.__new__(cls, v.days, v.seconds, v.microseconds),
    ),
    Decimal: (Decimal, lambda v: Decimal(v.as_tuple()), Decimal.__new__),
}


def builtin_base(cls: type) -> type | None:
    """Return the built-in type that a user's class derives from, or a standard container itself."""
    if cls in _STANDARD:
        return cls
    if cls in _BASES or not cls.__flags__ & _HEAP_TYPE:
        return None
    return next((base for base in cls.__mro__ if base in _BASES), None)


def read_subclass(value: Any) -> dict[str, Any]:
    base = builtin_base(type(value))
    assert base is not None
    fields: dict[str, Any] = {"value": _BASES[base][1](value)}
    if base is defaultdict:
        factory = value.default_factory
        known = isinstance(factory, type) and _FACTORIES.get(label_of(factory)) is factory
        fields["default_factory"] = label_of(factory) if known else factory
    elif base is deque:
        fields["maxlen"] = deque.maxlen.__get__(value)
    attributes = getattr(value, "__dict__", None)
    if attributes:
        fields["attributes"] = dict(attributes)
    return fields


def build_subclass(cls: type, fields: Any) -> Any:
    """Build an instance. Raise TypeError, KeyError or ValueError if the fields do not fit the class."""
    base = builtin_base(cls)
    if base is None:
        raise TypeError
    plain, _, build = _BASES[base]
    value = fields["value"]
    if type(value) is not plain:
        raise TypeError
    made = build(cls, value)
    if base is deque:
        initialise: Any = deque.__init__  # the only way to set maxlen
        initialise(made, value, fields["maxlen"])
    elif base is defaultdict:
        factory = fields["default_factory"]
        made.default_factory = _FACTORIES[factory] if type(factory) is str else factory
    attributes = fields.get("attributes")
    if attributes:
        made.__dict__.update(attributes)
    return made
