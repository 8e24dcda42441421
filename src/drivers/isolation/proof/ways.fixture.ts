/**
 * Lists ways in which SQL of one tenant may affect other tenants, with their results: the table of docs/security.md.
 */
import type pg from 'pg'
import type { StorageHandle } from '../../../tenants/handles/handle.ts'
import { raw } from '../../../testing/leak/operations.ts'

export type Verdict = 'rejected' | 'harmless' | 'remaining risk'
type OnEach = readonly [schema: Verdict, rows: Verdict, database: Verdict]
const everywhere = (verdict: Verdict): OnEach => [verdict, verdict, verdict]
const inSharedDatabases = (verdict: Verdict, own: Verdict): OnEach => [verdict, verdict, own]

export interface Environment {
  readonly a: StorageHandle
  readonly b: StorageHandle
  /** Connected as the login of tenants' queries, in the database of b. */
  readonly login: pg.Client
}

export interface Way {
  /** First cell in the table of the guide. */
  readonly name: string
  readonly verdicts: OnEach
  /** Statements that the server rejects if the verdict is `rejected`, and that succeed otherwise. */
  readonly statements: readonly string[]
  /** Whether another tenant notices an effect. */
  readonly isNoticed?: (environment: Environment) => Promise<boolean>
}

export const WAYS: readonly Way[] = [
  {
    name: 'large objects: `lo_from_bytea`, `lo_get`, `lo_create`, `lo_unlink`',
    verdicts: everywhere('rejected'),
    statements: [`select lo_from_bytea(0, 'secret')`, 'select lo_get(1)', 'select lo_create(0)', 'select lo_unlink(1)'],
  },
  {
    name: 'files of the server: `pg_read_file`, `lo_import`, `lo_export`, `copy … from program`',
    verdicts: everywhere('rejected'),
    statements: [
      `select pg_read_file('PG_VERSION')`,
      `select lo_import('/etc/hostname')`,
      `select lo_export(1, '/tmp/x')`,
      `do $$ begin execute 'create temporary table t (x text); copy t from program ''id'''; end $$`,
    ],
  },
  {
    name: 'sessions of others: `pg_cancel_backend`, `pg_terminate_backend`',
    verdicts: everywhere('rejected'),
    statements: ['cancel', 'terminate'].map(
      (what) => `select set_config('role', 'none', true), pg_${what}_backend(pid) from pg_stat_activity
        where usename = session_user and pid <> pg_backend_pid()`,
    ),
  },
  {
    name: 'messages to readers of the WAL: `pg_logical_emit_message`',
    verdicts: everywhere('rejected'),
    statements: [`select pg_logical_emit_message(false, 'a', 'b')`],
  },
  {
    name: '`setval` on a sequence',
    verdicts: everywhere('rejected'),
    statements: [`select setval('numbers', 1)`],
  },
  {
    name: 'temporary tables, views and functions',
    verdicts: inSharedDatabases('rejected', 'harmless'),
    statements: ['create temporary table t (n int)', 'create function pg_temp.f() returns int language sql return 1'],
  },
  {
    name: '`alter default privileges`',
    verdicts: everywhere('harmless'),
    statements: ['alter default privileges grant select on tables to public'],
  },
  {
    name: '`pg_export_snapshot`',
    verdicts: everywhere('harmless'),
    statements: [],
    async isNoticed({ a, b }) {
      const [exporting, reading] = await Promise.all([a.pool.connect(), b.pool.connect()])
      await exporting.query('begin isolation level repeatable read')
      const snapshot = (await exporting.query('select pg_export_snapshot() as id')).rows[0].id
      await reading.query('begin isolation level repeatable read')
      const taken = reading.query(`set transaction snapshot '${snapshot}'`).then(
        () => true,
        () => false,
      )
      const seen = (await taken) ? (await reading.query('select owner from notes')).rows : [{ owner: 'b' }]
      for (const client of [exporting, reading]) await client.query('rollback').finally(() => client.release())
      return seen.some(({ owner }) => owner !== 'b')
    },
  },
  {
    name: 'channels: `notify`, `pg_notify`',
    verdicts: inSharedDatabases('remaining risk', 'harmless'),
    statements: [`notify heard, 'by statement'`],
    async isNoticed({ a, login }) {
      const notifications: string[] = []
      login.on('notification', ({ payload = '' }) => notifications.push(payload))
      await login.query('listen heard')
      await a.pool.query(`select pg_notify('heard', 'by function')`)
      await login.query('select 1') // earlier notifications have arrived with the response
      await login.query('unlisten heard')
      return notifications.length > 0
    },
  },
  {
    name: 'advisory locks: `pg_advisory_lock`',
    verdicts: inSharedDatabases('remaining risk', 'harmless'),
    statements: [],
    async isNoticed({ a, login }) {
      const client = await a.pool.connect()
      await client.query('begin')
      await client.query('select pg_advisory_xact_lock(77)')
      const { rows } = await login.query('select pg_try_advisory_lock(77) as free')
      await login.query('select pg_advisory_unlock_all()')
      await client.query('rollback')
      client.release()
      return !rows[0].free
    },
  },
  {
    name: 'password and defaults of the login: `alter role current_user …`, after `reset role`',
    verdicts: inSharedDatabases('remaining risk', 'harmless'),
    statements: [],
    async isNoticed({ a, login }) {
      const alter = (what: string) =>
        a.transaction(async (db) => {
          await raw(db, 'reset role')
          await raw(db, `alter role current_user ${what}`)
        })
      await alter(`set work_mem = '77kB'`)
      const { rowCount } = await login.query(
        `select from pg_db_role_setting where setrole = session_user::regrole and 'work_mem=77kB' = any(setconfig)`,
      )
      await alter('reset work_mem')
      return rowCount === 1
    },
  },
  {
    name: 'statements of others: `pg_stat_activity`, after `reset role`',
    verdicts: inSharedDatabases('remaining risk', 'harmless'),
    statements: [],
    async isNoticed({ a, b }) {
      const client = await b.pool.connect()
      await client.query('begin')
      await client.query(`select 'of b' as "a statement of b"`)
      const rows = await a.transaction(async (db) => {
        await raw(db, 'reset role')
        return raw(db, `select from pg_stat_activity where query like '%a statement of b%' and pid <> pg_backend_pid()`)
      })
      await client.query('rollback')
      client.release()
      return rows.length > 0
    },
  },
]
