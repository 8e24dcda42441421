/**
 * The outbox in PostgreSQL. A batch is deleted, applied and committed in one transaction of the owner: a killed relay
 * rolls it back, and another one takes the entries again.
 */
import type pg from 'pg'
import { sqlState } from '../../kernel/database/database.ts'
import type { StorageLocation } from '../../tenants/isolation/driver.ts'
import type { DriverOutbox, PostedEntry, Postponed, RelayOptions, UnknownKind } from '../../tenants/isolation/outbox.ts'
import { hasOutboxObjects } from './catalog/outbox-objects.ts'
import { Semaphore } from './connections/semaphore.ts'
import { baseObjects } from './migrations/postgres-migrator.ts'
import type { PostgresServer } from './server/postgres-server.ts'
import { inTransaction } from './transactions/owner-transaction.ts'

const BATCH = 500
/** A batch ends with the entry that exceeds it. An entry has 256 KiB at most. */
const BATCH_BYTES = 4 * 1024 * 1024
/** Missing database, and one without the objects. */
const MISSING = new Set(['3D000', '42P01', '3F000'])
/** Of a database whose drop was interrupted, and of one that accepts no connections. */
const NO_CONNECTIONS = '55000'
/** Each has a connection of its own, and one to the backoffice. */
const MAX_RELAYS = 4
/** For a transaction of another relay. */
const LOCK_TIMEOUT_MS = 5_000
/** Ends the transaction of a process that hangs. Its entries appear again, and their ids are known. */
const IDLE_TIMEOUT_MS = 60_000
/** The lock of `whileEmpty` blocks posts. */
const EXCLUSIVE_IDLE_TIMEOUT_MS = 5_000
const LOCK_NOT_AVAILABLE = '55P03'
const DELETE = 'delete from tenantry.outbox where seq = any ($1::bigint[])'
/** Reads no more entries than this: a finding needs no exact number. */
const MAX_UNKNOWN = 10_000
const UNKNOWN = `select kind, count(*)::int as count, min(posted_at) as since from (
    select kind, posted_at from tenantry.outbox where kind <> all ($1) order by seq limit ${MAX_UNKNOWN}) waiting
  group by kind order by kind`
const POST = 'select tenantry.post($1, $2, $3, $4, $5)'
/** By the index: without statistics, the planner would sort all entries for each batch. */
const BEGIN = {
  begin: `begin; set local enable_seqscan = off; set local enable_sort = off; set local lock_timeout = ${LOCK_TIMEOUT_MS};
    set local idle_in_transaction_session_timeout = ${IDLE_TIMEOUT_MS}; savepoint untaken`,
}
const BEGIN_EXCLUSIVE = { begin: `begin; set local idle_in_transaction_session_timeout = ${EXCLUSIVE_IDLE_TIMEOUT_MS}` }
/** Passes over deleted entries by the index. */
const FIRST = 'select from tenantry.outbox order by seq limit 1'

const BYTES = 'octet_length(payload) + coalesce(octet_length(context), 0)'

interface TakenEntry extends PostedEntry {
  readonly seq: number
  readonly bytes: number
}

export interface OutboxDatabases {
  readonly reach: 'shared database' | 'own database'
  serverOf(placement: string): PostgresServer
  databaseOf(location: StorageLocation): string
}

export function postgresOutbox({ reach, serverOf, databaseOf }: OutboxDatabases): DriverOutbox {
  const isOwn = reach === 'own database'
  const prepared = new WeakMap<PostgresServer, Set<string>>()
  const owned = <T>(location: StorageLocation, work: (client: pg.ClientBase) => Promise<T>): Promise<T> =>
    serverOf(location.placement).ownedIn(databaseOf(location), work)
  const relays = new Semaphore(MAX_RELAYS)
  const { signal } = new AbortController()

  /** Whether no database exists, or only the rest of one whose drop was interrupted. */
  const isDropped = async (location: StorageLocation): Promise<boolean> => {
    const text = 'select from pg_database where datname = $1 and datconnlimit <> -2'
    const find = (client: pg.ClientBase) => client.query(text, [databaseOf(location)])
    return (await serverOf(location.placement).ownedWithTimeout(find)).rowCount === 0
  }

  /** Undefined without storage. An error of `work` remains an error. */
  const found = async <T>(
    location: StorageLocation,
    work: (client: pg.ClientBase, isEmpty: boolean) => Promise<T>,
  ): Promise<T | undefined> => {
    let isFound = false
    try {
      return await owned(location, async (client) => {
        const { rowCount } = await client.query(FIRST)
        isFound = true
        return await work(client, rowCount === 0)
      })
    } catch (error) {
      const state = sqlState(error) ?? ''
      const isMissing = MISSING.has(state) || (state === NO_CONNECTIONS && isOwn && (await isDropped(location)))
      if (isFound || !isMissing) throw error
      return undefined
    }
  }

  return {
    post: ({ id, kind, payload, context, mac }) => ({ text: POST, values: [id, kind, payload, context, mac] }),

    async prepare(location) {
      const server = serverOf(location.placement)
      const done = prepared.get(server) ?? new Set()
      prepared.set(server, done)
      const database = databaseOf(location)
      if (done.has(database)) return
      await owned(location, async (client) => {
        const { rows } = await client.query(`select ${hasOutboxObjects} as "isThere"`)
        if (!rows[0].isThere) await client.query(`begin; ${baseObjects(server.scopeRole)}; commit`)
      })
      done.add(database)
    },

    async relay(location, options, apply) {
      const relayed = () =>
        found(location, async (client, isEmpty) => {
          if (!isEmpty) await relayAll(client, isOwn ? location.tenantId : undefined, options, apply)
        })
      await (isOwn ? relays.run(signal, relayed) : relayed())
    },

    async unknownKinds(location, kinds) {
      const read = (client: pg.ClientBase) => client.query<UnknownKind>(UNKNOWN, [kinds])
      return (await found(location, read))?.rows ?? []
    },

    ...(isOwn
      ? {
          async whileEmpty(location: StorageLocation, work: () => Promise<void>) {
            const isEmpty = await found(location, (client) => whileEmpty(client, work))
            if (isEmpty === undefined) await work()
            return isEmpty ?? true
          },
        }
      : {
          async oldestSeconds(placement: string) {
            const { rows } = await serverOf(placement).ownedWithTimeout((client) =>
              client.query(
                'select extract(epoch from clock_timestamp() - posted_at)::float8 as age from tenantry.outbox order by seq limit 1',
              ),
            )
            return Math.max(0, rows[0]?.age ?? 0)
          },
        }),
  }
}

/**
 * Batches of one database. Each continues after the last entry of the batch before, so that it does not pass over
 * deleted entries. It ends with a batch from the start that is not full: entries commit in another order than their
 * numbers.
 */
async function relayAll(
  client: pg.ClientBase,
  tenantId: string | undefined,
  options: RelayOptions,
  apply: (entries: readonly PostedEntry[]) => Promise<Postponed | undefined>,
): Promise<void> {
  /** Kinds with postponed entries, and the error of the first. */
  const postponed = new Map<string, unknown>()
  for (let after = 0; ; ) {
    const rows = await inTransaction(
      client,
      async () => {
        const values = [options.kinds, options.tenantId, BATCH, after, BATCH_BYTES, [...postponed.keys()]]
        const taken = await client.query<TakenEntry>(takeText(options), values)
        const entries = taken.rows.map(({ seq: _, bytes: __, ...entry }) =>
          tenantId === undefined ? entry : { ...entry, tenantId },
        )
        const kept = entries.length > 0 ? await apply(entries) : undefined
        if (kept) {
          for (const { kind } of kept.entries) if (!postponed.has(kind)) postponed.set(kind, kept.error)
          const applied = taken.rows.filter((_, at) => !kept.entries.has(entries[at] as PostedEntry))
          await client.query('rollback to savepoint untaken')
          await client.query(DELETE, [applied.map(({ seq }) => seq)])
        }
        return taken.rows
      },
      BEGIN,
    )
    const isFull = rows.length === BATCH || rows.reduce((sum, { bytes }) => sum + bytes, 0) > BATCH_BYTES
    if (!isFull && after === 0) break
    after = isFull ? Math.max(...rows.map(({ seq }) => seq)) : 0
  }
  const [error] = postponed.values()
  if (error !== undefined) throw error
}

/** Without kinds, entries that another relay holds are waited for. */
const takeText = ({ kinds }: RelayOptions): string => `
  delete from tenantry.outbox where seq = any (array(
    select seq from (select seq, bytes, sum(bytes) over (order by seq) as total from (
      select seq, ${BYTES} as bytes from tenantry.outbox where ($1::text[] is null or kind = any ($1))
        and ($2::text is null or tenant = $2) and seq > $4 and kind <> all ($6::text[]) order by seq limit $3 for update ${kinds ? 'skip locked' : ''}
    ) locked) summed where total - bytes <= $5))
  returning seq::float8 as seq, ${BYTES} as bytes, id, tenant as "tenantId", kind, payload, context, mac,
    posted_at as "postedAt"`

/** The lock excludes transactions that have posted and not ended. */
const whileEmpty = (client: pg.ClientBase, work: () => Promise<void>): Promise<boolean> =>
  inTransaction(
    client,
    async () => {
      await client.query('lock table tenantry.outbox in share mode nowait')
      const { rowCount } = await client.query(FIRST)
      if (rowCount === 0) await work()
      return rowCount === 0
    },
    BEGIN_EXCLUSIVE,
  ).catch((error) => {
    if (sqlState(error) === LOCK_NOT_AVAILABLE) return false
    throw error
  })
