"""agenttape."""

import agenttape
import running

MODES = {"record": "record", "replay": "none", "resume": "new_episodes"}
mode, _ = running.arguments()
with agenttape.use_cassette("run", mode=MODES[mode]):
    running.run_program()
