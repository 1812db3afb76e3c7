-- The tables. Names of people, runs and keys compare by bytes (collate "C"), so that order and prefixes do not depend on the server's locale.
-- Blobs are compressed already where it pays (format.md, 10): `external` keeps Postgres from trying again.
-- No foreign key from events to runs: an append holds the run's row lock, and the check would cost a second lock on every event.
-- An index costs every append, so events have one that all need and two for the few: an id that begins with `_` ends with its seq and is found
-- by that, and in the root lane `main` seq and lane_seq grow together.

create table onrecord.runs (
    run_no bigint generated always as identity primary key,
    namespace text collate "C" not null,
    run text collate "C" not null,
    kind text collate "C" not null,
    created bigint not null,
    header bytea not null,
    hash bytea not null,
    salt bytea,
    match bytea,
    content bytea,
    imported boolean not null,
    epoch bigint not null default 0,
    holder text collate "C",
    lease_until timestamptz,
    unique (namespace, run)
);
alter table onrecord.runs alter column content set storage external;
-- Of the listed ones only, so that nobody takes it for an index of names: while runs are few, it looks as good as that.
create index runs_by_time on onrecord.runs (namespace, created desc, run desc) where kind <> 'operations';

create table onrecord.events (
    run_no bigint not null,
    seq bigint not null check (seq > 0),
    id text collate "C" not null,
    kind text collate "C" not null,
    lane text collate "C" not null,
    lane_seq bigint,
    link bytea not null,
    hash bytea not null,
    salt bytea,
    match bytea,
    prefix bytea,
    content bytea,
    primary key (run_no, seq)
);
alter table onrecord.events alter column content set storage external;
create unique index events_by_id on onrecord.events (run_no, id) where not starts_with(id, '_');
create unique index events_by_lane on onrecord.events (run_no, lane, lane_seq) where lane <> 'main' and lane_seq is not null;

create table onrecord.nodes (
    namespace text collate "C" not null,
    address bytea not null,
    blob bytea not null,
    primary key (namespace, address)
);
alter table onrecord.nodes alter column blob set storage external;

-- One row per part of at most 8 MB; part 0 is written with the others in one transaction, so its presence means that all are there.
create table onrecord.artifacts (
    namespace text collate "C" not null,
    address bytea not null,
    part integer not null,
    data bytea not null,
    primary key (namespace, address, part)
);
alter table onrecord.artifacts alter column data set storage external;

create table onrecord.inbox (
    run_no bigint not null,
    number bigint not null,
    key text collate "C" not null,
    payload bytea not null,
    time bigint not null,
    -- By whom it was written: readers ask for what their last snapshot did not show, in whatever order transactions end.
    transaction xid8 not null default pg_current_xact_id(),
    primary key (run_no, number),
    unique (run_no, key)
);
create index inbox_by_transaction on onrecord.inbox (transaction);

create table onrecord.snapshots (
    run_no bigint not null,
    seq bigint not null,
    head bytea not null,
    reducer text not null,
    state_version bigint not null,
    seal bytea not null,
    blob bytea not null,
    primary key (run_no, seq)
);

-- Permission slips, valid in the transaction that wrote them and only with their record in an operations journal (003_guards.sql).
create table onrecord.tombstones (
    run_no bigint not null,
    namespace text collate "C" not null,
    run text collate "C" not null,
    record_run_no bigint not null,
    record_seq bigint not null,
    transaction xid8 not null default pg_current_xact_id(),
    time timestamptz not null default clock_timestamp(),
    primary key (run_no)
);
create index tombstones_by_transaction on onrecord.tombstones (transaction);

-- seq 0 is the header's facts; null permits new prefix digests in that run and nothing else.
create table onrecord.erasures (
    erasure_no bigint generated always as identity primary key,
    run_no bigint,
    seq bigint,
    namespace text collate "C" not null,
    record_run_no bigint not null,
    record_seq bigint not null,
    transaction xid8 not null default pg_current_xact_id(),
    time timestamptz not null default clock_timestamp()
);
create index erasures_by_transaction on onrecord.erasures (transaction, run_no, seq);
