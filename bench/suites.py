"""The measurements by suite name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.append import measure_group_commit, measure_postgres_append, measure_sqlite_append
from bench.capture import measure_capture
from bench.capture_replay import measure_call_replay
from bench.capture_startup import measure_program_startup, measure_sizes
from bench.capture_stream import measure_stream
from bench.cli_startup import measure_commands
from bench.conversation import measure_conversation
from bench.digest import measure_digest
from bench.divergence import measure_divergence
from bench.effects import measure_recording
from bench.effects_each import measure_each
from bench.effects_peers import measure_peers
from bench.effects_replay import measure_effect_replay, measure_resume
from bench.effects_waits import measure_waits
from bench.fleet import measure_fleet
from bench.forks import measure_fork, measure_run_replay
from bench.import_time import measure_import
from bench.measurement import Row, Workplace
from bench.pages_lists import measure_lists
from bench.pages_run import measure_run_page
from bench.share import measure_share
from bench.text_diff import measure_text_diff
from bench.verify import measure_verify

SUITES: dict[str, Callable[[Workplace], Iterator[Row]]] = {
    "append": measure_sqlite_append,
    "group": measure_group_commit,
    "postgres": measure_postgres_append,
    "verify": measure_verify,
    "digest": measure_digest,
    "conversation": measure_conversation,
    "import": measure_import,
    "effects": measure_recording,
    "effects-each": measure_each,
    "effects-peers": measure_peers,
    "effects-replay": measure_effect_replay,
    "effects-resume": measure_resume,
    "effects-waits": measure_waits,
    "replay-runs": measure_run_replay,
    "forks": measure_fork,
    "fleet": measure_fleet,
    "diverging": measure_divergence,
    "diff-texts": measure_text_diff,
    "cli-startup": measure_commands,
    "capture": measure_capture,
    "capture-replay": measure_call_replay,
    "capture-stream": measure_stream,
    "capture-startup": measure_program_startup,
    "capture-size": measure_sizes,
    "pages-run": measure_run_page,
    "pages-lists": measure_lists,
    "share": measure_share,
}
