"""agent-rewind."""

import os

import rewind
import running

rewind.auto_patch()
rewind.patch_thread_pool()
mode, _ = running.arguments()
match = "parallel" if "SITUATIONS_CONCURRENT" in os.environ else "strict"
if mode == "record":
    session = rewind.record("run.rewind")
elif mode == "replay":
    last = "resumed.rewind" if os.path.exists("resumed.rewind") else "run.rewind"
    session = rewind.replay(last, match=match, require_full_consumption=True)
else:
    kept = len(rewind.Trace.open("run.rewind").events)
    session = rewind.fork("run.rewind", at=kept, match=match, save_as="resumed.rewind")
with session:
    running.run_program()
