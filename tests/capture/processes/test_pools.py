"""Pools of processes: which worker does a job, and when it is done, is a matter of chance; the record is not."""

from __future__ import annotations

from typing import Any

import pytest

from kit.soak import SOAK, pairs

MANY = 50 if SOAK else 20
"""Children at once."""

PREAMBLE = """
import concurrent.futures, multiprocessing, time, random
from work import much, work

def job(number):
    time.sleep(0.05 * (number % 3))
    return [number, *much(number)]

def pair(number, factor):
    return job(number * factor)

def prepared(number):
    global token
    token = work(number)

def with_token(number):
    return [token, work(number)]

def fails(number):
    work(number)
    raise ValueError(f"no {number}")

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
"""
PROGRAMS = {
    "executor": """
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=context) as pool:
        print(list(pool.map(job, range(4))))
        futures = [pool.submit(job, number) for number in range(4, 10)]
        for future in concurrent.futures.as_completed(futures):
            print(future.result(), work(100 + future.result()[0]))
""",
    "set": """
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=context) as pool:
        ended, _ = concurrent.futures.wait([pool.submit(job, number) for number in range(9)])
        for future in ended:
            print(future.result(), work(100 + future.result()[0]))
""",
    "pool": """
    with context.Pool(3) as pool:
        print(pool.map(job, range(3), chunksize=2))
        print(pool.apply_async(job, (3,)).get(), pool.starmap(pair, [(2, 2), (5, 1)]))
        for result in pool.imap_unordered(job, range(6, 10)):
            print(result, work(100 + result[0]))
""",
    "initializer": """
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context, initializer=prepared, initargs=(200,)) as pool:
        print(list(pool.map(with_token, range(3))))
    with context.Pool(2, prepared, (300,)) as pool:
        print(pool.map(with_token, range(3, 6)))
""",
    "failing": """
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        for number in range(3):
            try:
                pool.submit(fails, number).result()
            except ValueError as error:
                print(error, work(100 + number))
""",
}


@pytest.mark.parametrize(("kind", "method"), pairs(PROGRAMS, ["fork", "spawn", "forkserver"]))
def test_jobs_come_back_in_the_order_in_which_they_came(box: Any, kind: str, method: str) -> None:
    box.write("program.py", PREAMBLE.replace("{method}", method) + PROGRAMS[kind])
    recorded = box.onrecord("run", "program.py")
    assert recorded.returncode == 0, recorded.stderr
    done = box.ledger
    assert done[:3] == [0, 1, 2]
    replayed = box.onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    assert box.ledger == done


def test_a_job_that_parts_fails_the_replay(box: Any) -> None:
    box.write("program.py", PREAMBLE.replace("{method}", "fork") + PROGRAMS["executor"])
    assert box.onrecord("run", "program.py").returncode == 0
    before = box.ledger
    box.write("program.py", (box.folder / "program.py").read_text().replace("*much(number)", "*much(number + 1000)"))
    replayed = box.onrecord("replay", "@last")
    assert replayed.returncode == 1
    assert "(process job job)" in replayed.stderr
    assert "[conflicting_request]" in replayed.stderr
    assert box.ledger == before


def test_many_children_at_once(box: Any) -> None:
    box.write(
        "program.py",
        """
        import multiprocessing, threading
        from work import much

        def child(number, pipe):
            pipe.send(much(number))

        def started(number):
            mine, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=child, args=(number, theirs))
            process.start()
            results[number] = mine.recv()
            process.join()

        results = {}
        threads = [threading.Thread(target=started, args=(number,)) for number in range(MANY)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        print(sorted(results.items()))
        """.replace("MANY", str(MANY)),
    )
    recorded = box.onrecord("run", "program.py")
    assert recorded.returncode == 0, recorded.stderr
    assert f"{MANY} effects · {MANY} processes" in recorded.stderr
    assert box.ledger == list(range(MANY))
    replayed = box.onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    assert box.ledger == list(range(MANY))
