/**
 * Sets sequences after an import.
 *
 *   sequences of a tenant        setSequences       exactly the copied state
 *   sequences of a placement     advanceSequences   only forward, under a lock that blocks other sessions from taking values: between
 *                                                   reading and setting, a value of another tenant would be returned twice
 *
 * The lock waits for all transactions that have taken a value, and later callers wait behind it: so it is requested
 * with a short timeout, repeatedly. It is the lock of ALTER SEQUENCE, which only gives the sequence a new file. Thereby
 * sessions forget cached values, which the copy's rows may already have.
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
/** Maximum time for which one attempt blocks other sessions. */
const LOCK_TIMEOUT_MS = 100
const PAUSE_MS = 100
/** At least one minute in total. */
const ATTEMPTS = 300
/**
 * Maximum distance from zero to which an import moves a shared sequence. Beyond 2^53 JavaScript would round the ids of
 * all tenants.
 */
const SHARED_LIMIT = 2 ** 52

/** Query for the values of all sequences. */
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

/** Runs in the transaction that has created the sequences. */
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
  /** The range that an import may set, in digits. */
  readonly low: string
  readonly high: string
}

/**
 * Advances sequences that are in use, for a tenant's import. Throws `E_INVALID_REQUEST` for a value outside of the
 * allowed range.
 */
export async function advanceForImport(
  client: pg.ClientBase,
  schema: string,
  wanted: readonly CopiedSequence[],
  { isShared = false, signal }: AdvanceOptions,
): Promise<void> {
  const facts = await factsOf(client, schema, wanted, isShared)
  const why = isShared
    ? ': all tenants share it, so an import may use only half of its range, and numbers up to 2^53'
    : ''
  for (const { name, lastValue } of wanted) {
    const outside = facts.find((one) => one.name === name && isOutside(lastValue, one))
    if (outside) {
      throw InvalidRequest(`setval sets the sequence "${name}" only to ${outside.low} .. ${outside.high}${why}.`)
    }
  }
  await advanceSequences(client, schema, wanted, facts, signal)
}

/**
 * Throws `E_BACKUP_INCOMPATIBLE` for a copy that would move a shared sequence near its end, where no tenant could
 * insert rows. In separate storage, tenants may set their sequences to any value.
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
        `may set it only to ${outside.low} .. ${outside.high}. Set it back in the tenant's storage first. Nothing was changed.`,
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

/** Each sequence in a separate transaction, on a connection of the owner. */
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

/** Whether a sequence in the state `one` would return a value that it has returned before the state `other`. */
export function isBeyond(
  one: Pick<CopiedSequence, 'lastValue' | 'isCalled'>,
  other: Pick<CopiedSequence, 'lastValue' | 'isCalled'>,
  increment: string,
): boolean {
  const [last, from] = [BigInt(one.lastValue), BigInt(other.lastValue)]
  if (last === from) return one.isCalled && !other.isCalled
  return increment.startsWith('-') ? last < from : last > from
}
