-- By whom it was written: whoever keeps a view of the runs asks for what its last snapshot did not show, in whatever order transactions end.
-- Rows from before have none: a view begins with a look at all of them.

alter table onrecord.events add column transaction xid8;
alter table onrecord.events alter column transaction set default pg_current_xact_id();
create index events_by_transaction on onrecord.events (transaction);

alter table onrecord.runs add column transaction xid8;
alter table onrecord.runs alter column transaction set default pg_current_xact_id();
create index runs_by_transaction on onrecord.runs (transaction);
