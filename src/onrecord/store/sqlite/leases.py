"""Leases, timed by a clock of this boot of this machine.

The boot-time clock neither jumps with the wall clock nor stops while the machine sleeps. It restarts with every boot,
so a lease holds the boot's id: after a reboot its holder is dead, and the lease has expired.
"""

from __future__ import annotations

import time
from functools import cache
from typing import cast

import apsw

from onrecord.errors import StoreUnavailable
from onrecord.store.contract import Claim
from onrecord.store.sqlite import row_types


@cache
def read_boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError as error:
        raise StoreUnavailable(f"cannot read the boot id of this machine: {error.strerror}") from error


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def claim(cursor: apsw.Cursor, run_no: int, holder: str, ttl_seconds: float, superseding: str | None) -> Claim:
    sql = "SELECT epoch, holder, lease_until, lease_boot FROM runs WHERE run_no = ?"
    row = cast("tuple[int, str | None, int, str | None]", cursor.execute(sql, (run_no,)).fetchone())
    row_types.check(row, row_types.LEASE, f"the lease of run number {run_no}")
    epoch, current, until, boot = row
    same_boot = boot == read_boot_id()
    if current not in (None, holder, superseding) and same_boot and until > now():
        return Claim(epoch, current, False)
    if current != holder or not same_boot:
        epoch += 1
    cursor.execute(
        "UPDATE runs SET epoch = ?, holder = ?, lease_until = ?, lease_boot = ? WHERE run_no = ?",
        (epoch, holder, now() + int(ttl_seconds * 1e9), read_boot_id(), run_no),
    )
    return Claim(epoch, holder, True)


def find_holder(cursor: apsw.Cursor, namespace: str, run: str) -> str | None:
    sql = "SELECT epoch, holder, lease_until, lease_boot FROM runs WHERE namespace = ? AND run = ?"
    row = cast("tuple[int, str | None, int, str | None] | None", cursor.execute(sql, (namespace, run)).fetchone())
    if row is None or row[1] is None:
        return None
    row_types.check(row, row_types.LEASE, f"the lease of run {run}")
    _, current, until, boot = row
    return current if boot == read_boot_id() and until > now() else None


def release(cursor: apsw.Cursor, run_no: int, epoch: int) -> None:
    cursor.execute(
        "UPDATE runs SET holder = NULL, lease_until = NULL, lease_boot = NULL WHERE run_no = ? AND epoch = ?",
        (run_no, epoch),
    )
