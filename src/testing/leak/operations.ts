/**
 * Operations of the leak fuzzer for all engines: reads, writes and transactions, with all ways to fail. A legal
 * operation must succeed, an illegal one must be rejected, and the worker's rows record the kept changes.
 */
import { CompiledQuery, type Kysely, sql } from 'kysely'
import { currentContext, enterContext, NO_TENANT } from '../../kernel/base/context.ts'
import type { FuzzStep } from './step.ts'

export interface LeakOperation {
  readonly name: string
  /** Relative frequency. */
  readonly weight: number
  readonly run: (step: FuzzStep) => Promise<void>
}

export const raw = async (db: Kysely<any>, text: string, values: readonly unknown[] = []): Promise<any[]> =>
  (await db.executeQuery<any>(CompiledQuery.raw(text, [...values]))).rows

/** Message of a driver after a statement has ended its transaction, or of Kysely for the commit of a failed one. */
export const ENDED = /ended the transaction|rolled back/

const upsert = (db: Kysely<any>, { mark }: FuzzStep, id: number, value: number) =>
  db
    .insertInto('items')
    .values({ id, owner: mark, value, slot: id })
    .onConflict((conflict) => conflict.columns(['tenant_id', 'id']).doUpdateSet({ value }))
    .returning(['owner', 'id', 'value'])
    .execute()

const readAll = (db: Kysely<any>) => db.selectFrom('items').select(['owner', 'id', 'value']).execute()

/** Thrown by host code to roll back. */
const CHANGED_MIND = 'the host changed its mind'

async function reads(step: FuzzStep): Promise<void> {
  step.compare(await readAll(step.handle.db))
}

async function readsByKey(step: FuzzStep): Promise<void> {
  const id = step.id()
  const { db } = step.handle
  const rows = await db.selectFrom('items').select(['owner', 'id', 'value']).where('id', '=', id).execute()
  const [row] = step.see(rows)
  if (row?.value !== step.rows.get(id)) step.violate(`row ${id} is ${row?.value}, expected ${step.rows.get(id)}`)
}

async function readsView(step: FuzzStep): Promise<void> {
  step.see(await step.handle.db.selectFrom('owners').selectAll().execute())
}

async function writes(step: FuzzStep): Promise<void> {
  const [id, value] = [step.id(), step.value()]
  step.see(await upsert(step.handle.db, step, id, value))
  step.rows.set(id, value)
}

async function inserts(step: FuzzStep): Promise<void> {
  const [id, value] = [step.id(), step.value()]
  const inserting = step.handle.db
    .insertInto('items')
    .values({ id, owner: step.mark, value })
    .returning(['owner', 'id'])
    .execute()
  if (step.rows.has(id)) return step.rejected(inserting, '23505', /UNIQUE/)
  step.see(await inserting)
  step.rows.set(id, value)
}

async function updates(step: FuzzStep): Promise<void> {
  const [id, value] = [step.id(), step.value()]
  const rows = await step.handle.db
    .updateTable('items')
    .set({ value })
    .where('id', '=', id)
    .returning(['owner', 'id'])
    .execute()
  if (step.see(rows).length !== Number(step.rows.has(id)))
    step.violate(`an update of row ${id} found ${rows.length} rows`)
  if (step.rows.has(id)) step.rows.set(id, value)
}

async function deletes(step: FuzzStep): Promise<void> {
  const id = step.id()
  const rows = await step.handle.db.deleteFrom('items').where('id', '=', id).returning(['owner', 'id']).execute()
  if (step.see(rows).length !== Number(step.rows.has(id)))
    step.violate(`a delete of row ${id} found ${rows.length} rows`)
  step.rows.delete(id)
}

async function commits(step: FuzzStep): Promise<void> {
  const written: [number, number][] = [
    [step.id(), step.value()],
    [step.id(), step.value()],
  ]
  await step.handle.transaction(async (db) => {
    for (const [id, value] of written) step.see(await upsert(db, step, id, value))
    step.see(await readAll(db))
  })
  for (const [id, value] of written) step.rows.set(id, value)
}

async function rollsBack(step: FuzzStep): Promise<void> {
  const work = step.handle.transaction(async (db) => {
    step.see(await upsert(db, step, step.id(), step.value()))
    step.see(await readAll(db))
    throw new Error(CHANGED_MIND)
  })
  await step.rejected(work, new RegExp(CHANGED_MIND))
}

/** A statement fails and the host continues: its earlier writes must not be committed silently. */
async function aborts(step: FuzzStep): Promise<void> {
  const work = step.handle.transaction(async (db) => {
    step.see(await upsert(db, step, step.id(), step.value()))
    await step.rejected(raw(db, failing(step)))
    throw new Error(CHANGED_MIND)
  })
  await step.rejected(work, new RegExp(CHANGED_MIND))
}

async function fails(step: FuzzStep): Promise<void> {
  await step.rejected(raw(step.handle.db, failing(step)))
}

const failing = ({ random, mark }: FuzzStep): string =>
  random.pick([
    'selekt 1',
    'select * from missing',
    `insert into items (id, owner, value) values (1000000, '${mark}', -1)`,
    `insert into items (id, owner) values (1000000, null)`,
    `insert into items (id, owner) values (1000000, '${mark}'), (1000000, '${mark}')`,
  ])

async function savepoints(step: FuzzStep): Promise<void> {
  const [kept, lost] = [step.id(), step.id()]
  const value = step.value()
  const outer = await step.handle.db.startTransaction().execute()
  try {
    step.see(await upsert(outer, step, kept, value))
    const inner = await outer.savepoint('inner').execute()
    step.see(await upsert(inner, step, lost, 7_777))
    if (step.random.below(2) === 0) await step.rejected(raw(inner, 'select * from missing'))
    await inner.rollbackToSavepoint('inner').execute()
    await inner.releaseSavepoint('inner').execute()
    step.see(await readAll(outer))
    await outer.commit().execute()
  } catch (error) {
    if (!outer.isCommitted && !outer.isRolledBack) await outer.rollback().execute()
    throw error
  }
  step.rows.set(kept, value)
}

/** Concurrent reads on one handle. */
async function readsAtOnce(step: FuzzStep): Promise<void> {
  const { db, pool } = step.handle
  const results = await Promise.all([
    readAll(db),
    readAll(db),
    pool.query('select owner, id, value from items').then(({ rows }) => rows),
    db.transaction().execute(readAll),
    raw(db, 'select owner from owners'),
  ])
  for (const rows of results) step.see(rows)
}

async function clientCommits(step: FuzzStep): Promise<void> {
  const [id, value] = [step.id(), step.value()]
  const client = await step.handle.pool.connect()
  try {
    await client.query('begin')
    step.see((await client.query(writing(step, id, value))).rows)
    await client.query('commit')
  } finally {
    client.release()
  }
  step.rows.set(id, value)
}

export const writing = ({ mark }: FuzzStep, id: number, value: number): string =>
  `insert into items (id, owner, value, slot) values (${id}, '${mark}', ${value}, ${id})
   on conflict (tenant_id, id) do update set value = excluded.value returning owner, id, value`

/** Releases a client in a transaction: its writes are lost, and the next client finds none of them. */
async function releasesInside(step: FuzzStep): Promise<void> {
  const client = await step.handle.pool.connect()
  try {
    await client.query('begin')
    step.see((await client.query(writing(step, step.id(), 8_888))).rows)
    if (step.random.below(2) === 0) await step.rejected(client.query('select * from missing'))
  } finally {
    client.release()
  }
}

/** A released client belongs to another caller. */
async function usesReleased(step: FuzzStep): Promise<void> {
  const client = await step.handle.pool.connect()
  client.release()
  await step.rejected(client.query('select owner, id, value from items'))
  await step.rejected(client.query(step.random.pick(['begin', 'rollback', 'commit'])))
}

/**
 * A client of another tenant's transaction, used outside its context: no statement runs, and its transaction is lost.
 */
async function usesElsewhere(step: FuzzStep): Promise<void> {
  const { Client } = step.handle.pg
  const client = new Client()
  const elsewhere = { ...currentContext(), tenantId: NO_TENANT }
  try {
    if (step.random.below(2) === 0) {
      await client.query('begin')
      step.see((await client.query(writing(step, step.id(), 7_777))).rows)
    }
    const read = () => client.query('select owner, id, value from items')
    await enterContext(elsewhere, () => step.rejected(read(), 'E_TENANT_MISMATCH'))
  } finally {
    await client.end()
  }
}

/** The host uses the handle of an ended transaction. */
async function usesEnded(step: FuzzStep): Promise<void> {
  let kept: Kysely<any> | undefined
  await step.handle.transaction(async (db) => {
    kept = db
    step.see(await readAll(db))
  })
  if (kept) await step.rejected(readAll(kept))
}

async function counts(step: FuzzStep): Promise<void> {
  const { rows } = await sql<{ own: number; all: number }>`
    select count(case when owner = ${step.mark} then 1 end) as own, count(*) as "all" from items`.execute(
    step.handle.db,
  )
  const [found] = rows
  if (Number(found?.own) !== Number(found?.all))
    step.violate(`rows of other tenants were counted: ${JSON.stringify(found)}`)
}

export const COMMON_OPERATIONS: readonly LeakOperation[] = [
  { name: 'read', weight: 12, run: reads },
  { name: 'read by key', weight: 8, run: readsByKey },
  { name: 'read a view', weight: 3, run: readsView },
  { name: 'count', weight: 3, run: counts },
  { name: 'upsert, returning', weight: 8, run: writes },
  { name: 'insert, returning', weight: 5, run: inserts },
  { name: 'update, returning', weight: 5, run: updates },
  { name: 'delete, returning', weight: 5, run: deletes },
  { name: 'transaction, committed', weight: 5, run: commits },
  { name: 'transaction, rolled back', weight: 4, run: rollsBack },
  { name: 'transaction, aborted', weight: 4, run: aborts },
  { name: 'statement that fails', weight: 6, run: fails },
  { name: 'savepoint', weight: 4, run: savepoints },
  { name: 'many at once on one handle', weight: 3, run: readsAtOnce },
  { name: 'client, committed', weight: 4, run: clientCommits },
  { name: 'client released inside a transaction', weight: 3, run: releasesInside },
  { name: 'client used after its release', weight: 3, run: usesReleased },
  { name: 'client used in another context', weight: 3, run: usesElsewhere },
  { name: 'transaction used after its end', weight: 3, run: usesEnded },
]
