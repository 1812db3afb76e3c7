"""Check the form of the documents: every page is in the navigation, prose wraps, paragraphs stay short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "onrecord"
PAGES = sorted(DOCS.rglob("*.md"))
GENERATED = {DOCS / name for name in ("evidence/situations.md", "evidence/benchmarks.md", "reference/api.md")}
PROSE = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *PAGES]
COLUMNS = 100
LINES = 8
LIST_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s")


def blocks(text: str) -> Iterator[list[tuple[int, str]]]:
    """Yield the paragraphs and list items of a document with their line numbers, without tables and code."""
    block: list[tuple[int, str]] = []
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        opened = re.match(r"\s*(```+|~~~+)", line)
        is_code = bool(fence) or opened is not None
        if opened is not None:
            fence = "" if fence else opened[1]
        ends = is_code or not line.strip() or line.lstrip().startswith(("|", "#", "<", "![", "[!["))
        if block and (ends or LIST_ITEM.match(line)):
            yield block
            block = []
        if not ends:
            block.append((number, line))
    if block:
        yield block


def nav_pages(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for one in entry:
            yield from nav_pages(one)
    elif isinstance(entry, dict):
        yield from nav_pages(list(entry.values()))


def test_every_page_is_in_the_navigation() -> None:
    listed = list(nav_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert sorted(listed) == [str(page.relative_to(DOCS)) for page in PAGES]


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_wraps_and_paragraphs_are_short(path: Path) -> None:
    found = list(blocks(path.read_text(encoding="utf-8")))
    wide = [number for block in found for number, line in block if len(line) > COLUMNS and " " in line.strip()]
    long = [block[0][0] for block in found if len(block) > LINES]
    if path in GENERATED:
        wide = []
    assert (wide, long) == ([], []), "lines over 100 columns, paragraphs over eight lines"


def test_the_architecture_fits_three_screens() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > COLUMNS] == []


@pytest.mark.parametrize("path", [ROOT / "ARCHITECTURE.md", *sorted((DOCS / "internals").glob("*.md"))], ids=str)
def test_files_of_the_source_exist(path: Path) -> None:
    """A path counts from the project or from the package; a bare name is a module somewhere in the package."""
    named = re.findall(r"`((?:[\w.-]+/)*[\w*.-]+(?:\.py|/))`", path.read_text(encoding="utf-8"))
    missing = [
        name
        for name in named
        if not any([*ROOT.glob(name), *SOURCE.glob(name), *SOURCE.rglob(name.rpartition("../")[2].rstrip("/"))])
    ]
    assert missing == []


def test_a_wide_line_and_a_long_paragraph_are_found() -> None:
    text = "# title\n\n" + "word\n" * 9 + "\n- item\n" + "w" * 101 + "\n\n```text\n" + "c" * 200 + "\n```\n| table |\n"
    found = list(blocks(text))
    assert [len(block) for block in found] == [9, 2]
    assert max(len(line) for block in found for _, line in block) == 101
