/**
 * What the store has in the backoffice database.
 *
 * `take_counters` does what any number of callers want of any number of counters, in one statement:
 *
 *   1  each counter is added to as a whole, if everything that is asked of it stays below the lowest limit it is asked with; if
 *      not, or if it is asked for together with others, its row is only locked (made as 0 first, when there is none)
 *   2  where one was not added to, the callers are gone through one by one, in their order, each under its own limits
 *   3  what came of that is written
 *
 * No two of these can wait for one another: all rows are locked by the one statement of step 1, in the order they are passed in,
 * which the caller keeps the same everywhere (postgres-counters.ts); steps 2 and 3 touch only rows that are locked already. What
 * removes several rows locks those of one tenant in the order of their names, or none that somebody else has locked.
 *
 * A row that counts 0 says the same as no row to all but `counted`: it may hold what was cleared. In steps 2 and 3 each row is looked up by its whole key: a join may be planned as a
 * walk through all that is counted today.
 */
import { SCHEMA } from '../../kernel/database/database.ts'
import type { Migration } from '../../kernel/database/migrations.ts'

const STORE = `
      create table store (
        owner text collate "C" not null,
        key text collate "C" not null,
        value text not null,
        expires_at timestamptz,
        primary key (owner, key)
      );
      create index store_expires_at on store (expires_at) where expires_at is not null;
    `

/** The only index is of what never changes, and pages have room, so that an update writes no index (HOT). */
const COUNTERS = `
      create table store_counters (
        day date not null,
        tenant_id text collate "C" not null,
        name text collate "C" not null,
        count bigint not null,
        ceiling bigint not null,
        cleared bigint not null default 0,
        primary key (day, tenant_id, name)
      ) with (fillfactor = 50);
      comment on column store_counters.cleared is 'what was taken away of the count that day';
      comment on column store_counters.ceiling is
        'what a row that is proposed may count at most: "on conflict" sees nothing of it but its columns';

      create table store_standing (
        tenant_id text collate "C" not null,
        name text collate "C" not null,
        value float8 not null,
        primary key (tenant_id, name)
      );

      create function take_counters(
        offset_ms float8,
        -- One each for a counter: what is asked of it in all, and how far that may take it (-1: decide one by one).
        owners text[], names text[], totals bigint[], ceilings bigint[],
        -- One each for what a caller wants of a counter; those of a caller stand together. A limit of -1 is none.
        callers int[], wanted int[], amounts bigint[], limits bigint[],
        out now_ms float8, out counts_before text, out verdicts text
      )
      language plpgsql
      -- A plan is kept for long, and the table may have been small when it was made.
      set enable_seqscan = off
      set enable_bitmapscan = off
      as $function$
      declare
        max_count constant bigint := 9007199254740991;
        moment constant timestamptz := clock_timestamp() + offset_ms * interval '1 millisecond';
        today constant date := (moment at time zone 'UTC')::date;
        added bigint[];
        before bigint[];
        counts bigint[];
        verdict int;
        said int[];
        first int := 1;
        last int;
      begin
        now_ms := extract(epoch from moment) * 1000;

        with proposed as (
          insert into ${SCHEMA}.store_counters as kept (day, tenant_id, name, count, ceiling)
          select today, tenant_id, name, case when total <= ceiling then total else 0 end, ceiling
          from unnest(owners, names, totals, ceilings) with ordinality as asked (tenant_id, name, total, ceiling, place)
          where total > 0 order by place
          on conflict (day, tenant_id, name) do update set count = kept.count + excluded.count
            where excluded.count > 0 and kept.count + excluded.count <= excluded.ceiling
          returning tenant_id, name, count
        )
        select array_agg(proposed.count order by place) into added
        from unnest(owners, names) with ordinality as asked (tenant_id, name, place)
        left join proposed using (tenant_id, name);

        if array_position(added, null) is null and array_position(added, 0) is null then
          select string_agg((after - total)::text, ',' order by place) into counts_before
          from unnest(added, totals) with ordinality as sums (after, total, place);
          return;
        end if;

        select array_agg(case when after > 0 then after - total else coalesce((
          select kept.count from ${SCHEMA}.store_counters as kept
          where kept.day = today and kept.tenant_id = asked.tenant_id and kept.name = asked.name), 0) end order by place)
        into before
        from unnest(owners, names, totals, added) with ordinality as asked (tenant_id, name, total, after, place);
        counts_before := array_to_string(before, ',');

        counts := before;
        while first <= array_length(callers, 1) loop
          verdict := 1;
          last := first;
          loop
            if amounts[last] > 0 and limits[last] >= 0 and counts[wanted[last]] + amounts[last] > limits[last] then
              verdict := 0;
            elsif verdict = 1 and counts[wanted[last]] + amounts[last] > max_count then
              verdict := -1;
            end if;
            exit when callers[last + 1] is distinct from callers[first];
            last := last + 1;
          end loop;
          if verdict = 1 then
            for place in first..last loop
              counts[wanted[place]] := counts[wanted[place]] + amounts[place];
            end loop;
          end if;
          said[callers[first]] := verdict;
          first := last + 1;
        end loop;
        verdicts := array_to_string(said, ',');

        for place in 1..array_length(owners, 1) loop
          if coalesce(added[place], 0) = 0 and counts[place] > before[place] then
            update ${SCHEMA}.store_counters set count = counts[place]
            where day = today and tenant_id = owners[place] and name = names[place];
          end if;
        end loop;
      end
      $function$;
    `

/** A row that is removed and comes again has another incarnation. Room in the pages is for updates that write no index (HOT). */
const SUMS = `
      create table store_sums (
        day date not null,
        tenant_id text collate "C" not null,
        name text collate "C" not null,
        incarnation uuid not null default gen_random_uuid(),
        sum bigint not null,
        primary key (day, tenant_id, name)
      ) with (fillfactor = 50);
      create index store_sums_of_tenant on store_sums (tenant_id, day);

      create table store_sum_sources (
        source uuid primary key,
        number bigint not null,
        seen_at timestamptz not null
      );
      comment on table store_sum_sources is 'the last batch of each process that was added, so that none is added twice';
    `

/** An owner is a tenant's id, or empty for the service. */
export const storeTables: readonly Migration[] = [{ name: '0001_store', up: STORE + COUNTERS + SUMS }]
