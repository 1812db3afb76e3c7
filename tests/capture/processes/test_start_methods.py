"""Every way in which a program starts a Python process: recorded, replayed with its parent, parted from its record."""

from __future__ import annotations

from typing import Any

import pytest

from kit.soak import SOAK, cases

CHILD = """
import sys
from work import much
print(much(int(sys.argv[1])))
"""
MULTIPROCESSING = """
import multiprocessing, sys
from work import much

def child(queue, number):
    queue.put((number, much(number)))

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    queue = context.Queue()
    children = [context.Process(target=child, args=(queue, number)) for number in (1, 2)]
    for one in children:
        one.start()
    print(sorted(queue.get() for _ in children))
    for one in children:
        one.join()
    print(much(3), [one.exitcode for one in children])
"""
SUBPROCESS = """
import subprocess, sys
from work import much
print([subprocess.run({command}, capture_output=True, text=True, check=True{more}).stdout for n in ("1", "2")], much(3))
"""
PROGRAMS = {
    "sys.executable": SUBPROCESS.format(command="[sys.executable, 'child.py', n]", more=""),
    "python": SUBPROCESS.format(command="['python', 'child.py', n]", more=""),
    "python3 -m": SUBPROCESS.format(command="['python3', '-m', 'child', n]", more=""),
    "python -c": SUBPROCESS.format(
        command="[sys.executable, '-c', 'from work import much; print(much(' + n + '))']", more=""
    ),
    "stdin": SUBPROCESS.format(
        command="[sys.executable, '-']", more=", input='from work import much; print(much(' + n + '))'"
    ),
    "shebang": SUBPROCESS.format(command="['./script', n]", more=""),
    "shell": SUBPROCESS.format(command="f'python child.py {n}'", more=", shell=True"),
    "empty environment": SUBPROCESS.format(
        command="[sys.executable, 'child.py', n]", more=", env={'LEDGER': __import__('os').environ['LEDGER']}"
    ),
    "os.popen": """
        import os
        from work import much
        print([os.popen(f"python child.py {n}").read() for n in (1, 2)], much(3))
    """,
    "os.system": """
        import os, sys
        from work import much
        print([os.system(f"python child.py {n}; exit {n}") for n in (1, 2)], much(3), flush=True)
    """,
    "os.posix_spawn": """
        import os, sys
        from work import much
        for n in ("1", "2"):
            pid = os.posix_spawn(sys.executable, [sys.executable, "child.py", n], os.environ)
            print(os.waitpid(pid, 0)[1], flush=True)
        print(much(3))
    """,
    "os.spawnv": """
        import os, sys
        from work import much
        for n in ("1", "2"):
            print(os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "child.py", n]), flush=True)
        print(much(3))
    """,
    "os.fork": """
        import os, sys
        from work import much
        for n in (1, 2):
            pid = os.fork()
            if pid == 0:
                print(much(n), flush=True)
                os._exit(n)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(much(3))
    """,
    "os.fork that returns": """
        import os, sys
        from work import much
        for n in (1, 2):
            pid = os.fork()
            if pid == 0:
                print(much(n))
                sys.exit(f"said by {n}" if n == 2 else 7)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        print(much(3))
    """,
    "fork": MULTIPROCESSING.replace("{method}", "fork"),
    "spawn": MULTIPROCESSING.replace("{method}", "spawn"),
    "forkserver": MULTIPROCESSING.replace("{method}", "forkserver"),
    "asyncio": """
        import asyncio, sys
        from work import much

        async def child(n):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "child.py", str(n), stdout=asyncio.subprocess.PIPE
            )
            return (await process.communicate())[0], process.returncode

        async def main():
            print(await asyncio.gather(child(1), child(2)), much(3))

        asyncio.run(main())
    """,
    "threads": """
        import subprocess, sys
        from concurrent.futures import ThreadPoolExecutor
        from work import much

        def child(n):
            return subprocess.run([sys.executable, "child.py", str(n)], capture_output=True, text=True).stdout

        with ThreadPoolExecutor(2) as pool:
            print(list(pool.map(child, [1, 2])), much(3))
    """,
    "a child of a child": """
        import subprocess, sys
        code = (
            "import subprocess, sys; from work import much; print(much(2), flush=True);"
            "subprocess.run([sys.executable, 'child.py', '1'], check=True)"
        )
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        from work import much
        print(much(3))
    """,
    "a spawned child that forks": """
        import multiprocessing, os
        from work import much

        def grandchild(pipe):
            pipe.send(much(1))

        def child(pipe):
            pipe.send(much(2))
            context = multiprocessing.get_context("fork")
            below = context.Process(target=grandchild, args=(pipe,))
            below.start()
            below.join()

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            mine, theirs = context.Pipe()
            process = context.Process(target=child, args=(theirs,))
            process.start()
            print(mine.recv(), mine.recv())
            process.join()
            print(much(3))
    """,
}


QUICK = ("sys.executable", "shell", "os.fork", "fork", "spawn", "forkserver", "os.posix_spawn", "asyncio", "threads")


@pytest.mark.parametrize("how", PROGRAMS if SOAK else QUICK)
def test_a_child_is_a_run_of_its_own_and_is_replayed_with_its_parent(box: Any, how: str) -> None:
    box.write("program.py", PROGRAMS[how])
    box.write("child.py", CHILD)
    box.write("script", "#!/usr/bin/env python\n" + CHILD)
    (box.folder / "script").chmod(0o755)
    recorded = box.onrecord("run", "--run-id", "one", "program.py")
    assert recorded.returncode == 0, recorded.stderr
    assert box.ledger == [1, 2, 3], recorded.stderr
    *_, summary = recorded.stderr.splitlines()
    own = 4 if how == "os.spawnv" else 2  # what a fork becomes is a run of its own
    assert summary.startswith(f"onrecord: run one · 3 effects · {own} processes · "), recorded.stderr
    assert ("not recorded" in summary) == (how == "os.system"), "a shell script may do anything"
    below = [one for one in box.runs("--all-kinds") if one["kind"] == "process"]
    assert [one["status"] for one in below] == ["completed"] * own
    replayed = box.onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    assert f"of {own + 1} processes" in replayed.stderr
    assert box.ledger == [1, 2, 3], "nothing was done again"


@pytest.mark.parametrize(
    "how", cases(["os.fork", "spawn", "a child of a child"], ["sys.executable", "fork", "forkserver"])
)
def test_a_child_that_parts_from_its_record_fails_the_whole_replay(box: Any, how: str) -> None:
    box.write("program.py", PROGRAMS[how])
    box.write("child.py", CHILD)
    assert box.onrecord("run", "--run-id", "one", "program.py").returncode == 0
    changed = (box.folder / "work.py").read_text().replace("work(number),", "work(number if number != 1 else 99),")
    box.write("work.py", changed)
    replayed = box.onrecord("replay", "one")
    assert replayed.returncode == 1, replayed.stderr
    children = {one["run"] for one in box.runs("--all-kinds") if one["kind"] == "process"}
    told = [line for line in replayed.stderr.splitlines() if line.startswith("error: run ")]
    assert len(told) == 1, replayed.stderr
    assert told[0].split()[2] in children
    assert "[conflicting_request]" in told[0]
    assert 99 not in box.ledger
