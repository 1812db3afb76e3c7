"""Parse search queries: words that must all occur, "phrases", prefixes*. Pure.

User input never becomes FTS5 syntax: every term is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from onrecord.core.lazy_regex import Pattern
from onrecord.errors import InvalidInput
from onrecord.index.texts import LONGEST_WORD, make_searchable

LONGEST_QUERY = 200
MOST_TERMS = 16

_TERM = Pattern(r'"([^"]*)"?(\*?)|([^\s"]+)')
_WORD = re.compile(r"[^\W_]+")
_HINT = 'Search for words that must all occur, "a phrase", or the beginning of a word: inv*'


class Term(NamedTuple):
    words: tuple[str, ...]
    prefix: bool


class Query(NamedTuple):
    terms: tuple[Term, ...]

    @property
    def expression(self) -> str:
        """Return the FTS5 expression, with every term quoted."""
        return " ".join('"' + " ".join(term.words) + '"' + (" *" if term.prefix else "") for term in self.terms)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return a pattern that marks the terms in a text. It is an approximation, not used for searching."""
        alternatives = []
        for term in sorted(self.terms, key=lambda one: -sum(map(len, one.words))):
            inner = r"[\W_]*".join(map(re.escape, term.words))
            is_single_character = len(term.words[0]) == 1 and make_searchable(term.words[0]) != term.words[0]
            edge = "" if is_single_character else r"(?<![^\W_])"
            end = r"[^\W_]*" if term.prefix else "" if is_single_character else r"(?![^\W_])"
            alternatives.append(edge + inner + end)
        return re.compile("|".join(alternatives), re.IGNORECASE)


def parse_query(text: str) -> Query:
    if len(text) > LONGEST_QUERY:
        raise InvalidInput(f"a search has at most {LONGEST_QUERY} characters", hint=_HINT, code="bad_query")
    terms = tuple(_parse_terms(text))
    if not terms:
        raise InvalidInput("a search needs a word", hint=_HINT, code="bad_query")
    if len(terms) > MOST_TERMS:
        raise InvalidInput(f"a search has at most {MOST_TERMS} terms", hint=_HINT, code="bad_query")
    return Query(terms)


def _parse_terms(text: str) -> Iterator[Term]:
    for match in _TERM.finditer(text):
        inner, star = (match[1], bool(match[2])) if match[3] is None else (match[3], match[3].endswith("*"))
        words = tuple(word[:LONGEST_WORD] for word in _WORD.findall(make_searchable(inner)))
        if words:
            yield Term(words, star)
