"""What holds in a situation. The same questions to everybody; an answer says what happened."""

from __future__ import annotations

import re
from typing import NamedTuple

from situations.kits.common.canaries import CANARIES
from situations.place import Done, Place
from situations.stored import alter, contains

SIZE_LIMIT = 150_000


class Verdict(NamedTuple):
    holds: bool
    note: str


class Failed(Exception):
    """Ends a check: what happened is its text."""


def _recorded(place: Place, *, requests: int | None = None) -> Done:
    done = place.record()
    if done.timed_out:
        raise Failed("recording hangs")
    if done.status:
        raise Failed(f"recording fails: {done.last_words}")
    if not done.said:
        raise Failed("recording: the program says nothing")
    if requests is not None and done.requests != requests:
        raise Failed(f"recording makes {done.requests} requests of {requests}")
    return done


def _same(place: Place, recorded: Done, **settings: str) -> None:
    """The one question to a replay: the same lines, nothing asked, and the recorder says so too."""
    replayed = place.replay(**settings)
    if replayed.timed_out:
        raise Failed("replay hangs")
    if replayed.requests:
        verdict = "and says that all is well" if replayed.status == 0 else f"then fails: {replayed.last_words}"
        raise Failed(f"replay goes live: {replayed.requests} requests, {verdict}")
    if replayed.status:
        raise Failed(f"replay stops: {replayed.last_words}")
    if replayed.said != recorded.said:
        raise Failed(f"another result, with status 0: {_difference(recorded.said, replayed.said)}")


def _difference(expected: tuple[str, ...], actual: tuple[str, ...]) -> str:
    for one, other in zip(expected, actual, strict=False):
        if one != other:
            return f"`{one[:50]}` became `{other[:50]}`"
    return f"{len(expected)} lines became {len(actual)}"


# Checks, by situation


def same_again(place: Place) -> str:
    _same(place, _recorded(place))
    return "the same"


def live_and_same(place: Place) -> str:
    recorded = _recorded(place)
    if place.server.gate_timed_out:
        raise Failed("recording holds the stream back until its end")
    (place.notes / "first-piece-seen").unlink(missing_ok=True)
    _same(place, recorded)
    return "live while recorded, the same pieces"


def acted_once(place: Place) -> str:
    recorded = _recorded(place)
    if not recorded.said[0].startswith("True only 3 of lamp 3 KeyError"):
        raise Failed(f"recording changes the exception: {recorded.said[0][:80]}")
    _same(place, recorded)
    if len(place.ledger()) != 1:
        raise Failed("the tool was carried out again")
    return "class, attributes and cause"


def told_where(place: Place) -> str:
    """A changed prompt is found, and told with what it was and what it is."""
    _recorded(place, requests=5)
    place.program.write_text(place.program.read_text().replace("alphabetise", "randomise"))
    replayed = place.replay(SITUATIONS_EXACT="1")
    if replayed.timed_out:
        raise Failed("replay hangs")
    if replayed.requests:
        raise Failed(f"{replayed.requests} requests go out")
    if replayed.status == 0:
        raise Failed("passes in silence")
    words = replayed.words
    if "alphabetise" in words and "randomise" in words:
        return "found, with the old and the new text"
    half = "the new text, not the old" if "randomise" in words else "neither old nor new text"
    raise Failed(f"found, but tells {half}: {replayed.last_words}")


def goes_on(place: Place) -> str:
    """Killed after the third of five calls: the rest is done, and nothing twice."""
    (place.notes / "die").touch()
    killed = place.record(SITUATIONS_DIES="1")
    if killed.requests != 3:
        raise Failed(f"recording: {killed.last_words}")
    resumed = place.resume()
    if resumed.timed_out:
        raise Failed("hangs")
    if resumed.status or not resumed.said:
        raise Failed(f"cannot go on: {resumed.last_words}")
    if resumed.requests != 2:
        raise Failed(f"goes on with {resumed.requests} requests instead of 2")
    if [int(number) for number in re.findall(r"answer-(\d+)", resumed.said[-1])] != [1, 2, 3, 4, 5]:
        raise Failed(f"goes on with other answers: {resumed.said[-1][:80]}")
    _same(place, resumed)
    return "goes on with the other two, replays as one"


def never_twice(place: Place) -> str:
    """Killed in a tool that has acted: nobody knows, so it is not done again unasked."""
    (place.notes / "die").touch()
    killed = place.record(SITUATIONS_DIES="1")
    if len(place.ledger()) != 1:
        raise Failed(f"recording: {killed.last_words}")
    resumed = place.resume()
    if resumed.timed_out:
        raise Failed("hangs")
    if len(place.ledger()) > 1:
        raise Failed("pays twice" if resumed.status == 0 else f"pays twice, then: {resumed.last_words}")
    if resumed.status == 0:
        raise Failed("goes on as if it had been paid")
    if place.subject.name != "onrecord":
        raise Failed(f"cannot go on: {resumed.last_words}")
    settled = place.command(str(place.subject.bin / "onrecord"), "settle", "@last", "--done", '"paid"')
    finished = place.resume()
    if settled.status or finished.status or finished.said[-2:-1] != ("paid",) or len(place.ledger()) != 1:
        raise Failed(f"cannot go on after a decision: {finished.last_words}")
    return "in doubt; after a decision it goes on"


def stream_goes_on(place: Place) -> str:
    (place.notes / "die").touch()
    killed = place.record(SITUATIONS_DIES="1")
    if killed.requests != 2:
        raise Failed(f"recording: {killed.last_words}")
    resumed = place.resume()
    if resumed.timed_out:
        raise Failed("hangs")
    if resumed.status or len(resumed.said) != 2:
        raise Failed(f"cannot go on: {resumed.last_words}")
    if resumed.requests != 1:
        raise Failed(f"goes on with {resumed.requests} requests instead of 1")
    if "piece 4 of" not in resumed.said[1]:
        raise Failed(f"goes on with half a stream: {resumed.said[1][:80]}")
    _same(place, resumed)
    return "asked again, only the stream"


def alteration_named(place: Place) -> str:
    """Of a program whose answers do not come back in its requests, where it would be noticed by chance."""
    _recorded(place, requests=3)
    if not alter(place.records, b"answer-2", b"answer-7"):
        raise Failed("not measured: the answer was not found in its files")
    replayed = place.replay()
    if replayed.timed_out:
        raise Failed("replay hangs")
    if replayed.requests:
        raise Failed(f"replay goes live: {replayed.requests} requests")
    if replayed.status == 0:
        served = any("answer-7" in line for line in replayed.said)
        raise Failed("the altered answer is served as if nothing had been" if served else "passes in silence")
    return f"noticed: {replayed.last_words[:70]}"


def nothing_in_clear(place: Place) -> str:
    recorded = _recorded(place, requests=2)
    found = [kind for kind, secret in CANARIES.items() if contains(place.records, secret.encode())]
    if found:
        raise Failed(f"{len(found)} of {len(CANARIES)} in clear: {', '.join(found)}")
    _same(place, recorded)
    return f"none of {len(CANARIES)} in any file, and it replays"


def recorded_or_refused(place: Place) -> str:
    """Check that what no interceptor records is recorded in another way, or refused, at the latest in the replay."""
    recorded = _recorded(place)
    told = [line for line in recorded.words.splitlines() if "unseen" in line.lower() or "not recorded" in line.lower()]
    replayed = place.replay()
    if replayed.timed_out:
        raise Failed("replay hangs")
    if not replayed.requests and replayed.status == 0 and replayed.said == recorded.said:
        return "recorded and replayed"
    refused = place.record(SITUATIONS_STRICT="1")
    strict = refused.status != 0 and not refused.timed_out and len(refused.said) < len(recorded.said)
    strict = strict and _records_others_when_strict(place)
    if not replayed.requests and replayed.status and (told or strict):
        how = "told while recording" if told else "refused when strict"
        return f"{how}, and refused in the replay"
    if strict:
        return "refused when strict"
    if replayed.requests:
        raise Failed(f"replay goes live: {replayed.requests} requests" + ("" if replayed.status else ", in silence"))
    raise Failed(f"recorded without a word; replay stops: {replayed.last_words}")


def _records_others_when_strict(place: Place) -> bool:
    """Who refuses every program has refused nothing."""
    place.program = place.program.with_name("same_request.py")
    done = place.record(SITUATIONS_STRICT="1")
    return done.status == 0 and len(done.said) == 3


def no_pass(place: Place) -> str:
    _recorded(place)
    replayed = place.replay()
    if replayed.status == 0:
        raise Failed("0 of 0 is a pass")
    return "not a pass"


def small(place: Place) -> str:
    recorded = _recorded(place, requests=50)
    taken = sum(path.stat().st_size for path in place.records.rglob("*") if path.is_file())
    size = f"{taken / 1000:,.0f} KB"
    if taken > SIZE_LIMIT:
        raise Failed(size)
    _same(place, recorded)
    return size


def same_with_another_key(place: Place) -> str:
    recorded = _recorded(place, requests=3)
    _same(place, recorded, OPENAI_API_KEY="dummy")
    return "the same"
