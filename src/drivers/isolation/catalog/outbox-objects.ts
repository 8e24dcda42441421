/**
 * The database objects of the outbox, which each database with tenants' rows has.
 *
 * Tenants' statements may execute `tenantry.post`, which runs with the rights of the owner, and have no right on the
 * table. Its tenant is that of the scope. The scope of a transaction rejects fenced storage, and the drain after a fence
 * ends transactions that began before.
 */
import { createHash } from 'node:crypto'
import pg from 'pg'
import { MAX_ENTRY_BYTES } from '../../../tenants/isolation/outbox.ts'

/** A MAC has 43. */
const MAX_MAC_BYTES = 100

const SIGNATURE = 'tenantry.post(uuid, text, text, text, text)'
/** For programs whose payload is a value of type jsonb. It has the rights of its caller. */
const JSONB_SIGNATURE = 'tenantry.post(uuid, text, jsonb, text)'
const SEARCH_PATH = 'pg_catalog, pg_temp'
/** Increases with each change of the function. Processes of an earlier version leave a newer function as it is. */
const VERSION = 1
const BODY = `
    -- version ${VERSION}
    begin
      if octet_length(kind) > 100 or octet_length(mac) > ${MAX_MAC_BYTES}
          or octet_length(payload) + coalesce(octet_length(context), 0) > ${MAX_ENTRY_BYTES} then
        raise program_limit_exceeded using message = 'an entry of the outbox exceeds ${MAX_ENTRY_BYTES / 1024} KiB, or its kind or MAC 100 bytes';
      end if;
      perform payload::json;
      insert into tenantry.outbox (id, tenant, kind, payload, context, mac)
        values (id, tenantry.current_tenant(), kind, payload, context, mac);
      return id;
    end `

/** Part of the base objects of a database. Idempotent, under their lock. */
export const outboxObjects = (scopeRole: string): string => `
  create table if not exists tenantry.outbox (
    seq bigint generated always as identity primary key, id uuid not null, tenant text not null, kind text not null,
    payload text not null, context text, mac text, posted_at timestamptz not null default clock_timestamp());
  create or replace function tenantry.post(
      id uuid, kind text, payload text, context text default null, mac text default null) returns uuid
    volatile security definer language plpgsql set search_path = ${SEARCH_PATH} as $function$${BODY}$function$;
  revoke all on function ${SIGNATURE} from public;
  create or replace function tenantry.post(id uuid, kind text, payload jsonb, context text default null) returns uuid
    volatile language sql as $function$ select tenantry.post(id, kind, payload::text, context) $function$;
  revoke all on function ${JSONB_SIGNATURE} from public;
  grant execute on function ${SIGNATURE}, ${JSONB_SIGNATURE} to ${pg.escapeIdentifier(scopeRole)}`

/** SQL for whether the database has the table, and the functions in this version or a newer one. */
export const hasOutboxObjects = `(to_regclass('tenantry.outbox') is not null
  and to_regprocedure('${JSONB_SIGNATURE}') is not null and coalesce((
  select substring(prosrc from '-- version (\\d+)')::int >= ${VERSION} from pg_proc where oid = to_regprocedure('${SIGNATURE}')), false))`

/** Whether a function of the catalog is exactly `tenantry.post`: the only one that may run with the owner's rights. */
export const isPost = (alias: string): string => `(${alias}.oid is not distinct from to_regprocedure('${SIGNATURE}')
  and md5(${alias}.prosrc) = '${createHash('md5').update(BODY).digest('hex')}'
  and ${alias}.proconfig is not distinct from array['search_path=${SEARCH_PATH}'])`
