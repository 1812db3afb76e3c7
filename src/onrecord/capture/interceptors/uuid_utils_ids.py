"""uuid_utils interceptor: ids that a library in Rust makes of the clock and of randomness."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

from onrecord.capture.draws import draw
from onrecord.capture.interceptors.import_hooks import Replace, find_holders


def patch(module: ModuleType, replace: Replace) -> None:
    wrappers = {name: partial(_draw_id, name, module.UUID) for name in ("uuid1", "uuid4", "uuid6", "uuid7")}
    wrappers |= {name: partial(_draw_number, name) for name in ("_uuid4_int", "_uuid7_int")}
    for name, wrapper in wrappers.items():
        if hasattr(module, name):  # older releases have fewer
            for owner in find_holders(name, getattr(module, name)):
                replace(owner, name, wrapper)


def _draw_id(name: str, make: Any, original: Any, *args: Any, **options: Any) -> Any:
    number: int = draw(f"uuid_utils.{name}", lambda: original(*args, **options).int)
    return make(int=number)


def _draw_number(name: str, original: Any, *args: Any, **options: Any) -> Any:
    return draw(f"uuid_utils.{name}", lambda: original(*args, **options))
