"""Stand-ins for values whose class, content or tag this reader does not have."""

from __future__ import annotations

from typing import Any, NoReturn


class _Frozen:
    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed")


class Plain(_Frozen):
    """An instance of a class that is not available: the label of the class, and the fields as data.

    `members` holds what some forms keep beside the fields (pydantic's set, extra and private). Encoding gives exactly
    the tree it was decoded from.
    """

    __slots__ = ("fields", "form", "label", "members")
    label: str
    form: str
    fields: Any
    members: dict[str, Any]

    def __init__(self, label: str, form: str, fields: Any, members: dict[str, Any] | None = None) -> None:
        put = object.__setattr__
        put(self, "label", label)
        put(self, "form", form)
        put(self, "fields", fields)
        put(self, "members", members or {})

    def __repr__(self) -> str:
        return f"Plain({self.label!r}, {self.fields!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plain):
            return NotImplemented
        mine = (self.label, self.form, self.fields, self.members)
        return mine == (other.label, other.form, other.fields, other.members)

    def __hash__(self) -> int:
        return hash((self.label, self.form))  # fields may hold lists, which have no hash


class NonReplayable:
    """A stand-in for an object without a value: a client, a file, a function. Only its type was recorded.

    Two of them are never equal: nothing is known about the original objects.
    """

    __slots__ = ("label", "note")

    def __init__(self, label: str, note: str) -> None:
        self.label = label
        self.note = note

    def __repr__(self) -> str:
        return f"<not replayable: {self.label}>"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self.label} was recorded as its type only, so it has no {name!r} here")

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{self.label} was recorded as its type only, so it cannot be called")


class UnknownTag(_Frozen):
    """A tag that this version does not know, kept unchanged."""

    __slots__ = ("tree",)
    tree: dict[str, Any]

    def __init__(self, tree: dict[str, Any]) -> None:
        object.__setattr__(self, "tree", tree)

    @property
    def name(self) -> str:
        return next(iter(self.tree))

    def __repr__(self) -> str:
        return f"<unknown tag {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownTag) and self.tree == other.tree

    def __hash__(self) -> int:
        return hash(self.name)


class Erased(_Frozen):
    """A value that was erased."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<erased>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Erased)

    def __hash__(self) -> int:
        return hash(Erased)


class RecordedError(Exception):
    """A stand-in for an exception whose class is not available.

    If base classes of the recorded class are available, the instance also derives from them (`failures`), so that an
    `except` for one of them catches it. Recorded attributes can be read from it.
    """

    label: str
    message: str
    attributes: dict[str, Any]
    members: tuple[Any, ...]
    """The errors of an exception group."""
    bases: tuple[str, ...]

    def __init__(
        self,
        label: str,
        message: str,
        args: tuple[Any, ...] = (),
        attributes: dict[str, Any] | None = None,
        members: tuple[Any, ...] = (),
        bases: tuple[str, ...] = (),
    ) -> None:
        BaseException.args.__set__(self, args)  # type: ignore[attr-defined]
        # Set in `__dict__`: a base class may override `__setattr__`.
        self.__dict__.update(label=label, message=message, attributes=attributes or {}, members=members, bases=bases)

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__.get("attributes", {})
        if name in attributes:
            return attributes[name]
        raise AttributeError(f"{self.__dict__.get('label', 'RecordedError')} has no attribute {name!r} here")

    def __str__(self) -> str:
        return str(self.__dict__["message"])

    def __repr__(self) -> str:
        return f"RecordedError({self.__dict__['label']!r}, {self.__dict__['message']!r})"
