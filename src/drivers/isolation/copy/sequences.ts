/**
 * Sequences after an import.
 *
 *   a tenant's own     setSequences       exactly as they were
 *   those of a whole   advanceSequences   forward only, and under a lock that keeps everybody else from taking a value: between
 *   placement                             reading and setting one, another tenant's would be given a second time
 *
 * That lock waits for all transactions that have taken a value, and who wants the next one waits behind it: so it is waited for in
 * small pieces. It is that of ALTER SEQUENCE, which leaves the sequence as it is but in a new file: by that, sessions forget values
 * that they took in advance, which the copy's rows may have by now.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { InvalidRequest } from '../../../kernel/base/errors.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import { BackupIncompatible, type CopiedSequence } from '../../../tenants/isolation/copy.ts'
import { all, qualified, type StoredSchema, type StoredSequence } from '../catalog/tables.ts'
import { inTransaction } from '../transactions/owner-transaction.ts'
import { withRows } from './compatibility.ts'

const LOCK_NOT_AVAILABLE = '55P03'
/** Others wait for no longer than this, each time. */
const LOCK_TIMEOUT_MS = 100
const PAUSE_MS = 100
/** A minute at least. */
const ATTEMPTS = 300
/** An import moves a shared sequence no further than this from zero. Beyond 2^53 JavaScript would change the ids of all tenants. */
const SHARED_LIMIT = 2 ** 52

/** Where all of them stand. */
export const sequencesText = (schema: string, { sequences }: Pick<StoredSchema, 'sequences'>): string =>
  sequences.length === 0
    ? 'select where false'
    : sequences
        .map(
          ({ name }) =>
            `select ${pg.escapeLiteral(name)} as name, last_value::text as "lastValue", is_called as "isCalled" from ${qualified(schema, name)}`,
        )
        .join(' union all ')

export const readSequences = async (client: pg.ClientBase, schema: string, stored: Pick<StoredSchema, 'sequences'>) =>
  (await client.query<CopiedSequence>(sequencesText(schema, stored))).rows

/** In the transaction that has made them. */
export async function setSequences(
  client: pg.ClientBase,
  schema: string,
  sequences: readonly CopiedSequence[],
): Promise<void> {
  await withRows(() => all(client, ...sequences.map((sequence) => setText(schema, sequence))))
}

const setText = (schema: string, { name, lastValue, isCalled }: CopiedSequence): string =>
  `select setval(${pg.escapeLiteral(qualified(schema, name))}, ${pg.escapeLiteral(lastValue)}::bigint, ${isCalled})`

export interface AdvanceOptions {
  /** Whether all tenants of the placement take values from them. */
  readonly isShared?: boolean
  readonly signal: AbortSignal
}

interface Facts extends StoredSequence {
  /** What an import may set, in digits. */
  readonly low: string
  readonly high: string
}

/** What a tenant's import wants of sequences that are in use. Throws `E_INVALID_REQUEST` for a value that one must not have. */
export async function advanceForImport(
  client: pg.ClientBase,
  schema: string,
  wanted: readonly CopiedSequence[],
  { isShared = false, signal }: AdvanceOptions,
): Promise<void> {
  const facts = await factsOf(client, schema, wanted, isShared)
  const why = isShared
    ? ': all tenants share it, so an import leaves them half of its range, and numbers up to 2^53'
    : ''
  for (const { name, lastValue } of wanted) {
    const outside = facts.find((one) => one.name === name && isOutside(lastValue, one))
    if (outside) {
      throw InvalidRequest(`setval sets the sequence "${name}" to ${outside.low} .. ${outside.high} only${why}.`)
    }
  }
  await advanceSequences(client, schema, wanted, facts, signal)
}

/**
 * Throws `E_BACKUP_INCOMPATIBLE` for a copy that would move a shared sequence near its end, where no tenant could insert rows any more. In
 * storage of their own, tenants may set their sequences to any value.
 */
export async function assertSequencesInRange(
  client: pg.ClientBase,
  schema: string,
  wanted: readonly CopiedSequence[],
): Promise<void> {
  const facts = await factsOf(client, schema, wanted, true)
  const now = await readSequences(client, schema, { sequences: facts })
  for (const sequence of wanted) {
    const { name, lastValue } = sequence
    const outside = facts.find((one) => one.name === name && isOutside(lastValue, one))
    const present = now.find((one) => one.name === name)
    if (!outside || !present || !isBeyond(sequence, present, outside.increment)) continue
    throw BackupIncompatible(
      `The sequence "${name}" of the tenant has the value ${lastValue}. In shared tables, where all tenants take values from it, a copy ` +
        `may set it to ${outside.low} .. ${outside.high}: set it back in the tenant's storage first. Nothing was changed.`,
    )
  }
}

async function factsOf(
  client: pg.ClientBase,
  schema: string,
  wanted: readonly CopiedSequence[],
  isShared: boolean,
): Promise<Facts[]> {
  const { rows } = await client.query<Facts>(
    `select relname as name, seqincrement::text as increment, seqcache::text as cache,
       case when $3 and seqincrement < 0 then greatest(middle, -${SHARED_LIMIT}) else seqmin end::text as low,
       case when $3 and seqincrement > 0 then least(middle, ${SHARED_LIMIT}) else seqmax end::text as high
     from pg_sequence join pg_class c on c.oid = seqrelid join pg_namespace n on n.oid = relnamespace,
       trunc((seqmin::numeric + seqmax) / 2) as middle
     where nspname = $1 and relname = any ($2)`,
    [schema, wanted.map(({ name }) => name), isShared],
  )
  return rows
}

const isOutside = (value: string, { low, high }: Facts): boolean =>
  BigInt(value) < BigInt(low) || BigInt(value) > BigInt(high)

/** Each in a transaction of its own, on a connection of the owner. */
export async function advanceSequences(
  client: pg.ClientBase,
  schema: string,
  wanted: readonly CopiedSequence[],
  stored: readonly StoredSequence[],
  signal: AbortSignal,
): Promise<void> {
  for (const sequence of wanted) {
    const facts = stored.find(({ name }) => name === sequence.name)
    if (facts) await advance(client, schema, sequence, facts, signal)
  }
}

async function advance(
  client: pg.ClientBase,
  schema: string,
  wanted: CopiedSequence,
  facts: StoredSequence,
  signal: AbortSignal,
): Promise<void> {
  const sequence = qualified(schema, facts.name)
  const isBehind = async () => {
    const [now] = await readSequences(client, schema, { sequences: [facts] })
    return now !== undefined && isBeyond(wanted, now, facts.increment)
  }
  if (facts.cache === '1' && !(await isBehind())) return
  const begin = `begin; set local lock_timeout = ${LOCK_TIMEOUT_MS}`
  for (let attempt = 1; ; attempt++) {
    signal.throwIfAborted()
    try {
      await inTransaction(
        client,
        async () => {
          await client.query(`alter sequence ${sequence} increment by ${facts.increment}`)
          if (await isBehind()) await setSequences(client, schema, [wanted])
        },
        { begin },
      )
      return
    } catch (error) {
      if (sqlState(error) !== LOCK_NOT_AVAILABLE || attempt === ATTEMPTS) throw error
    }
    await sleep(PAUSE_MS, undefined, { signal })
  }
}

/** Whether a sequence that stands at `one` would give a value again that it has given when it stood at `other`. */
export function isBeyond(
  one: Pick<CopiedSequence, 'lastValue' | 'isCalled'>,
  other: Pick<CopiedSequence, 'lastValue' | 'isCalled'>,
  increment: string,
): boolean {
  const [last, from] = [BigInt(one.lastValue), BigInt(other.lastValue)]
  if (last === from) return one.isCalled && !other.isCalled
  return increment.startsWith('-') ? last < from : last > from
}
