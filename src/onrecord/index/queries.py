"""What somebody searches for: words, all of which must be there, "phrases", beginnings*. Pure.

Nothing that is typed is ever part of the language of the index: every term is handed over as a quoted text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from reenact.core.lazy_patterns import Pattern
from reenact.errors import InvalidInput
from reenact.index.texts import LONGEST_WORD, searchable

LONGEST_QUERY = 200
MOST_TERMS = 16

_TERM = Pattern(r'"([^"]*)"?(\*?)|([^\s"]+)')
_WORD = re.compile(r"[^\W_]+")
_HINT = 'Words that must all be there, "a phrase", or the beginning of a word: inv*'


class Term(NamedTuple):
    words: tuple[str, ...]
    prefix: bool


class Query(NamedTuple):
    terms: tuple[Term, ...]

    @property
    def expression(self) -> str:
        """For FTS5: a phrase of words that it may not read anything into."""
        return " ".join('"' + " ".join(term.words) + '"' + (" *" if term.prefix else "") for term in self.terms)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Where the terms stand in a text, as far as a text shows it: for marking, not for finding."""
        ways = []
        for term in sorted(self.terms, key=lambda one: -sum(map(len, one.words))):
            inner = r"[\W_]*".join(map(re.escape, term.words))
            solid = len(term.words[0]) == 1 and searchable(term.words[0]) != term.words[0]
            edge = "" if solid else r"(?<![^\W_])"
            end = r"[^\W_]*" if term.prefix else "" if solid else r"(?![^\W_])"
            ways.append(edge + inner + end)
        return re.compile("|".join(ways), re.IGNORECASE)


def parse_query(text: str) -> Query:
    if len(text) > LONGEST_QUERY:
        raise InvalidInput(f"a search has at most {LONGEST_QUERY} characters", hint=_HINT, code="bad_query")
    terms = tuple(_terms(text))
    if not terms:
        raise InvalidInput("a search needs a word", hint=_HINT, code="bad_query")
    if len(terms) > MOST_TERMS:
        raise InvalidInput(f"a search has at most {MOST_TERMS} terms", hint=_HINT, code="bad_query")
    return Query(terms)


def _terms(text: str) -> Iterator[Term]:
    for match in _TERM.finditer(text):
        inner, star = (match[1], bool(match[2])) if match[3] is None else (match[3], match[3].endswith("*"))
        words = tuple(word[:LONGEST_WORD] for word in _WORD.findall(searchable(inner)))
        if words:
            yield Term(words, star)
