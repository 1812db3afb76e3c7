"""The store's queries. Each is keyed by namespace; values are always bound."""

from __future__ import annotations

from reenact.store.postgres.lookups import LIGHT_COLUMNS, OF_RUN

PAGE_ROWS = 256
PAGE_BYTES = 8_000_000
HEADER_COLUMNS = "r.run, r.kind, r.created, r.header, r.hash, r.salt, r.match, r.content, r.imported"
RUN_LINES = (
    f"select {HEADER_COLUMNS}, r.epoch, {LIGHT_COLUMNS} from reenact.runs r"
    " left join lateral (select * from reenact.events x where x.run_no = r.run_no order by x.seq desc"
    " limit 1) e on true"
)
# The sum of sizes reads lengths only, not the contents of the rows that it leaves out.
SCAN = (
    "select * from (select {columns}, sum(coalesce(octet_length(e.content), 0)) over (order by e.seq) as"
    " bytes"
    f" {OF_RUN} and e.seq >= %s and e.seq < %s) page where bytes <= {PAGE_BYTES} or seq = %s order by seq"
)
FIND_RUNS = (
    "select run from reenact.runs where namespace = %s and run >= %s and starts_with(run, %s) order by run limit %s"
)
ALL_NODES = (
    "select address, blob from (select address, blob, row_number() over w as number,"
    " sum(octet_length(blob)) over w as bytes from"
    " (select * from reenact.nodes where namespace = %s and address > %b order by address"
    f" limit {PAGE_ROWS}) rows_after"
    f" window w as (order by address)) page where number = 1 or bytes <= {PAGE_BYTES} order by"
    " address"
)
ALL_ARTIFACTS = (
    "select address from reenact.artifacts where namespace = %s and address > %b and part = 0"
    f" order by address limit {PAGE_ROWS}"
)
ARTIFACT_PART = "select data from reenact.artifacts where namespace = %s and address = %b and part = %s"
RELEASE = (
    "with freed as (update reenact.runs set holder = null, lease_until = null"
    " where namespace = %s and run = %s and epoch = %s)"
    " select 1 from reenact.runs where namespace = %s and run = %s"
)
HOLDER = (
    "select holder from reenact.runs"
    " where namespace = %s and run = %s and holder is not null and lease_until > clock_timestamp()"
)
INBOX = (
    "select i.number, i.key, i.payload, i.time from reenact.inbox i join reenact.runs r using"
    " (run_no)"
    " where r.namespace = %s and r.run = %s and i.number > %s order by i.number"
)
INBOX_FIND = (
    "select r.run, i.number, i.key, i.payload, i.time from unnest(%b, %b) as wanted (run, key)"
    " join reenact.runs r on r.namespace = %s and r.run = wanted.run"
    " join reenact.inbox i on i.run_no = r.run_no and i.key = wanted.key"
)
INBOX_END = "select pg_current_snapshot()::text"
# Exactly what this statement sees and the one that gave the cursor did not. The upper bound leaves out rows that a
# restored copy brought from a server whose transactions were numbered further.
INBOX_SINCE = (
    "select pg_current_snapshot()::text, n.namespace, n.run, n.key from (select) as always left join"
    " (select r.namespace, r.run, i.key from reenact.inbox i join reenact.runs r using (run_no)"
    " where i.transaction >= pg_snapshot_xmin(%s::pg_snapshot)"
    " and i.transaction < pg_snapshot_xmax(pg_current_snapshot())"
    " and not pg_visible_in_snapshot(i.transaction, %s::pg_snapshot)) n on true"
)
# The same of runs and their events. Nothing is told to whoever comes with a snapshot of another server, which may have
# numbered its transactions further.
_SINCE = (
    "{0}.transaction >= pg_snapshot_xmin(%s::pg_snapshot)"
    " and {0}.transaction < pg_snapshot_xmax(pg_current_snapshot())"
    " and not pg_visible_in_snapshot({0}.transaction, %s::pg_snapshot)"
)
RUNS_SINCE = (
    "select pg_current_snapshot()::text, pg_snapshot_xmax(%s::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot()),"
    " n.run from (select) as always left join (select r.run from"
    f" (select e.run_no from reenact.events e where {_SINCE.format('e')}"
    f" union select b.run_no from reenact.runs b where {_SINCE.format('b')}) as changed"
    " join reenact.runs r using (run_no) where r.namespace = %s) n on true"
)
PUT_SNAPSHOT = (
    "insert into reenact.snapshots (run_no, seq, head, reducer, state_version, seal, blob)"
    " select r.run_no, %s, %b, %s, %s, %b, %b from reenact.runs r where r.namespace = %s and r.run"
    " = %s"
    " on conflict (run_no, seq) do update set head = excluded.head, reducer = excluded.reducer,"
    " state_version = excluded.state_version, seal = excluded.seal, blob = excluded.blob returning 1"
)
SNAPSHOTS = (
    "select s.seq, s.head, s.reducer, s.state_version, s.seal, s.blob from reenact.snapshots s"
    " join reenact.runs r using (run_no)"
    " where r.namespace = %s and r.run = %s order by s.seq desc"
)
DELETE_SNAPSHOT = (
    "delete from reenact.snapshots s using reenact.runs r"
    " where r.run_no = s.run_no and r.namespace = %s and r.run = %s and s.seq = %s"
)
