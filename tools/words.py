"""Count how docstrings begin and how often house words occur, and fail above the ceilings of `words.toml`.

python tools/words.py              a line for each package, then the documents and help texts
python tools/words.py PACKAGE      the docstrings of one package that begin with a listed word, with their lines
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "onrecord"
RULES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FIRST_WORDS = frozenset(RULES["first_words"].split())
HOUSE_WORDS = re.compile("|".join(RULES["house"]["patterns"]), re.IGNORECASE)
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


class Docstring(NamedTuple):
    path: Path
    line: int
    text: str

    @property
    def first_word(self) -> str:
        found = re.match(r"\W*([\w'’-]+)", self.text)
        return found[1].lower() if found else ""

    @property
    def is_listed(self) -> bool:
        return self.first_word in FIRST_WORDS


def docstrings(path: Path) -> Iterator[Docstring]:
    """Yield the docstrings of a module, its classes and its functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield Docstring(path, getattr(node, "lineno", 1), text)


def package_of(path: Path) -> str:
    """Return the package that a ceiling is for: at most two names below `onrecord`."""
    folders = path.relative_to(SOURCE).parts[:-1]
    return ".".join(folders[:2]) or "onrecord"


def by_package() -> dict[str, list[Docstring]]:
    found: dict[str, list[Docstring]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        found[package_of(path)].extend(docstrings(path))
    return dict(sorted(found.items()))


def help_texts() -> str:
    """Return every help text of the command line as one text."""
    import click

    from onrecord.cli.main import COMMANDS, cli

    def texts(command: click.Command) -> Iterator[str]:
        yield command.help or ""
        for parameter in command.params:
            yield getattr(parameter, "help", None) or ""
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                inner = command.get_command(click.Context(command), name)
                if inner is not None:
                    yield from texts(inner)

    return "\n".join([*texts(cli), *(COMMANDS[name][1] for name in COMMANDS)])


def documents() -> Iterator[tuple[str, str]]:
    for path in [
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]:
        yield str(path.relative_to(ROOT)), FENCED.sub("", path.read_text(encoding="utf-8"))
    yield "--help", help_texts()


def check_docstrings() -> bool:
    fine = True
    for package, found in by_package().items():
        listed = sum(one.is_listed for one in found)
        share = 100 * listed / len(found) if found else 0.0
        ceiling = RULES["ceilings"].get(package, RULES["ceiling"])
        verdict = "" if share <= ceiling else f"  ABOVE {ceiling}"
        fine &= not verdict
        print(f"{package:32} {len(found):5} docstrings  {share:5.1f} %{verdict}")
    return fine


def check_documents() -> bool:
    words = house = 0
    for name, text in documents():
        here, odd = len(text.split()), len(HOUSE_WORDS.findall(text))
        words, house = words + here, house + odd
        print(f"{name:32} {here:5} words       {1000 * odd / max(here, 1):5.1f} of 1,000")
    share = 1000 * house / max(words, 1)
    fine = share <= RULES["house"]["ceiling"]
    print(f"{'all documents and help texts':32} {words:5} words       {share:5.1f} of 1,000{'' if fine else '  ABOVE'}")
    return fine


def main() -> int:
    if len(sys.argv) > 1:
        for one in by_package()[sys.argv[1]]:
            if one.is_listed:
                print(f"{one.path.relative_to(ROOT)}:{one.line}: {one.text.splitlines()[0]}")
        return 0
    return 0 if all([check_docstrings(), check_documents()]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
