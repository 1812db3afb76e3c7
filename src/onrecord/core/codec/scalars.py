"""Encode values without parts as tags, and decode them."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from onrecord.core.canonical import MAX_INTEGER
from onrecord.core.lazy_regex import Pattern

_DIGITS = Pattern(r"-?[1-9][0-9]*\Z", re.ASCII)
_ZONE_KEY = Pattern(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*\Z", re.ASCII)
_PLAIN_DIGITS = 4000  # Python's own conversion refuses more than 4,300 and takes quadratic time
MAX_INTEGER_DIGITS = 1_000_000
_MAX_INTEGER_BITS = 3_321_928  # the bits of MAX_INTEGER_DIGITS digits
_PATHS: dict[str, type[PurePath]] = {
    cls.__name__: cls for cls in (PurePosixPath, PosixPath, PureWindowsPath, WindowsPath)
}


def is_text(value: str) -> bool:
    """Return True if the text can be written as UTF-8, that is, has no lone surrogate."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def encode_text(value: str) -> Any:
    return value if is_text(value) else {"$text": _encode_base64(value.encode("utf-8", "surrogatepass"))}


def encode_integer(value: int) -> Any:
    """Encode an integer. Return None if it is too long to be written."""
    if -MAX_INTEGER <= value <= MAX_INTEGER:
        return value
    bits = value.bit_length()
    if bits > _MAX_INTEGER_BITS:
        return None
    # Decimal converts long integers fast and has no limit of digits.
    return {"$int": str(value) if bits < 3 * _PLAIN_DIGITS else str(Decimal(value))}


def encode_real(value: float) -> Any:
    if value - value == 0.0:
        return value
    return {"$float": "nan" if value != value else "inf" if value > 0 else "-inf"}


def encode_complex(value: complex) -> Any:
    return {"$complex": [encode_real(value.real), encode_real(value.imag)]}


def _encode_base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def encode_bytes(tag: str, value: bytes) -> Any:
    return {tag: _encode_base64(value)}


def encode_moment(tag: str, value: datetime | time) -> Any:
    """Encode a datetime or time, with its zone if the text alone does not hold it. None if it has a zone without
    offset.
    """
    zone = value.tzinfo
    named = _name_zone(zone)
    if named is None and not value.fold:
        if zone is not None and value.utcoffset() is None:
            return None
        return {tag: value.isoformat()}
    return {tag: [value.isoformat(), {"zone": named, "fold": value.fold}]}


def _name_zone(zone: tzinfo | None) -> Any:
    """Return the zone as data, or None if the offset in the text is enough.

    Zones of other libraries (pytz, dateutil, pydantic) keep their offset, which gives an equal moment.
    """
    if isinstance(zone, ZoneInfo):
        return zone.key
    if type(zone) is timezone and _has_own_name(zone):
        return zone_data(zone)
    return None


def _has_own_name(zone: timezone) -> bool:
    return zone.tzname(None) != timezone(zone.utcoffset(None)).tzname(None)


def zone_data(zone: tzinfo) -> Any:
    """Return the zone as data, or None if it cannot be written."""
    if isinstance(zone, ZoneInfo):
        return zone.key
    if type(zone) is not timezone:
        return None
    offset = zone.utcoffset(None)
    name = zone.tzname(None) if _has_own_name(zone) else None
    return {"offset": [offset.days, offset.seconds, offset.microseconds], "name": name}


def encode_path(value: PurePath) -> Any:
    flavour = next(cls.__name__ for cls in type(value).__mro__ if cls.__name__ in _PATHS)
    return {"$path": [flavour, encode_text(str(value))]}


# --- decoding; a ValueError, TypeError or KeyError means damage, which the decoder reports ---


class KeptError(Exception):
    """The tag is valid but has no value on this machine; it stays an unknown tag."""


def _decode_base64(value: Any) -> bytes:
    if type(value) is not str:
        raise TypeError
    return b64decode(value, validate=True)


def read_integer(value: Any) -> int:
    if len(value) > MAX_INTEGER_DIGITS + 1 or not _DIGITS.match(value):
        raise ValueError
    return int(value) if len(value) < _PLAIN_DIGITS else int(Decimal(value))


def read_real(value: Any) -> float:
    if value not in ("nan", "inf", "-inf"):
        raise ValueError
    return float(value)


def _read_part(value: Any) -> float:
    if type(value) is dict:
        (part,) = value.values()
        return read_real(part)
    if type(value) is not float and type(value) is not int:
        raise TypeError
    return float(value)


def _read_moment(cls: type[datetime] | type[time]) -> Callable[[Any], Any]:
    def read(value: Any) -> datetime | time:
        if type(value) is str:
            return cls.fromisoformat(value)
        written, more = value
        made = cls.fromisoformat(written)
        if more["fold"] not in (0, 1):
            raise ValueError
        zone = more["zone"]
        return made.replace(tzinfo=made.tzinfo if zone is None else read_zone(zone), fold=more["fold"])

    return read


def read_zone(value: Any) -> tzinfo:
    if type(value) is str:
        if not _ZONE_KEY.match(value):
            raise ValueError
        try:
            return ZoneInfo(value)
        except (KeyError, ValueError, OSError):  # unknown on this machine
            raise KeptError from None
    offset = _read_timedelta(value["offset"])
    return timezone(offset) if value["name"] is None else timezone(offset, value["name"])


def _read_timedelta(value: Any) -> timedelta:
    days, seconds, microseconds = value
    if {type(days), type(seconds), type(microseconds)} != {int}:
        raise TypeError
    return timedelta(days, seconds, microseconds)


def _read_text_form(make: Callable[[str], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not str:
            raise TypeError
        return make(value)

    return read


def _read_path(value: Any) -> PurePath:
    flavour, written = value
    if type(written) is dict:
        (encoded,) = written.values()
        written = _read_surrogates(encoded)
    cls = _PATHS[flavour]
    try:
        return cls(written)
    except NotImplementedError:  # a path of the other operating system
        return (PureWindowsPath if cls is WindowsPath else PurePosixPath)(written)


def _read_surrogates(value: Any) -> str:
    return _decode_base64(value).decode("utf-8", "surrogatepass")


READERS: dict[str, Callable[[Any], Any]] = {
    "$int": read_integer,
    "$float": read_real,
    "$complex": lambda value: complex(_read_part(value[0]), _read_part(value[1])),
    "$text": _read_surrogates,
    "$bytes": _decode_base64,
    "$bytearray": lambda value: bytearray(_decode_base64(value)),
    "$datetime": _read_moment(datetime),
    "$date": _read_text_form(date.fromisoformat),
    "$time": _read_moment(time),
    "$timedelta": _read_timedelta,
    "$zone": read_zone,
    "$decimal": _read_text_form(Decimal),
    "$uuid": _read_text_form(UUID),
    "$path": _read_path,
}
