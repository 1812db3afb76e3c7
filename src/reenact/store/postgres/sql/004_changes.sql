-- By whom it was written: whoever keeps a view of the runs asks for what its last snapshot did not show, in whatever order transactions end.
-- Rows from before have none: a view begins with a look at all of them.

alter table reenact.events add column transaction xid8;
alter table reenact.events alter column transaction set default pg_current_xact_id();
create index events_by_transaction on reenact.events (transaction);

alter table reenact.runs add column transaction xid8;
alter table reenact.runs alter column transaction set default pg_current_xact_id();
create index runs_by_transaction on reenact.runs (transaction);
