"""The measurements, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.appending import append_postgres, append_sqlite, group_commit
from bench.capture import capturing
from bench.capture_replay import replaying_calls
from bench.capture_starting import sizes, starting
from bench.capture_stream import streaming
from bench.cli_starting import commands
from bench.comparing import diff_of_texts
from bench.conversation import conversation
from bench.digesting import digest
from bench.diverging import diverging
from bench.effects import recording
from bench.effects_peers import peers
from bench.effects_replay import replaying, resuming
from bench.effects_waits import waits
from bench.fleet import fleet
from bench.forking import forking, replaying_runs
from bench.importing import import_time
from bench.measuring import Row, Workplace
from bench.pages_lists import lists
from bench.pages_run import pages_run
from bench.sharing import sharing
from bench.verifying import verify

SUITES: dict[str, Callable[[Workplace], Iterator[Row]]] = {
    "append": append_sqlite,
    "group": group_commit,
    "postgres": append_postgres,
    "verify": verify,
    "digest": digest,
    "conversation": conversation,
    "import": import_time,
    "effects": recording,
    "effects-peers": peers,
    "effects-replay": replaying,
    "effects-resume": resuming,
    "effects-waits": waits,
    "replay-runs": replaying_runs,
    "forks": forking,
    "fleet": fleet,
    "diverging": diverging,
    "diff-texts": diff_of_texts,
    "cli-startup": commands,
    "capture": capturing,
    "capture-replay": replaying_calls,
    "capture-stream": streaming,
    "capture-startup": starting,
    "capture-size": sizes,
    "pages-run": pages_run,
    "pages-lists": lists,
    "share": sharing,
}
