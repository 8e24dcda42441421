/**
 * Operations of the leak fuzzer on PostgreSQL: attempts to leave state in a session, to end a scope, and to find
 * remaining state.
 */
import type { StatementResult } from '../../tenants/isolation/driver.ts'
import { ENDED, type LeakOperation, raw, writing } from './operations.ts'
import type { FuzzStep } from './step.ts'

export const ALL_ITEMS = 'select owner, id, value from items'
const SYNTAX_ERROR = '42601'

interface Client {
  query(text: string): Promise<StatementResult>
}

/** A prepared plan is kept across tenants. */
async function readsByParameter(step: FuzzStep): Promise<void> {
  const id = step.id()
  const { rows } = await step.handle.pool.query(`${ALL_ITEMS} where id = $1`, [id])
  const [row] = step.see(rows)
  if (row?.value !== step.rows.get(id)) step.violate(`row ${id} is ${row?.value}, expected ${step.rows.get(id)}`)
}

async function copies(step: FuzzStep): Promise<void> {
  const [from, to] = [step.id(), step.id()]
  const { rows } = await step.handle.pool.query(
    `with source as (select value from items where id = $1)
     insert into items (id, owner, value, slot) select $2::int, $3, value, $2::int from source
     on conflict (tenant_id, id) do update set value = excluded.value returning owner, id, value`,
    [from, to, step.mark],
  )
  step.see(rows)
  const value = step.rows.get(from)
  if (value !== undefined) step.rows.set(to, value)
}

async function divides(step: FuzzStep): Promise<void> {
  await step.rejected(raw(step.handle.db, 'select 1 / (select 0)'), '22012')
}

/** Two rows with one slot: rejected by COMMIT, or at the end of the batch. */
async function failsToCommit(step: FuzzStep): Promise<void> {
  const { db, transaction } = step.handle
  const twice = `insert into items (id, owner, slot) values (1000001, '${step.mark}', 1000000), (1000002, '${step.mark}', 1000000)`
  const isAlone = step.random.below(2) === 0
  await step.rejected(isAlone ? raw(db, twice) : transaction((db) => raw(db, twice)), '23505')
}

/** An error that the host's code swallows must not look like a commit. */
async function commitsWhatFailed(step: FuzzStep): Promise<void> {
  const work = step.handle.transaction(async (db) => {
    step.see(await raw(db, writing(step, step.id(), 9_999)))
    await step.rejected(raw(db, 'select * from missing'), '42P01')
  })
  await step.rejected(work, ENDED)
}

async function severalStatements(step: FuzzStep): Promise<void> {
  const text = step.random.pick([
    `commit; ${ALL_ITEMS}`,
    `rollback; set app.fuzz = 'left'; begin`,
    `${ALL_ITEMS}; select 1`,
    `reset role; ${ALL_ITEMS}`,
  ])
  const { db, transaction, pool } = step.handle
  await step.rejected(raw(db, text), SYNTAX_ERROR, ENDED)
  await step.rejected(
    transaction((db) => raw(db, text)),
    SYNTAX_ERROR,
    ENDED,
  )
  await step.rejected(pool.query(text), SYNTAX_ERROR, ENDED)
}

/** The host ends the handle's transaction: later statements have no scope, so they must not run. */
async function endsItself(step: FuzzStep): Promise<void> {
  const [id, value] = [step.id(), step.value()]
  const word = step.random.pick([
    ...['commit', 'rollback', 'end', 'abort'],
    ...['commit and chain', 'end work and chain', 'rollback and chain', 'abort transaction and chain'],
  ])
  const work = step.handle.transaction(async (db) => {
    step.see(await raw(db, writing(step, id, value)))
    await raw(db, word)
    step.see(await raw(db, ALL_ITEMS))
  })
  await step.rejected(work)
  if (/^(commit|end)/.test(word)) step.rows.set(id, value)
  await step.rejected(raw(step.handle.db, word), ENDED)
}

/** Neither the login nor the session's original role may read a row. */
async function leavesItsRole(step: FuzzStep): Promise<void> {
  const leave = step.random.pick([
    'reset role',
    'set role none',
    'set session authorization default',
    `set local role none`,
    `select set_config('role', 'none', false)`,
  ])
  await step.rejected(
    step.handle.transaction(async (db) => {
      await raw(db, leave)
      return raw(db, ALL_ITEMS)
    }),
    '42501',
    '42P01', // a schema that it may not use is skipped in the path
  )
}

async function sets(step: FuzzStep): Promise<void> {
  const { random, number, other } = step
  const settings = [
    `set app.fuzz = 'left ${number}'`,
    `select set_config('app.fuzz', 'left ${number}', false)`,
    `select set_config('app.tenant_id', '${other.location.locator}', false)`,
    `set search_path = "${other.view?.schema}"`,
    `select set_config('search_path', '"${other.view?.schema}"', false)`,
    `set statement_timeout = '71s'`,
    `set default_transaction_read_only = on`,
    `set default_transaction_isolation = serializable`,
    'set row_security = off',
    'set session characteristics as transaction read only',
  ]
  const text = random.pick(settings)
  await runSomehow(step, text, random.below(3))
}

/** Runs the same statement without a transaction, in a transaction, or on a client. */
async function runSomehow({ handle }: FuzzStep, text: string, how: number): Promise<void> {
  if (how === 0) await raw(handle.db, text)
  else if (how === 1) await handle.transaction((db) => raw(db, text))
  else {
    const client = await handle.pool.connect()
    try {
      await client.query(text)
    } finally {
      client.release()
    }
  }
}

async function locks(step: FuzzStep): Promise<void> {
  const call = step.random.pick(['pg_advisory_lock', 'pg_try_advisory_lock', 'pg_advisory_lock_shared'])
  await runSomehow(step, `select ${call}(${step.number})`, step.random.below(3))
}

async function prepares(step: FuzzStep): Promise<void> {
  await runSomehow(step, `prepare fuzz_${step.number} as ${ALL_ITEMS}`, step.random.below(3))
  await step.rejected(raw(step.handle.db, `execute fuzz_${step.number - step.random.below(3)}`), '26000')
}

async function listens(step: FuzzStep): Promise<void> {
  await runSomehow(step, `listen fuzz_${step.number % 5}`, step.random.below(2)) // a client rejects the statement
}

async function holdsCursors(step: FuzzStep): Promise<void> {
  const name = `fuzz_${step.number}`
  const [seen] = await step.handle.transaction(async (db) => {
    await raw(db, `declare ${name} cursor with hold for ${ALL_ITEMS}`)
    return [await raw(db, `fetch all from ${name}`)]
  })
  step.see(seen ?? [])
  await step.rejected(raw(step.handle.db, `fetch all from ${name}`), '34000')
}

/** A new temporary table, and one with the name of a tenant's table. */
async function makesTemporary(step: FuzzStep): Promise<void> {
  await step.handle.transaction(async (db) => {
    await raw(db, `create temporary table scratch as select '${step.mark}' as owner`)
    await raw(db, `create temporary table items as select 'of a temporary table' as owner, 0 as id, 0 as value`)
    step.see(await raw(db, 'select * from scratch'))
    step.see(await raw(db, ALL_ITEMS))
  })
}

async function looksForTemporary(step: FuzzStep): Promise<void> {
  await step.rejected(raw(step.handle.db, 'select * from scratch'), '42P01')
}

async function usesSequence(step: FuzzStep): Promise<void> {
  await raw(step.handle.db, `select nextval('numbers')`)
  await step.rejected(raw(step.handle.db, 'select lastval()'), '55000')
}

async function hasModes(step: FuzzStep): Promise<void> {
  const strict = step.handle.db.transaction().setIsolationLevel('serializable').setAccessMode('read only')
  const id = step.id()
  await step.rejected(
    strict.execute((db) => raw(db, writing(step, id, 1))),
    '25006',
  )
}

/** Concurrent statements on one client: some may be rejected, none may see another tenant. */
async function crowdsOneClient(step: FuzzStep): Promise<void> {
  const client = await step.handle.pool.connect()
  const texts = [
    ALL_ITEMS,
    `set app.fuzz = 'left ${step.number}'`,
    'begin',
    ALL_ITEMS,
    `select pg_advisory_lock(${step.number})`,
    'select 1 / (select 0)',
    ALL_ITEMS,
    'rollback',
    `select set_config('app.fuzz', 'left', false)`,
    ALL_ITEMS,
  ]
  const queries: Promise<void>[] = []
  for (let n = 0; n < 6; n++) {
    const text = step.random.pick(texts)
    queries.push(see(step, client, text))
    for (let wait = step.random.below(4); wait > 0; wait--) await client.query('select 1').catch(() => undefined)
  }
  if (step.random.below(2) === 0) await Promise.all(queries)
  client.release()
  await Promise.all(queries)
}

const see = (step: FuzzStep, client: Client, text: string): Promise<void> =>
  client.query(text).then(
    ({ rows }) => {
      if (text === ALL_ITEMS) step.see(rows)
    },
    () => undefined, // which of them succeed depends on their order
  )

/** Releases a client in a transaction during a statement: nothing is kept once the backend has ended. */
async function releasesWhileBusy(step: FuzzStep): Promise<void> {
  const client = await step.handle.pool.connect()
  await client.query('begin')
  const pid = (await client.query('select pg_backend_pid() as pid')).rows[0].pid
  const id = step.id()
  const query = see(step, client, step.random.below(2) === 0 ? writing(step, id, step.value()) : ALL_ITEMS)
  for (let wait = step.random.below(5); wait > 0; wait--) await undefined // the statement is sent now or never
  client.release()
  await query
  const { db } = step.handle
  while ((await raw(db, `select from pg_stat_activity where pid = ${pid}`)).length > 0)
    await raw(db, 'select pg_sleep(0.001)')
  const now = step.see(await raw(db, `${ALL_ITEMS} where id = ${id}`))[0]?.value
  if (now !== step.rows.get(id)) step.violate(`row ${id} is ${now} after a lost write`)
}

/** Functions that PostgreSQL permits to every role, and that a placement revokes from PUBLIC. */
const BEYOND = [
  (mark: string) => `select lo_from_bytea(0, '${mark}')`,
  () => 'select lo_create(0)',
  () => 'select lo_get(oid) from pg_largeobject_metadata union all select lo_get(1)',
  () => `select set_config('role', 'none', true), pg_cancel_backend(0)`,
  () => `select set_config('role', 'none', true), pg_terminate_backend(0)`,
  () => `select pg_logical_emit_message(true, 'fuzz', 'left')`,
]

const reachesBeyond = (step: FuzzStep): Promise<void> =>
  step.rejected(raw(step.handle.db, step.random.pick(BEYOND)(step.mark)), '42501')

/** Grants no privilege, and must not block the connections of other tenants. */
async function changesDefaults({ handle }: FuzzStep): Promise<void> {
  const changed = raw(handle.db, 'alter default privileges grant select on tables to public')
  await changed.catch(() => undefined) // the server rejects one of two concurrent changes
}

export const POSTGRES_OPERATIONS: readonly LeakOperation[] = [
  { name: 'read by parameter', weight: 10, run: readsByParameter },
  { name: 'copy a row', weight: 4, run: copies },
  { name: 'division', weight: 3, run: divides },
  { name: 'commit that fails', weight: 4, run: failsToCommit },
  { name: 'commit of what failed', weight: 4, run: commitsWhatFailed },
  { name: 'several statements', weight: 3, run: severalStatements },
  { name: 'own commit or rollback', weight: 4, run: endsItself },
  { name: 'role left', weight: 3, run: leavesItsRole },
  { name: 'settings of the session', weight: 5, run: sets },
  { name: 'advisory lock', weight: 3, run: locks },
  { name: 'PREPARE', weight: 2, run: prepares },
  { name: 'LISTEN', weight: 2, run: listens },
  { name: 'cursor with hold', weight: 3, run: holdsCursors },
  { name: 'temporary table', weight: 2, run: makesTemporary },
  { name: 'temporary table of another', weight: 3, run: looksForTemporary },
  { name: 'sequence', weight: 2, run: usesSequence },
  { name: 'beyond the scope', weight: 2, run: reachesBeyond },
  { name: 'default privileges', weight: 1, run: changesDefaults },
  { name: 'read only transaction', weight: 2, run: hasModes },
  { name: 'one client, many at once', weight: 3, run: crowdsOneClient },
  { name: 'client released while busy', weight: 3, run: releasesWhileBusy },
]
