"""Two threads, each with three questions."""

import threading

from kit import ask, client, say

model = client()
answers: dict[str, list[str]] = {}


def work(name: str) -> None:
    answers[name] = [ask(model, f"a {name} question") for _ in range(3)]


threads = [threading.Thread(target=work, args=(name,)) for name in ("slow", "fast")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
say(sorted(answers.items()))
