"""The situations, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from situations import checks
from situations.place import Place


@dataclass(frozen=True)
class Situation:
    title: str
    program: str
    check: Callable[[Place], str]
    """What holds, in words; raises `Failed` where something else happens."""
    concurrent: bool = False
    about_chance: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """What the wrappers choose among the settings of their recorder by."""
        told = {"SITUATIONS_CONCURRENT": self.concurrent, "SITUATIONS_CHANCE": self.about_chance}
        return {name: "1" for name, holds in told.items() if holds}


SITUATIONS = {
    "gather": Situation(
        "`gather` of five, with another order on replay: answers and their order",
        "gather",
        checks.same_again,
        concurrent=True,
    ),
    "race": Situation(
        "`wait(FIRST_COMPLETED)` and cancel: the recorded winner", "race", checks.same_again, concurrent=True
    ),
    "timeout": Situation(
        "a time-out that fired: fires again, although the answer is there",
        "timeout",
        checks.same_again,
        concurrent=True,
    ),
    "three-answers": Situation("one request, three answers", "same_request", checks.same_again),
    "fifty-at-once": Situation(
        "50 identical requests at once: each caller its own answer, in the recorded order",
        "fifty",
        checks.same_again,
        concurrent=True,
    ),
    "threads": Situation("two threads", "threads", checks.same_again, concurrent=True),
    "stream": Situation("a stream: live while recorded, the same pieces on replay", "stream", checks.live_and_same),
    "stream-cut": Situation("a stream that the server cuts off", "stream_cut", checks.same_again),
    "stream-left": Situation("a stream that the program leaves early", "stream_left", checks.same_again),
    "retries": Situation("the client library tries again by itself (503, 503, 200)", "retries", checks.same_again),
    "other-models": Situation("the clients of two other providers", "other_models", checks.same_again),
    "other-clients": Situation(
        "requests, httpx, urllib, http.client, aiohttp in one program", "other_clients", checks.same_again
    ),
    "tool-raises": Situation("a tool raises: class, attributes, cause", "tool_raises", checks.acted_once),
    "chance": Situation(
        "time, datetime, random, uuid, urandom, order of a set", "chance", checks.same_again, about_chance=True
    ),
    "changed-prompt": Situation(
        "a prompt changed in step 3 of 5: found, with the old and the new text", "five_steps", checks.told_where
    ),
    "another-key": Situation("replayed with a dummy API key", "same_request", checks.same_with_another_key),
    "killed": Situation("`kill -9` after call 3 of 5, then continued", "five_steps", checks.goes_on),
    "killed-in-tool": Situation(
        "killed inside a tool that has acted, then continued: not twice", "killed_tool", checks.never_twice
    ),
    "killed-in-stream": Situation(
        "killed in the middle of a stream, then continued", "killed_stream", checks.stream_goes_on
    ),
    "altered": Situation("one stored answer is altered: noticed", "same_request", checks.alteration_named),
    "secrets": Situation(
        "secrets in the body of a request: in no file, without a rule of one's own",
        "secrets_in_body",
        checks.nothing_in_clear,
    ),
    "child": Situation("a child process asks: recorded, or refused aloud", "child", checks.recorded_or_refused),
    "raw-socket": Situation("a raw socket: recorded, or refused aloud", "raw_socket", checks.recorded_or_refused),
    "nothing": Situation("a program with nothing to record: its replay is no pass", "nothing", checks.no_pass),
    "size": Situation("50 turns of 1 KB, 55 KB of unique text: at most 150 KB", "fifty_turns", checks.small),
}
