"""kinescope. A replay that it says parts from its record has failed."""

import json
import os
import sys

import kinescope
import running

mode, _ = running.arguments()
store = kinescope.LocalStore(".kinescope")
if mode == "record":
    session = kinescope.record("run", store, capture="all" if "SITUATIONS_CHANCE" in os.environ else ())
else:
    run = store.list_runs()[0].run_id
    if mode == "replay":
        session = kinescope.replay(run, store, policy="strict")
    else:
        kept = store.events(run)
        if not kept:
            sys.exit("nothing was kept to go on from")
        last = kept[-1]
        session = kinescope.fork(run, last.seq, {"output": store.get_blob(last.output_ref)}, store)
with session as found:
    running.run_program()
if mode == "replay" and found.divergences:
    sys.exit(json.dumps(found.divergences[0]))
