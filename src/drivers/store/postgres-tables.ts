/**
 * Tables of the PostgreSQL store, and the function `take_counters`, which serves several callers and counters in one
 * statement:
 *
 *   1  add the total of each counter if it stays below the lowest limit of its callers. Otherwise, or if several
 *      counters are taken together, only lock the row (a missing row is inserted with 0)
 *   2  for counters without an addition: decide caller by caller, in their order, each by its own limits
 *   3  write the results
 *
 * - Two calls cannot deadlock: step 1 locks all rows in the order of its arguments, which is the same everywhere
 *   (postgres-counters.ts). Steps 2 and 3 touch locked rows only. Code that removes rows of a tenant locks them in the
 *   order of their names, or skips locked ones.
 * - A row with count 0 equals a missing row, except for `counted`.
 * - Steps 2 and 3 look each row up by its whole key: PostgreSQL may plan a join as a scan of all counters of the day.
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

/** The only index has columns that never change, and pages have free space: updates write no index (HOT). */
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
      comment on column store_counters.cleared is 'sum of what was removed from the count on that day';
      comment on column store_counters.ceiling is
        'maximum of the count for a proposed row: "on conflict" can read its columns only';

      create table store_gauges (
        tenant_id text collate "C" not null,
        name text collate "C" not null,
        value float8 not null,
        primary key (tenant_id, name)
      );

      create function take_counters(
        offset_ms float8,
        -- One element for each counter: the total of all callers, and the maximum of the count (-1: decide caller by caller).
        owners text[], names text[], totals bigint[], ceilings bigint[],
        -- One element for each caller and counter, grouped by caller. A limit of -1 is no limit.
        callers int[], wanted int[], amounts bigint[], limits bigint[],
        out now_ms float8, out counts_before text, out verdicts text
      )
      language plpgsql
      -- Plans are kept for long, and the table may be small when a plan is made.
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
        decisions int[];
        first int := 1;
        last int;
      begin
        now_ms := extract(epoch from moment) * 1000;

        with proposed as (
          insert into ${SCHEMA}.store_counters as kept (day, tenant_id, name, count, ceiling)
          select today, tenant_id, name, case when total <= ceiling then total else 0 end, ceiling
          from unnest(owners, names, totals, ceilings) with ordinality as requested (tenant_id, name, total, ceiling, place)
          where total > 0 order by place
          on conflict (day, tenant_id, name) do update set count = kept.count + excluded.count
            where excluded.count > 0 and kept.count + excluded.count <= excluded.ceiling
          returning tenant_id, name, count
        )
        select array_agg(proposed.count order by place) into added
        from unnest(owners, names) with ordinality as requested (tenant_id, name, place)
        left join proposed using (tenant_id, name);

        if array_position(added, null) is null and array_position(added, 0) is null then
          select string_agg((after - total)::text, ',' order by place) into counts_before
          from unnest(added, totals) with ordinality as sums (after, total, place);
          return;
        end if;

        select array_agg(case when after > 0 then after - total else coalesce((
          select kept.count from ${SCHEMA}.store_counters as kept
          where kept.day = today and kept.tenant_id = requested.tenant_id and kept.name = requested.name), 0) end order by place)
        into before
        from unnest(owners, names, totals, added) with ordinality as requested (tenant_id, name, total, after, place);
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
          decisions[callers[first]] := verdict;
          first := last + 1;
        end loop;
        verdicts := array_to_string(decisions, ',');

        for place in 1..array_length(owners, 1) loop
          if coalesce(added[place], 0) = 0 and counts[place] > before[place] then
            update ${SCHEMA}.store_counters set count = counts[place]
            where day = today and tenant_id = owners[place] and name = names[place];
          end if;
        end loop;
      end
      $function$;
    `

/**
 * A row that is removed and inserted again has another incarnation. Pages have free space: updates write no index
 * (HOT).
 */
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
      comment on table store_sum_sources is 'number of the last batch of each process, so that no batch is added twice';
    `

/** `owner` is a tenant's id, or empty for the service. */
export const storeTables: readonly Migration[] = [{ name: '0001_store', up: STORE + COUNTERS + SUMS }]
