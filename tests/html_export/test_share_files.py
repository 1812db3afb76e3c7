"""One file for a colleague: what is written, and what `verify` and `import` make of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import onrecord
from kit import command_server
from kit.shared_runs import HOSTILE, damage, record_hostile, record_two, say
from onrecord.html_export.blocks import escaped, unescaped
from onrecord.html_export.reader import opened_share
from onrecord.journal.export import export_lines
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import Store


def onrecord_command(*arguments: str, store: str = "store.db") -> subprocess.CompletedProcess[str]:
    return command_server.call(["--store", store, *arguments])


def told(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def exported(store: Store, run: str) -> bytes:
    return b"".join(line + b"\n" for line in export_lines(JournalReader(store, run)))


@pytest.mark.parametrize("text", [*HOSTILE, "<", "\\", "\\\\<", "\\u003c", "\\\\u003c<\\u003C"])
def test_a_line_comes_out_as_it_went_in(text: str) -> None:
    line = json.dumps({"text": text}, ensure_ascii=False).encode()
    assert b"<" not in escaped(line)
    assert unescaped(escaped(line)) == line
    assert json.loads(escaped(line)) == json.loads(line), "it is the same JSON within the page"


@pytest.mark.parametrize("run", ["first", "hostile"])
def test_the_recording_within_is_the_export_to_the_byte(store: Store, run: str) -> None:
    record_two(store) if run == "first" else record_hostile(store)
    done = onrecord_command("export", "--html", run, "-o", "run.html")
    assert done.returncode == 0, done.stderr
    assert JournalReader(store, run).head().hash.hex() in done.stdout, "the head, to be told by another way"
    with opened_share("run.html") as share:
        assert share.own_page
        assert [one.read_bytes() for one in share.recordings] == [exported(store, run)]
    page = Path("run.html").read_bytes()
    within = page.partition(b'id="recording-1">\n')[2].partition(b"</script>\n")[0]
    assert b"<" not in within
    assert page.count(b"</script>") == 2


def test_it_asks_for_nothing_and_allows_nothing(store: Store) -> None:
    record_two(store)
    onrecord_command("export", "--html", "first", "-o", "run.html")
    page = Path("run.html").read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'sha256-" in page
    assert "unsafe" not in page.partition("<style>")[0]
    for asking in (" src=", "http://", "https://", "@import", "url("):
        around = page.partition('<script type="application/x-onrecord')[0]
        assert asking not in around, asking


def test_verify_and_import_read_it_with_code_of_their_own(store: Store) -> None:
    record_two(store)
    onrecord_command("export", "--html", "first", "-o", "run.html")
    verified = onrecord_command("verify", "run.html")
    assert verified.returncode == 0
    assert verified.stdout.strip().endswith("VALID")
    report = told(onrecord_command("verify", "run.html", "--json", "--deep"))
    assert (report["valid"], report["own_page"], report["run"]) == (True, True, "first")
    head = f"{report['events']}:{report['head']}"
    assert onrecord_command("verify", "run.html", "--expect", head).returncode == 0
    assert onrecord_command("verify", "run.html", "--expect", f"{report['events']}:{'0' * 64}").returncode == 4
    imported = told(onrecord_command("import", "run.html", "--json", store="other.db"))
    assert (imported["run"], imported["events"]) == ("first", report["events"])
    again = onrecord.open_store("other.db")
    try:
        assert exported(again, "first") == exported(store, "first")
    finally:
        again.close()


REGIONS = {
    "content": (b'"order":"A-17-0"', b'"order":"A-17-9"'),
    "link": (b'"lane":"main","parent":1', b'"lane":"mail","parent":1'),
    "header": (b'"namespace":"default"', b'"namespace":"Default"'),
    "salt": (b'},"salt":"', b'},"salt":"'),
    "end": (b'{"end":{"events":', b'{"end":{"events":9'),
}


@pytest.mark.parametrize("region", REGIONS)
def test_one_byte_is_noticed(store: Store, region: str) -> None:
    record_two(store)
    onrecord_command("export", "--html", "first", "-o", "run.html")
    page = Path("run.html").read_bytes()
    before, after = REGIONS[region]
    place = page.index(before)
    if region == "salt":
        place += len(before)
        altered = page[:place] + (b"1" if page[place : place + 1] == b"0" else b"0") + page[place + 1 :]
    else:
        altered = page[:place] + after + page[place + len(before) :]
    Path("altered.html").write_bytes(altered)
    assert onrecord_command("verify", "altered.html").returncode == 4
    assert onrecord_command("import", "altered.html", store="other.db").returncode == 4
    assert not Path("other.db").exists(), "a bad file leaves no store behind"


def test_line_ends_of_a_mail_program_do_no_harm(store: Store) -> None:
    record_two(store)
    onrecord_command("export", "--html", "first", "-o", "run.html")
    Path("mailed.html").write_bytes(Path("run.html").read_bytes().replace(b"\n", b"\r\n"))
    assert told(onrecord_command("verify", "mailed.html", "--json"))["own_page"]
    assert onrecord_command("import", "mailed.html", store="other.db").returncode == 0


def test_a_page_that_was_altered_around_the_recording_is_told(store: Store) -> None:
    record_two(store)
    onrecord_command("export", "--html", "first", "-o", "run.html")
    page = Path("run.html").read_text(encoding="utf-8")
    Path("altered.html").write_text(page.replace("Not checked", "All is well"), encoding="utf-8")
    done = onrecord_command("verify", "altered.html")
    assert done.returncode == 0, "the recording is what it was"
    assert "this version writes another page" in done.stdout


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda page: page.replace('id="recording-1"', 'id="recording-7"'), "not those that one page has"),
        (lambda page: page.replace('<script type="application/x-onrecord', "<script type='application/x"), "without a"),
        (
            lambda page: page.replace("<script>", page[page.index("<script type") : page.index("<script>") + 8], 1),
            "not",
        ),
        (lambda page: page[: page.index('{"link"')], "ends too early"),
        (lambda page: page.replace('{"link"', '<{"link"', 1), "not as it was written"),
    ],
    ids=["name", "none", "twice", "cut", "markup"],
)
def test_a_page_that_is_none_of_ours_is_refused(store: Store, made: Any, why: str) -> None:
    record_two(store)
    onrecord_command("export", "--html", "first", "-o", "run.html")
    Path("made.html").write_text(made(Path("run.html").read_text(encoding="utf-8")), encoding="utf-8")
    done = onrecord_command("verify", "made.html")
    assert done.returncode == 4
    assert why in done.stderr
    assert len(done.stderr.strip().splitlines()) == 2


def test_two_runs_in_one_file(store: Store) -> None:
    record_two(store)
    done = onrecord_command("diff", "--html", "first", "second", "-o", "both.html", "--json")
    assert done.returncode == 1, "they did not do the same"
    assert told(done)["verdict"] == "diverged"
    verified = told(onrecord_command("verify", "both.html", "--json"))
    assert [(one["run"], one["valid"], one["own_page"]) for one in verified] == [
        ("first", True, True),
        ("second", True, True),
    ]
    imported = told(onrecord_command("import", "both.html", "--json", store="other.db"))
    assert [one["run"] for one in imported] == ["first", "second"]
    assert onrecord_command("verify", "both.html", "--expect", f"1:{'0' * 64}").returncode == 2


def test_of_two_runs_none_is_imported_when_one_is_bad(store: Store) -> None:
    record_two(store)
    onrecord_command("diff", "--html", "first", "second", "-o", "both.html")
    page = Path("both.html").read_bytes()
    Path("bad.html").write_bytes(page.replace(b'"action_id":"main/look_up/4"', b'"action_id":"main/look_up/5"'))
    assert Path("bad.html").read_bytes() != page
    assert onrecord_command("import", "bad.html", store="other.db").returncode == 4
    assert not Path("other.db").exists()


def test_what_may_hold_a_secret_is_not_written_unasked(store: Store) -> None:
    @onrecord.agent
    def careless() -> str:
        return str(say("key sk-proj-Zq8" + "aB3dE5fG7hJ9kL1m" * 3))

    careless.run(run_id="careless", store=store)
    assert onrecord_command("scan", "careless").returncode == 1
    done = onrecord_command("export", "--html", "careless", "-o", "run.html")
    assert (done.returncode, Path("run.html").exists()) == (6, False)
    assert "may hold a secret" in done.stderr
    assert "aB3dE5fG7hJ9kL1m" not in done.stderr
    assert onrecord_command("export", "--html", "careless", "-o", "run.html", "--allow-secrets").returncode == 0
    assert onrecord_command("diff", "--html", "careless", "careless", "-o", "both.html").returncode == 6


def test_files_are_not_replaced_unasked_and_half_an_option_is_refused(store: Store) -> None:
    record_two(store)
    Path("run.html").write_text("mine")
    assert onrecord_command("export", "--html", "first", "-o", "run.html").returncode == 6
    assert Path("run.html").read_text() == "mine"
    assert onrecord_command("export", "--html", "first", "-o", "run.html", "--force").returncode == 0
    assert onrecord_command("export", "--html", "first", "-o", "-").returncode == 2
    assert onrecord_command("export", "first", "-o", "x", "--allow-secrets").returncode == 2
    assert onrecord_command("diff", "first", "second", "-o", "x.html").returncode == 2
    assert onrecord_command("diff", "first", "second", "--html").returncode == 2
    assert onrecord_command("export", "--html", "none", "-o", "x.html").returncode == 3
    assert sorted(path.name for path in Path().glob("*.html")) == ["run.html"]


def test_a_damaged_run_is_not_shared(store: Store) -> None:
    record_two(store)
    damage("store.db", "first", 3)
    done = onrecord_command("export", "--html", "first", "-o", "run.html", "--allow-secrets")
    assert done.returncode == 4
    assert not Path("run.html").exists()


def test_it_needs_no_extra() -> None:
    code = (
        "import sys, onrecord.cli.commands.html_export, onrecord.html_export.writer;"
        "import onrecord.html_export.reader, onrecord.html_export.comparison;"
        "assert not {'starlette', 'jinja2', 'uvicorn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_thousand_events_take_little_more_than_their_export(store: Store) -> None:
    record_two(store, turns=249)
    reader = JournalReader(store, "first")
    assert reader.head().seq >= 998
    done = told(onrecord_command("export", "--html", "first", "-o", "run.html", "--json"))
    assert done["bytes"] <= 1.5 * len(exported(store, "first")) + 200_000
