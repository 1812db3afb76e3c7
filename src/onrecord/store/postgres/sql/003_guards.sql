-- What was recorded stays. These triggers refuse UPDATE, DELETE and TRUNCATE by anybody who uses the database, except under a tombstone or
-- an erasure written in the same transaction, and those need their record: an event, also of the same transaction, that tells of it.
-- Whoever may drop the triggers can still rewrite history; the chain of hashes is what shows that.

create function onrecord.refuse() returns trigger language plpgsql as $$
begin
    raise exception 'onrecord: % of %.% is refused: what was recorded stays', tg_op, tg_table_schema, tg_table_name
        using errcode = 'RE001', hint = 'Runs are removed by retention and values by erasure, each with its record.';
end $$;

create function onrecord.guard_slip() returns trigger language plpgsql as $$
begin
    -- Not what the writer says: only a slip of this very transaction opens anything.
    new.transaction := pg_current_xact_id();
    if not exists (
        select from onrecord.events e where e.run_no = new.record_run_no and e.seq = new.record_seq
            and e.xmin = pg_current_xact_id()::xid
    ) then
        raise exception 'onrecord: a row of % needs its record, appended in the same transaction', tg_table_name
            using errcode = 'RE001';
    end if;
    return new;
end $$;

create function onrecord.may_delete_run(p_run_no bigint) returns boolean language sql as $$
    select exists (select from onrecord.tombstones t where t.run_no = p_run_no and t.transaction = pg_current_xact_id_if_assigned())
$$;

create function onrecord.may_erase(p_run_no bigint, p_seq bigint) returns boolean language sql as $$
    select exists (select from onrecord.erasures x where x.transaction = pg_current_xact_id_if_assigned()
        and x.run_no = p_run_no and (p_seq is null or x.seq = p_seq))
$$;

create function onrecord.guard_event() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and onrecord.may_delete_run(old.run_no) then
        return old;
    end if;
    if tg_op = 'UPDATE' and onrecord.may_erase(old.run_no, null)
        and (new.run_no, new.seq, new.id, new.kind, new.lane, new.link, new.hash)
            = (old.run_no, old.seq, old.id, old.kind, old.lane, old.link, old.hash)
        and new.lane_seq is not distinct from old.lane_seq
        and (
            (new.content is null and new.salt is null and new.match is null and onrecord.may_erase(old.run_no, old.seq))
            or (new.content is not distinct from old.content and new.salt is not distinct from old.salt
                and new.match is not distinct from old.match)
        )
    then
        return new;
    end if;
    raise exception 'onrecord: % of an event is refused: what was recorded stays', tg_op using errcode = 'RE001',
        hint = 'Runs are removed by retention and values by erasure, each with its record.';
end $$;

create function onrecord.guard_run() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and onrecord.may_delete_run(old.run_no) then
        return old;
    end if;
    if tg_op = 'UPDATE'
        and (new.run_no, new.namespace, new.run, new.kind, new.created, new.header, new.hash, new.imported)
            = (old.run_no, old.namespace, old.run, old.kind, old.created, old.header, old.hash, old.imported)
        and new.epoch >= old.epoch
        and (
            (new.content is not distinct from old.content and new.salt is not distinct from old.salt
                and new.match is not distinct from old.match)
            or (new.content is null and new.salt is null and new.match is null and onrecord.may_erase(old.run_no, 0))
        )
    then
        return new;
    end if;
    raise exception 'onrecord: % of a run is refused: what was recorded stays', tg_op using errcode = 'RE001',
        hint = 'Only a run''s lease may change; its epoch only grows.';
end $$;

create function onrecord.guard_shared() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and (
        exists (select from onrecord.tombstones t where t.transaction = pg_current_xact_id_if_assigned() and t.namespace = old.namespace)
        or exists (select from onrecord.erasures x where x.transaction = pg_current_xact_id_if_assigned() and x.namespace = old.namespace)
    ) then
        return old;
    end if;
    raise exception 'onrecord: % of % is refused: what was recorded stays', tg_op, tg_table_name using errcode = 'RE001';
end $$;

create trigger guard before update or delete on onrecord.events for each row execute function onrecord.guard_event();
create trigger guard before update or delete on onrecord.runs for each row execute function onrecord.guard_run();
create trigger guard before update or delete on onrecord.nodes for each row execute function onrecord.guard_shared();
create trigger guard before update or delete on onrecord.artifacts for each row execute function onrecord.guard_shared();
create trigger guard before insert on onrecord.tombstones for each row execute function onrecord.guard_slip();
create trigger guard before insert on onrecord.erasures for each row execute function onrecord.guard_slip();
create trigger keep before update or delete on onrecord.tombstones for each row execute function onrecord.refuse();
create trigger keep before update or delete on onrecord.erasures for each row execute function onrecord.refuse();
create trigger keep_all before truncate on onrecord.events for each statement execute function onrecord.refuse();
create trigger keep_all before truncate on onrecord.runs for each statement execute function onrecord.refuse();
create trigger keep_all before truncate on onrecord.nodes for each statement execute function onrecord.refuse();
create trigger keep_all before truncate on onrecord.artifacts for each statement execute function onrecord.refuse();
create trigger keep_all before truncate on onrecord.tombstones for each statement execute function onrecord.refuse();
create trigger keep_all before truncate on onrecord.erasures for each statement execute function onrecord.refuse();
