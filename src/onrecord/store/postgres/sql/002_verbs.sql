-- The verbs that check and write in one round trip. Expected refusals are answers, not exceptions: an exception would cost a log line and
-- an aborted transaction each. Every statement of these functions sees what was committed before it began (read committed), so what is read
-- after the run's row lock is the truth until the transaction ends.
--
-- A condition that is known before its query runs stands in an `if` around it, and ids are looked up one by one: with both in one expression, or
-- with an array, the plan depends on the values, and Postgres then makes a new one in every call, which takes longer than the query.

-- Locks the run and says whether an append may happen, in the contract's order:
-- 0 yes · 1 no such run · 2 ids exist · 3 another epoch · 4 another head · 5 numbers that do not ascend.
create function onrecord.check_append(
    p_namespace text, p_run text, p_expected_seq bigint, p_expected_hash bytea, p_epoch bigint, p_seqs bigint[], p_ids text[],
    out status integer, out run_no bigint, out epoch bigint, out head_seq bigint, out head_hash bytea
) language plpgsql as $$
declare
    header_hash bytea;
begin
    select r.run_no, r.epoch, r.hash into run_no, epoch, header_hash
        from onrecord.runs r where r.namespace = p_namespace and r.run = p_run for no key update;
    if run_no is null then
        status := 1;
        return;
    end if;
    select e.seq, e.hash into head_seq, head_hash
        from onrecord.events e where e.run_no = check_append.run_no order by e.seq desc limit 1;
    if head_seq is null then
        head_seq := 0;
        head_hash := header_hash;
    end if;
    for i in 1 .. cardinality(p_ids) loop
        if starts_with(p_ids[i], '_') then
            if p_seqs[i] <= head_seq then
                perform from onrecord.events e where e.run_no = check_append.run_no and e.seq = p_seqs[i] and e.id = p_ids[i];
                status := case when found then 2 end;
            end if;
        else
            perform from onrecord.events e where e.run_no = check_append.run_no and e.id = p_ids[i] and not starts_with(e.id, '_');
            status := case when found then 2 end;
        end if;
        if status = 2 then
            return;
        end if;
    end loop;
    if epoch <> p_epoch then
        status := 3;
        return;
    end if;
    if head_seq <> p_expected_seq or head_hash <> p_expected_hash then
        status := 4;
        return;
    end if;
    for i in 1 .. cardinality(p_seqs) loop
        if p_seqs[i] <= (case when i = 1 then head_seq else p_seqs[i - 1] end) then
            status := 5;
            return;
        end if;
    end loop;
    status := 0;
end $$;

-- Addresses come sorted: two appends that bring the same new nodes then wait for each other in one order only.
create function onrecord.put_nodes(p_namespaces text[], p_addresses bytea[], p_blobs bytea[]) returns void language sql as $$
    insert into onrecord.nodes (namespace, address, blob)
        select * from unnest(p_namespaces, p_addresses, p_blobs) on conflict do nothing
$$;

create function onrecord.put_events(
    p_run_no bigint, p_seqs bigint[], p_ids text[], p_kinds text[], p_lanes text[], p_lane_seqs bigint[], p_links bytea[],
    p_hashes bytea[], p_salts bytea[], p_matches bytea[], p_prefixes bytea[], p_contents bytea[]
) returns void language plpgsql as $$
begin
    for i in 1 .. cardinality(p_seqs) loop
        insert into onrecord.events (run_no, seq, id, kind, lane, lane_seq, link, hash, salt, match, prefix, content)
            values (p_run_no, p_seqs[i], p_ids[i], p_kinds[i], p_lanes[i], p_lane_seqs[i], p_links[i], p_hashes[i],
                p_salts[i], p_matches[i], p_prefixes[i], p_contents[i]);
    end loop;
end $$;

create function onrecord.append(
    p_namespace text, p_run text, p_expected_seq bigint, p_expected_hash bytea, p_epoch bigint, p_sync boolean,
    p_seqs bigint[], p_ids text[], p_kinds text[], p_lanes text[], p_lane_seqs bigint[], p_links bytea[], p_hashes bytea[],
    p_salts bytea[], p_matches bytea[], p_prefixes bytea[], p_contents bytea[], p_addresses bytea[], p_blobs bytea[],
    out status integer, out epoch bigint, out head_seq bigint, out head_hash bytea
) language plpgsql as $$
declare
    checked record;
begin
    -- An assignment, not a query: evaluated in place, without an executor of its own.
    checked := onrecord.check_append(p_namespace, p_run, p_expected_seq, p_expected_hash, p_epoch, p_seqs, p_ids);
    status := checked.status;
    epoch := checked.epoch;
    head_seq := checked.head_seq;
    head_hash := checked.head_hash;
    if status <> 0 then
        return;
    end if;
    if cardinality(p_addresses) > 0 then
        insert into onrecord.nodes (namespace, address, blob)
            select p_namespace, address, blob from unnest(p_addresses, p_blobs) as u (address, blob) on conflict do nothing;
    end if;
    perform onrecord.put_events(checked.run_no, p_seqs, p_ids, p_kinds, p_lanes, p_lane_seqs, p_links, p_hashes, p_salts, p_matches,
        p_prefixes, p_contents);
    if not p_sync then
        -- Read at commit, after this function: the transaction does not wait for the disk.
        perform set_config('synchronous_commit', 'off', true);
    end if;
end $$;

-- The append that nearly all are: one event, on the expected head, under the epoch of its writer, with an id that is new. False: it is not
-- that, nothing was written, and append() says why. No arrays and no row as the answer: handling them costs as much as the insert.
create function onrecord.append_one(
    p_namespace text, p_run text, p_expected_seq bigint, p_expected_hash bytea, p_epoch bigint, p_sync boolean,
    p_seq bigint, p_id text, p_kind text, p_lane text, p_lane_seq bigint, p_link bytea, p_hash bytea,
    p_salt bytea, p_match bytea, p_prefix bytea, p_content bytea, p_addresses bytea[], p_blobs bytea[]
) returns boolean language plpgsql as $$
declare
    v_run_no bigint;
    v_epoch bigint;
    head_seq bigint;
    head_hash bytea;
    header_hash bytea;
begin
    select r.run_no, r.epoch, r.hash into v_run_no, v_epoch, header_hash
        from onrecord.runs r where r.namespace = p_namespace and r.run = p_run for no key update;
    -- A second statement, which sees what was committed while the first one waited for the lock.
    select e.seq, e.hash into head_seq, head_hash
        from onrecord.events e where e.run_no = v_run_no order by e.seq desc limit 1;
    if not found then
        head_seq := 0;
        head_hash := header_hash;
    end if;
    if (v_epoch = p_epoch and head_seq = p_expected_seq and head_hash = p_expected_hash and p_seq > head_seq) is not true then
        return false;
    end if;
    if not starts_with(p_id, '_') then
        perform from onrecord.events e where e.run_no = v_run_no and e.id = p_id and not starts_with(e.id, '_');
        if found then
            return false;
        end if;
    end if;
    if p_addresses is not null then
        insert into onrecord.nodes (namespace, address, blob)
            select p_namespace, address, blob from unnest(p_addresses, p_blobs) as u (address, blob) on conflict do nothing;
    end if;
    insert into onrecord.events (run_no, seq, id, kind, lane, lane_seq, link, hash, salt, match, prefix, content)
        values (v_run_no, p_seq, p_id, p_kind, p_lane, p_lane_seq, p_link, p_hash, p_salt, p_match, p_prefix, p_content);
    if not p_sync then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    return true;
end $$;

-- True: the run is there with this very header.
create function onrecord.create_run(
    p_namespace text, p_run text, p_kind text, p_created bigint, p_header bytea, p_hash bytea, p_salt bytea, p_match bytea,
    p_content bytea, p_imported boolean, p_addresses bytea[], p_blobs bytea[]
) returns boolean language plpgsql as $$
declare
    other bytea;
begin
    select header into other from onrecord.runs where namespace = p_namespace and run = p_run;
    if other is null then
        insert into onrecord.runs (namespace, run, kind, created, header, hash, salt, match, content, imported)
            values (p_namespace, p_run, p_kind, p_created, p_header, p_hash, p_salt, p_match, p_content, p_imported)
            on conflict (namespace, run) do nothing;
        if found then
            insert into onrecord.nodes (namespace, address, blob)
                select p_namespace, address, blob from unnest(p_addresses, p_blobs) as u (address, blob) on conflict do nothing;
            return true;
        end if;
        select header into other from onrecord.runs where namespace = p_namespace and run = p_run;
    end if;
    return other = p_header;
end $$;

create function onrecord.claim(
    p_namespace text, p_run text, p_holder text, p_seconds double precision, p_superseding text,
    out found_run boolean, out epoch bigint, out holder text, out granted boolean
) language plpgsql as $$
declare
    current onrecord.runs%rowtype;
    -- The server's clock: workers on machines whose clocks differ agree on who holds the lease.
    instant timestamptz;
begin
    select * into current from onrecord.runs r where r.namespace = p_namespace and r.run = p_run for no key update;
    found_run := found;
    if not found then
        return;
    end if;
    instant := clock_timestamp();  -- after the lock, which may have been waited for
    epoch := current.epoch;
    holder := current.holder;
    granted := current.holder is null or current.holder = p_holder or current.lease_until <= instant
        or current.holder is not distinct from p_superseding;
    if granted then
        if current.holder is distinct from p_holder then
            epoch := current.epoch + 1;
        end if;
        holder := p_holder;
        update onrecord.runs r set epoch = claim.epoch, holder = p_holder, lease_until = instant + make_interval(secs => p_seconds)
            where r.run_no = current.run_no;
    end if;
end $$;

create function onrecord.inbox_put(
    p_namespace text, p_run text, p_key text, p_payload bytea, p_time bigint,
    out number bigint, out key text, out payload bytea, out "time" bigint
) language plpgsql as $$
#variable_conflict use_column
declare
    v_run_no bigint;
begin
    select r.run_no into v_run_no from onrecord.runs r where r.namespace = p_namespace and r.run = p_run for no key update;
    if v_run_no is null then
        return;
    end if;
    insert into onrecord.inbox as i (run_no, number, key, payload, "time")
        values (v_run_no, (select coalesce(max(x.number), 0) + 1 from onrecord.inbox x where x.run_no = v_run_no), p_key, p_payload, p_time)
        on conflict (run_no, key) do nothing;
    select i.number, i.key, i.payload, i."time" into number, key, payload, "time"
        from onrecord.inbox i where i.run_no = v_run_no and i.key = p_key;
end $$;
