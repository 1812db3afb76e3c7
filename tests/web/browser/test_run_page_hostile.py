"""Whatever was recorded is text on the page: nothing of it runs, nothing is loaded, nothing turns the page around."""

from __future__ import annotations

from typing import Any

import pytest

from kit.browser import assert_accessible, assert_fits, shot
from kit.run_page import Look, opened, side
from kit.web import record
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, StateUpdated
from onrecord.journal.chain import Draft

SCRIPT = "<img src=x onerror=\"window.ran=1\"><script>window.ran=1</script><svg onload='window.ran=1'>"
VALUES: dict[str, Any] = {
    SCRIPT: SCRIPT,
    "</script><script>window.ran=1</script>": "]]>--></textarea></title></style></script><script>window.ran=1</script>",
    "ansi": "\x1b[31mred\x1b[0m\x07\x00",
    "bidi": "safe \u202egnp.exe\u202c \u2066x\u2069",
    "link": "javascript:window.ran=1",
    "data": "data:text/html,<script>parent.ran=1</script>",
    "external": "https://evil.example/x.png ![x](https://evil.example/y.png) <link rel=stylesheet href=//evil.example>",
    "__proto__": {"polluted": "yes"},
    "constructor": {"prototype": {"polluted": "yes"}},
    "long": "A" * 1_000_000,
    "wide": "B" * 3_000,
    "template": "{{ 7 * 7 }} {% raw %} ${7*7}",
    "zalgo": "Z" + "\u0301" * 200,
    "emoji": "👩‍👩‍👧‍👦" * 50,
}


@pytest.fixture(autouse=True)
def recorded(store: str) -> None:
    messages = [{"role": SCRIPT, "content": SCRIPT}, {"role": "user", "content": VALUES["bidi"]}]
    answer = {"choices": [{"message": {"role": "assistant", "content": SCRIPT + VALUES["ansi"]}}], "model": SCRIPT}
    record(
        store,
        "hostile",
        [
            ActionRequested(action_id="a1", payload={"messages": messages, **VALUES}, name=SCRIPT, effect="model_call"),
            Draft(ActionSucceeded(action_id="a1", output=answer), parent=1),
            StateUpdated(payload=VALUES),
            Draft(ActionRequested(action_id="a2", payload=VALUES, name=VALUES["bidi"], effect=SCRIPT), lane="main>a"),
            Completed(output=VALUES),
        ],
        facts={"agent": SCRIPT + VALUES["bidi"], "input": VALUES},
    )


ADDRESSES = [
    *(f"?seq={seq}&show={part}" for seq in (1, 3, 4) for part in ("value", "raw")),
    "?seq=3&show=state",
    *(f"?view={view}" for view in ("conversation", "receipts", "family", "about")),
]


@pytest.mark.parametrize("script", [True, False])
def test_it_is_text(look: Look, script: bool) -> None:
    seen = look(java_script_enabled=script)
    for address in ADDRESSES if script else ADDRESSES[:1]:
        page = opened(seen, f"/runs/hostile{address}") if script else seen.open(f"/runs/hostile{address}")
        page.wait_for_load_state("networkidle")
        text = page.locator("body").inner_text()
        for hidden in ("\u202e", "\u2066", "\x1b", "\x07"):
            assert hidden not in text
        assert page.locator("main img, main svg[onload], main iframe, main link, main script:not([type])").count() == 0
        if script:
            assert page.evaluate("[window.ran, ({}).polluted]") == [None, None]


def test_it_is_shown_as_it_is(look: Look) -> None:
    seen = look()
    page = opened(seen, "/runs/hostile?seq=3")
    text = side(page, "onerror")
    assert "<script>window.ran=1</script>" in text
    assert "\\u202egnp.exe" in text
    assert "Long parts are cut short." in text
    assert "__proto__" in text
    assert "\\u202e" in page.locator(".figures").inner_text()
    assert page.locator("#side").inner_text().count("A") < 30_000, "a megabyte is not drawn unasked"
    assert_fits(page)
    assert_accessible(page)
    shot(page, "run-hostile")
    page.keyboard.press("2")
    page.locator(".message.its-answer", has_text="onerror").wait_for()
    assert_fits(page)
    assert_accessible(page)


def test_a_hostile_address(look: Look) -> None:
    seen = look()
    page = opened(seen, "/runs/hostile?seq=3&show=%22%3E%3Cscript%3E&view=constructor")
    side(page, "StateUpdated")
    for bad in ("/runs/hostile?seq=-1", "/runs/hostile?seq=x", "/runs/hostile?other=1", "/runs/%3Cscript%3E"):
        answer = seen.page.goto(seen.served.url + bad)
        assert answer is not None
        assert answer.status in (400, 404)
        assert seen.page.locator("h1").is_visible()
    seen.complaints.clear()  # a browser complains about a 400
