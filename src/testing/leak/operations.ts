/**
 * What the leak fuzzer does on any engine: reads and writes of every kind, alone and in transactions, and all the ways in which
 * they fail. Each is legal and must succeed, or illegal and must be refused; the worker's rows are told what has been kept.
 */
import { CompiledQuery, type Kysely, sql } from 'kysely'
import { currentContext, enterContext, NO_TENANT } from '../../kernel/base/context.ts'
import type { Turn } from './step.ts'

export interface LeakOperation {
  readonly name: string
  /** How often, beside the others. */
  readonly weight: number
  readonly run: (turn: Turn) => Promise<void>
}

export const raw = async (db: Kysely<any>, text: string, values: readonly unknown[] = []): Promise<any[]> =>
  (await db.executeQuery<any>(CompiledQuery.raw(text, [...values]))).rows

/** What a driver says when a statement has ended its transaction, or Kysely when a failed one is committed. */
export const ENDED = /ended the transaction|rolled back/

const upsert = (db: Kysely<any>, { mark }: Turn, id: number, value: number) =>
  db
    .insertInto('items')
    .values({ id, owner: mark, value, slot: id })
    .onConflict((conflict) => conflict.columns(['tenant_id', 'id']).doUpdateSet({ value }))
    .returning(['owner', 'id', 'value'])
    .execute()

const readAll = (db: Kysely<any>) => db.selectFrom('items').select(['owner', 'id', 'value']).execute()

/** Thrown by the host's own code, to end a transaction. */
const CHANGED_MIND = 'the host changed its mind'

async function reads(turn: Turn): Promise<void> {
  turn.compare(await readAll(turn.handle.db))
}

async function readsByKey(turn: Turn): Promise<void> {
  const id = turn.id()
  const { db } = turn.handle
  const rows = await db.selectFrom('items').select(['owner', 'id', 'value']).where('id', '=', id).execute()
  const [row] = turn.see(rows)
  if (row?.value !== turn.rows.get(id)) turn.violate(`row ${id} is ${row?.value}, should be ${turn.rows.get(id)}`)
}

async function readsView(turn: Turn): Promise<void> {
  turn.see(await turn.handle.db.selectFrom('owners').selectAll().execute())
}

async function writes(turn: Turn): Promise<void> {
  const [id, value] = [turn.id(), turn.value()]
  turn.see(await upsert(turn.handle.db, turn, id, value))
  turn.rows.set(id, value)
}

async function inserts(turn: Turn): Promise<void> {
  const [id, value] = [turn.id(), turn.value()]
  const inserting = turn.handle.db
    .insertInto('items')
    .values({ id, owner: turn.mark, value })
    .returning(['owner', 'id'])
    .execute()
  if (turn.rows.has(id)) return turn.refused(inserting, '23505', /UNIQUE/)
  turn.see(await inserting)
  turn.rows.set(id, value)
}

async function updates(turn: Turn): Promise<void> {
  const [id, value] = [turn.id(), turn.value()]
  const rows = await turn.handle.db
    .updateTable('items')
    .set({ value })
    .where('id', '=', id)
    .returning(['owner', 'id'])
    .execute()
  if (turn.see(rows).length !== Number(turn.rows.has(id))) turn.violate(`an update of row ${id} found ${rows.length}`)
  if (turn.rows.has(id)) turn.rows.set(id, value)
}

async function deletes(turn: Turn): Promise<void> {
  const id = turn.id()
  const rows = await turn.handle.db.deleteFrom('items').where('id', '=', id).returning(['owner', 'id']).execute()
  if (turn.see(rows).length !== Number(turn.rows.has(id))) turn.violate(`a delete of row ${id} found ${rows.length}`)
  turn.rows.delete(id)
}

async function commits(turn: Turn): Promise<void> {
  const written: [number, number][] = [
    [turn.id(), turn.value()],
    [turn.id(), turn.value()],
  ]
  await turn.handle.transaction(async (db) => {
    for (const [id, value] of written) turn.see(await upsert(db, turn, id, value))
    turn.see(await readAll(db))
  })
  for (const [id, value] of written) turn.rows.set(id, value)
}

async function rollsBack(turn: Turn): Promise<void> {
  const work = turn.handle.transaction(async (db) => {
    turn.see(await upsert(db, turn, turn.id(), turn.value()))
    turn.see(await readAll(db))
    throw new Error(CHANGED_MIND)
  })
  await turn.refused(work, new RegExp(CHANGED_MIND))
}

/** A statement fails, the host goes on all the same: what it wrote before must not be kept in silence. */
async function aborts(turn: Turn): Promise<void> {
  const work = turn.handle.transaction(async (db) => {
    turn.see(await upsert(db, turn, turn.id(), turn.value()))
    await turn.refused(raw(db, failing(turn)))
    throw new Error(CHANGED_MIND)
  })
  await turn.refused(work, new RegExp(CHANGED_MIND))
}

async function fails(turn: Turn): Promise<void> {
  await turn.refused(raw(turn.handle.db, failing(turn)))
}

const failing = ({ random, mark }: Turn): string =>
  random.pick([
    'selekt 1',
    'select * from missing',
    `insert into items (id, owner, value) values (1000000, '${mark}', -1)`,
    `insert into items (id, owner) values (1000000, null)`,
    `insert into items (id, owner) values (1000000, '${mark}'), (1000000, '${mark}')`,
  ])

async function savepoints(turn: Turn): Promise<void> {
  const [kept, lost] = [turn.id(), turn.id()]
  const value = turn.value()
  const outer = await turn.handle.db.startTransaction().execute()
  try {
    turn.see(await upsert(outer, turn, kept, value))
    const inner = await outer.savepoint('inner').execute()
    turn.see(await upsert(inner, turn, lost, 7_777))
    if (turn.random.below(2) === 0) await turn.refused(raw(inner, 'select * from missing'))
    await inner.rollbackToSavepoint('inner').execute()
    await inner.releaseSavepoint('inner').execute()
    turn.see(await readAll(outer))
    await outer.commit().execute()
  } catch (error) {
    if (!outer.isCommitted && !outer.isRolledBack) await outer.rollback().execute()
    throw error
  }
  turn.rows.set(kept, value)
}

/** One handle, asked by many at once. */
async function readsAtOnce(turn: Turn): Promise<void> {
  const { db, pool } = turn.handle
  const answers = await Promise.all([
    readAll(db),
    readAll(db),
    pool.query('select owner, id, value from items').then(({ rows }) => rows),
    db.transaction().execute(readAll),
    raw(db, 'select owner from owners'),
  ])
  for (const rows of answers) turn.see(rows)
}

async function clientCommits(turn: Turn): Promise<void> {
  const [id, value] = [turn.id(), turn.value()]
  const client = await turn.handle.pool.connect()
  try {
    await client.query('begin')
    turn.see((await client.query(writing(turn, id, value))).rows)
    await client.query('commit')
  } finally {
    client.release()
  }
  turn.rows.set(id, value)
}

export const writing = ({ mark }: Turn, id: number, value: number): string =>
  `insert into items (id, owner, value, slot) values (${id}, '${mark}', ${value}, ${id})
   on conflict (tenant_id, id) do update set value = excluded.value returning owner, id, value`

/** A client that is given back in the middle: what it wrote is lost, and the next one finds nothing of it. */
async function releasesInside(turn: Turn): Promise<void> {
  const client = await turn.handle.pool.connect()
  try {
    await client.query('begin')
    turn.see((await client.query(writing(turn, turn.id(), 8_888))).rows)
    if (turn.random.below(2) === 0) await turn.refused(client.query('select * from missing'))
  } finally {
    client.release()
  }
}

/** A client that was given back belongs to somebody else. */
async function usesReleased(turn: Turn): Promise<void> {
  const client = await turn.handle.pool.connect()
  client.release()
  await turn.refused(client.query('select owner, id, value from items'))
  await turn.refused(client.query(turn.random.pick(['begin', 'rollback', 'commit'])))
}

/** A client of another one's transaction, in work that is for nobody here: it reads and writes nothing, and loses what it had. */
async function usesElsewhere(turn: Turn): Promise<void> {
  const { Client } = turn.handle.pg
  const client = new Client()
  const elsewhere = { ...currentContext(), tenantId: NO_TENANT }
  try {
    if (turn.random.below(2) === 0) {
      await client.query('begin')
      turn.see((await client.query(writing(turn, turn.id(), 7_777))).rows)
    }
    const read = () => client.query('select owner, id, value from items')
    await enterContext(elsewhere, () => turn.refused(read(), 'E_TENANT_MISMATCH'))
  } finally {
    await client.end()
  }
}

/** A transaction that is over: the host kept its handle. */
async function usesEnded(turn: Turn): Promise<void> {
  let kept: Kysely<any> | undefined
  await turn.handle.transaction(async (db) => {
    kept = db
    turn.see(await readAll(db))
  })
  if (kept) await turn.refused(readAll(kept))
}

async function counts(turn: Turn): Promise<void> {
  const { rows } = await sql<{ own: number; all: number }>`
    select count(case when owner = ${turn.mark} then 1 end) as own, count(*) as "all" from items`.execute(
    turn.handle.db,
  )
  const [found] = rows
  if (Number(found?.own) !== Number(found?.all)) turn.violate(`rows of others were counted: ${JSON.stringify(found)}`)
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
