"""vcrpy, with the body taken into account, which it leaves out by itself."""

import running
import vcr

MODES = {"record": "all", "replay": "none", "resume": "new_episodes"}
recorder = vcr.VCR(match_on=["method", "scheme", "host", "port", "path", "query", "body"])
mode, _ = running.arguments()
with recorder.use_cassette("cassette.yaml", record_mode=MODES[mode]):
    running.run_program()
