"""Hook of mkdocs: show the file name of a code block as its title.

Documents write the name after the language (` ```python agent.py `), because the tests read it there.
"""

from __future__ import annotations

import re
from typing import Any

NAMED_FENCE = re.compile(r"^```(\w+) ([\w./-]+)$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return NAMED_FENCE.sub(r'```\1 title="\2"', markdown)
