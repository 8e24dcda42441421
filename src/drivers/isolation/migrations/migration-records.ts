/**
 * Defines the SQL that reads and writes `tenantry.migrations`, the records of the migrations that ran in a storage.
 *
 * A setting of the transaction that first reads names the storage. A write checks it: a migration that has ended this
 * transaction is not recorded, whether it has begun another one or not.
 */
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { lockOn } from '../transactions/owner-transaction.ts'
import type { Ran } from './migration-set.ts'

export interface StorageRead {
  /** Whether the schema exists. */
  readonly exists: boolean
  readonly ran: readonly Ran[]
  /** A digest of the applied migrations. */
  readonly state: string
}

/** SQLSTATE for storage in an unexpected state. */
const UNEXPECTED = 'TN002'
const INVALID_TEXT = '22P02'
const SETTING = `current_setting('tenantry.migrating', true)`

/** @param locator as SQL */
const stateOf = (locator: string): string => `(
  select encode(sha256(convert_to(coalesce(string_agg(quote_literal(name) || quote_literal(checksum), ',' order by name), ''), 'UTF8')), 'hex')
  from tenantry.migrations where locator = ${locator})`

/**
 * The table, and a function that begins with storage in an expected state: planning each part again costs more than
 * running it.
 */
export const RECORDS = `
  create table if not exists tenantry.migrations (
    locator text not null, name text not null, checksum text not null,
    applied_at timestamptz(3) not null default now(), primary key (locator, name));
  create or replace function tenantry.begin_migrations(storage text, expected text, lock_timeout_ms text) returns void
    language plpgsql as $function$
    declare
      state text;
      setting text;
    begin
      perform pg_advisory_xact_lock(${lockOn('storage')});
      setting := set_config('lock_timeout', lock_timeout_ms, true);
      select ${stateOf('storage')} into state;
      if state <> expected or to_regnamespace(quote_ident(storage)) is null then
        raise exception using errcode = '${UNEXPECTED}', message = 'the storage is not as it was expected';
      end if;
      setting := set_config('tenantry.migrating', storage, true);
    end $function$;
  revoke all on function tenantry.begin_migrations(text, text, text) from public`

/** Query for a `StorageRead`. Needs a transaction that has the storage's lock. */
export function reading(locator: string): string {
  const storage = pg.escapeLiteral(locator)
  return `select exists (select from pg_namespace where nspname = ${storage}) as exists, ${stateOf(storage)} as state,
    coalesce((select json_agg(json_build_object('name', name, 'checksum', checksum)) from tenantry.migrations
      where locator = ${storage}), '[]') as ran, set_config('tenantry.migrating', ${storage}, true)`
}

/** Names the storage of the transaction again, after its settings were reset. */
export const markStorage = (locator: string): string =>
  `select set_config('tenantry.migrating', ${pg.escapeLiteral(locator)}, true)`

/**
 * Takes the lock, sets its timeout, and instead of reading fails (`isUnexpected`) unless the storage exists in this
 * state.
 */
export const beginAssertingVersion = (locator: string, state: string, lockTimeoutMs: number): string =>
  `begin; select tenantry.begin_migrations(${pg.escapeLiteral(locator)}, ${pg.escapeLiteral(state)}, '${Number(lockTimeoutMs)}')`

export const isUnexpected = (error: unknown): boolean => sqlState(error) === UNEXPECTED

export const recording = (locator: string, { name, checksum }: Ran): string =>
  `insert into tenantry.migrations (locator, name, checksum)
   values (${storageAfter(locator, name)}, ${pg.escapeLiteral(name)}, ${pg.escapeLiteral(checksum)})`

export const forgetting = (locator: string, name: string): string =>
  `delete from tenantry.migrations
   where locator = (select ${storageAfter(locator, name)}) and name = ${pg.escapeLiteral(name)}`

/** Whether the migration `name` has ended the transaction in which it was to be recorded. */
export const hasEnded = (error: unknown, name: string): boolean =>
  sqlState(error) === INVALID_TEXT && error instanceof Error && error.message.includes(`"${endedBy(name)}"`)

/** The storage's name, or a value that is not a number if the transaction differs from the one at the start. */
function storageAfter(locator: string, name: string): string {
  const storage = pg.escapeLiteral(locator)
  const ended = `(${pg.escapeLiteral(endedBy(name))} || coalesce(left(${SETTING}, 0), ''))::integer::text`
  return `case when ${SETTING} = ${storage} then ${storage} else ${ended} end`
}

const endedBy = (name: string): string => `tenantry: ended by ${name}`
