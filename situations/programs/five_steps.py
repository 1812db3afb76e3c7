"""Five steps, each with all that was said before. May die after the third."""

import os
import signal

from kit import MODEL, client, dies_here, say

STEPS = ["read the list", "find the longest", "alphabetise the list", "count the rest", "sum it up"]
model, said = client(), []
for number, step in enumerate(STEPS, 1):
    said.append({"role": "user", "content": f"step {number}: {step}"})
    answer = model.chat.completions.create(model=MODEL, messages=said).choices[0].message.content
    said.append({"role": "assistant", "content": answer})
    if number == 3 and dies_here():
        os.kill(os.getpid(), signal.SIGKILL)
say([message["content"] for message in said])
