"""Fifty turns of a kilobyte each, sent again and again as conversations are."""

import random

from kit import MODEL, client, say

source = random.Random(4711)
model, said = client(), []
for _ in range(50):
    said.append({"role": "user", "content": "".join(source.choices("abcdefghijklmnopqrstuvwxyz      ", k=1024))})
    answer = model.chat.completions.create(model=MODEL, messages=said).choices[0].message.content
    said.append({"role": "assistant", "content": answer})
say(said[-1]["content"])
