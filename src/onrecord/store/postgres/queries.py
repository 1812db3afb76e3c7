"""The queries of the store. Each is keyed by namespace; values are always bound."""

from __future__ import annotations

from onrecord.store.postgres.lookups import LIGHT_COLUMNS, OF_RUN

PAGE_ROWS = 256
PAGE_BYTES = 8_000_000
HEADER_COLUMNS = "r.run, r.kind, r.created, r.header, r.hash, r.salt, r.match, r.content, r.imported"
RUN_ROWS = (
    f"select {HEADER_COLUMNS}, r.epoch, {LIGHT_COLUMNS} from onrecord.runs r"
    " left join lateral (select * from onrecord.events x where x.run_no = r.run_no order by x.seq desc"
    " limit 1) e on true"
)
# The sum of sizes reads only lengths, not the contents of the rows that it excludes.
SCAN = (
    "select * from (select {columns}, sum(coalesce(octet_length(e.content), 0)) over (order by e.seq) as"
    " bytes"
    f" {OF_RUN} and e.seq >= %s and e.seq < %s) page where bytes <= {PAGE_BYTES} or seq = %s order by seq"
)
FIND_RUNS = (
    "select run from onrecord.runs where namespace = %s and run >= %s and starts_with(run, %s) order by run limit %s"
)
ALL_NODES = (
    "select address, blob from (select address, blob, row_number() over w as number,"
    " sum(octet_length(blob)) over w as bytes from"
    " (select * from onrecord.nodes where namespace = %s and address > %b order by address"
    f" limit {PAGE_ROWS}) rows_after"
    f" window w as (order by address)) page where number = 1 or bytes <= {PAGE_BYTES} order by"
    " address"
)
ALL_ARTIFACTS = (
    "select address from onrecord.artifacts where namespace = %s and address > %b and part = 0"
    f" order by address limit {PAGE_ROWS}"
)
ARTIFACT_PART = "select data from onrecord.artifacts where namespace = %s and address = %b and part = %s"
RELEASE = (
    "with freed as (update onrecord.runs set holder = null, lease_until = null"
    " where namespace = %s and run = %s and epoch = %s)"
    " select 1 from onrecord.runs where namespace = %s and run = %s"
)
HOLDER = (
    "select holder from onrecord.runs"
    " where namespace = %s and run = %s and holder is not null and lease_until > clock_timestamp()"
)
INBOX = (
    "select i.number, i.key, i.payload, i.time from onrecord.inbox i join onrecord.runs r using"
    " (run_no)"
    " where r.namespace = %s and r.run = %s and i.number > %s order by i.number"
)
INBOX_FIND = (
    "select r.run, i.number, i.key, i.payload, i.time from unnest(%b, %b) as wanted (run, key)"
    " join onrecord.runs r on r.namespace = %s and r.run = wanted.run"
    " join onrecord.inbox i on i.run_no = r.run_no and i.key = wanted.key"
)
INBOX_END = "select pg_current_snapshot()::text"
# Exactly the rows that this statement sees and the statement of the cursor did not. The upper bound excludes rows of a
# restored copy from a server with higher transaction numbers.
INBOX_SINCE = (
    "select pg_current_snapshot()::text, n.namespace, n.run, n.key from (select) as always left join"
    " (select r.namespace, r.run, i.key from onrecord.inbox i join onrecord.runs r using (run_no)"
    " where i.transaction >= pg_snapshot_xmin(%s::pg_snapshot)"
    " and i.transaction < pg_snapshot_xmax(pg_current_snapshot())"
    " and not pg_visible_in_snapshot(i.transaction, %s::pg_snapshot)) n on true"
)
# The same for runs and their events. A cursor from another server, which may have higher transaction numbers, gets no
# list.
_SINCE = (
    "{0}.transaction >= pg_snapshot_xmin(%s::pg_snapshot)"
    " and {0}.transaction < pg_snapshot_xmax(pg_current_snapshot())"
    " and not pg_visible_in_snapshot({0}.transaction, %s::pg_snapshot)"
)
RUNS_SINCE = (
    "select pg_current_snapshot()::text, pg_snapshot_xmax(%s::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot()),"
    " n.run from (select) as always left join (select r.run from"
    f" (select e.run_no from onrecord.events e where {_SINCE.format('e')}"
    f" union select b.run_no from onrecord.runs b where {_SINCE.format('b')}) as changed"
    " join onrecord.runs r using (run_no) where r.namespace = %s) n on true"
)
PUT_SNAPSHOT = (
    "insert into onrecord.snapshots (run_no, seq, head, reducer, state_version, seal, blob)"
    " select r.run_no, %s, %b, %s, %s, %b, %b from onrecord.runs r where r.namespace = %s and r.run"
    " = %s"
    " on conflict (run_no, seq) do update set head = excluded.head, reducer = excluded.reducer,"
    " state_version = excluded.state_version, seal = excluded.seal, blob = excluded.blob returning 1"
)
SNAPSHOTS = (
    "select s.seq, s.head, s.reducer, s.state_version, s.seal, s.blob from onrecord.snapshots s"
    " join onrecord.runs r using (run_no)"
    " where r.namespace = %s and r.run = %s order by s.seq desc"
)
DELETE_SNAPSHOT = (
    "delete from onrecord.snapshots s using onrecord.runs r"
    " where r.run_no = s.run_no and r.namespace = %s and r.run = %s and s.seq = %s"
)
