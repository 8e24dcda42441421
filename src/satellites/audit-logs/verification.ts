/**
 * Verifies the chains. Everything is read once, in parts, in the order of the chains; retention drops nothing during a verification.
 *
 *   changed    the entry exists and does not match the seal at its position
 *   removed    the seal exists without its entry; also a gap in a chain, or missing seals at its end
 *   inserted   the entry exists without a seal, and does not wait for one
 *
 * An entry waits for its seal if its HMAC is valid and the sealer has not read it yet.
 */
import { z } from 'zod'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { type Database, type Session, sqlState } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { checkpointMac, digestOf, headMac, isMac, keptFromMac, NO_HASH, sealOf, sealsMac, textOf } from './chain.ts'
import type { MacKey } from './mac.ts'
import { inOurTime, NO_TENANT_KEY } from './model/tables.ts'
import type { SealKeyStore } from './seal-key-store.ts'
import { unchainedEntries, whatIsWrongWith } from './unchained-entries.ts'
import { READ_AT_ONCE } from './unsealed.ts'

const LOCK_TIMEOUT = '5s'
const LOCK_NOT_AVAILABLE = '55P03'
/** Limit of reported problems. */
const MAX_REPORTED = 1_000
/** Verifications share this lock; retention takes it exclusively. */
export const VERIFY_LOCK = 7_367_228_009

const Broken = z.object({
  tenantId: z.string().nullable(),
  entryId: z.string().nullable().meta({ description: 'The entry; for a gap, the entry after it' }),
  reason: z.string().meta({ description: 'Starts with `changed`, `removed` or `inserted`' }),
})
type Broken = z.output<typeof Broken>

export const Verification = z
  .object({
    ok: z.boolean(),
    checked: z.int().meta({ description: 'Number of verified seals' }),
    unsealed: z.int().meta({ description: 'Number of valid entries that wait for their seals' }),
    broken: z.array(Broken).meta({ description: 'The first thousand problems' }),
  })
  .meta({ id: 'AuditVerification' })
export type Verification = z.output<typeof Verification>

export interface VerifyOptions {
  /** Default: all chains. */
  readonly tenantId?: string | undefined
  /** Hash of an entry that was kept elsewhere. The entry must still exist. */
  readonly expect?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Receives the number of verified seals, and their number at the start. */
  readonly onProgress?: ((checked: number, total: number) => void) | undefined
}

interface Seal {
  readonly tenantId: string
  readonly seq: number
  readonly entryId: string
  readonly createdAt: Date
  readonly digest: string
  readonly hash: string
  /** Of the entry; null if it is missing. */
  readonly text: string | null
}

/** Known position of a chain. */
interface ChainPosition {
  readonly seq: number
  readonly hash: string
}

interface KnownPosition extends ChainPosition {
  readonly mac: string
  /** Of the end of a chain. */
  readonly entryId?: string
}

export class Verifier {
  readonly #keyStore: SealKeyStore
  /** One verification of a process at a time, because it takes long and must leave connections to others. */
  readonly #own: Database

  constructor({ database }: Kernel, keyStore: SealKeyStore) {
    this.#keyStore = keyStore
    this.#own = database.apart(1)
  }

  async verify(options: VerifyOptions = {}): Promise<Verification> {
    const key = await this.#keyStore.key()
    const isBackfillDone = await this.#keyStore.isBackfillDone()
    return this.#own.session(async (client) => {
      await client.query(`set lock_timeout = '${LOCK_TIMEOUT}'`)
      await client.query('select pg_advisory_lock_shared($1)', [VERIFY_LOCK]).catch((error) => {
        throw sqlState(error) === LOCK_NOT_AVAILABLE
          ? DependencyUnavailable('Retention is dropping a month of the audit log. Try again in a moment.', {
              cause: error,
            })
          : error
      })
      const walk = new Walk(client, key, options)
      await walk.along(isBackfillDone)
      return walk.outcome()
    })
  }
}

class Walk {
  readonly #client: Session
  readonly #key: MacKey
  readonly #options: VerifyOptions
  readonly #broken: Broken[] = []
  #checked = 0
  #unsealed = 0
  #total = 0
  #isExpectedThere: boolean
  #keptFrom: Date | null = null
  /** Of the present chain. */
  #tenantId: string | undefined
  #position: ChainPosition = { seq: 0, hash: NO_HASH }
  /** Computed hash at the present position. It differs from the stored one if the entry or its seal was changed. */
  #computed = NO_HASH

  constructor(client: Session, key: MacKey, options: VerifyOptions) {
    this.#client = client
    this.#key = key
    this.#options = options
    this.#isExpectedThere = options.expect === undefined
  }

  async along(isBackfillDone: boolean): Promise<void> {
    await this.#readKeptFrom()
    // Ends are read first: seals that are added during the verification are after them.
    const heads = await this.#positions('audit_heads', this.#options.tenantId, 'entry_id as "entryId"')
    const checkpoints = await this.#positions('audit_checkpoints', this.#options.tenantId)
    for (const [tenantId, { seq }] of heads) this.#total += seq - (checkpoints.get(tenantId)?.seq ?? 0)
    for await (const seal of this.#seals()) {
      if (seal.tenantId !== this.#tenantId) {
        await this.#end(heads)
        this.#begin(seal.tenantId, checkpoints)
      }
      this.#look(seal)
    }
    await this.#end(heads)
    // Chains without seals.
    for (const tenantId of new Set([...heads.keys(), ...checkpoints.keys()])) {
      this.#begin(tenantId, checkpoints)
      await this.#end(heads)
    }
    await this.#checkUnchained(isBackfillDone)
    if (this.#options.tenantId === undefined) await this.#count()
    if (!this.#isExpectedThere)
      this.#report(this.#options.tenantId ?? NO_TENANT_KEY, null, 'removed: no entry has the expected hash')
  }

  outcome(): Verification {
    const [checked, unsealed, broken] = [this.#checked, this.#unsealed, this.#broken]
    return { ok: broken.length === 0, checked, unsealed, broken }
  }

  async #readKeptFrom(): Promise<void> {
    const { rows } = await this.#client.query(
      'select kept_from as "keptFrom", kept_from_mac as mac from multitenancy.audit_state',
    )
    if (rows.length === 0) return this.#report(NO_TENANT_KEY, null, 'removed: the seal key')
    const { keptFrom, mac } = rows[0]
    if (keptFrom === null) return
    if (isMac(mac, keptFromMac(this.#key, keptFrom))) this.#keptFrom = keptFrom
    else this.#report(NO_TENANT_KEY, null, 'changed: retention time')
  }

  async #positions(table: string, tenantId?: string, ...more: string[]): Promise<Map<string, KnownPosition>> {
    const { rows } = await this.#client.query(
      `select ${['tenant_id', 'seq::float8 as seq', 'hash', 'mac', ...more].join(', ')} from multitenancy.${table}
       where $1::text is null or tenant_id = $1`,
      [tenantId ?? null],
    )
    return new Map(rows.map(({ tenant_id: id, ...position }) => [id, position]))
  }

  async *#seals(): AsyncGenerator<Seal> {
    const { tenantId = null, signal, onProgress } = this.#options
    let after: [string, number] = ['', 0]
    for (;;) {
      signal?.throwIfAborted()
      const { rows } = await this.#client.query(
        `select s.tenant_id as "tenantId", s.seq::float8 as seq, s.entry_id as "entryId", s.created_at as "createdAt", s.digest, s.hash, e.text
         from (
           select * from multitenancy.audit_seals where (tenant_id, seq) > ($1, $2::bigint) and ($3::text is null or tenant_id = $3)
           order by tenant_id, seq limit ${READ_AT_ONCE}) s
         left join lateral (
           select ${textOf('e')} as text from multitenancy.audit_entries e
           where e.created_at = s.created_at and ${inOurTime('e')} and e.id = s.entry_id and coalesce(e.tenant_id, '${NO_TENANT_KEY}') = s.tenant_id offset 0) e on true
         order by s.tenant_id, s.seq`,
        [...after, tenantId],
      )
      yield* rows as Seal[]
      const last = rows.at(-1)
      if (rows.length < READ_AT_ONCE) return
      after = [last.tenantId, last.seq]
      onProgress?.(this.#checked, Math.max(this.#checked, this.#total))
    }
  }

  /** Takes the checkpoint of the chain. */
  #begin(tenantId: string, checkpoints: Map<string, KnownPosition>): void {
    this.#tenantId = tenantId
    this.#position = { seq: 0, hash: NO_HASH }
    const checkpoint = checkpoints.get(tenantId)
    checkpoints.delete(tenantId)
    if (checkpoint && isMac(checkpoint.mac, checkpointMac(this.#key, tenantId, checkpoint.seq, checkpoint.hash))) {
      this.#position = checkpoint
    } else if (checkpoint) this.#report(tenantId, null, 'changed: start of the chain')
    this.#computed = this.#position.hash
    this.#expect(this.#position.hash)
  }

  #look({ tenantId, seq, entryId, createdAt, digest, hash, text }: Seal): void {
    this.#checked += 1
    this.#expect(hash)
    const isNext = seq === this.#position.seq + 1
    if (!isNext)
      this.#report(tenantId, entryId, `removed: ${numbers(this.#position.seq + 1, seq - 1)} of the chain, before it`)
    const after = (before: string) => sealOf(this.#key, { tenantId, seq, before, entryId, createdAt, digest })
    const computed = after(this.#position.hash)
    // The seal after a gap has no verified predecessor; its own hash confirms its entry.
    const isSealed = !isNext || computed === hash || after(this.#computed) === hash
    // A dropped entry may have its seal among later ones.
    const isDropped = isSealed && this.#keptFrom !== null && createdAt < this.#keptFrom
    if (!isSealed) this.#report(tenantId, entryId, 'changed')
    else if (text === null && !isDropped) this.#report(tenantId, entryId, 'removed')
    else if (text !== null && digestOf(text) !== digest) this.#report(tenantId, entryId, 'changed')
    this.#position = { seq, hash }
    this.#computed = computed
  }

  /** Takes the end of the chain. */
  async #end(heads: Map<string, KnownPosition>): Promise<void> {
    const tenantId = this.#tenantId
    if (tenantId === undefined) return
    this.#tenantId = undefined
    const known = heads.get(tenantId)
    heads.delete(tenantId)
    // A chain that started after the ends were read has one now.
    const head = known ?? (await this.#positions('audit_heads', tenantId)).get(tenantId)
    if (!head) return this.#report(tenantId, null, 'removed: end of the chain')
    if (!isMac(head.mac, headMac(this.#key, tenantId, head.seq, head.hash)))
      return this.#report(tenantId, null, 'changed: end of the chain')
    const { seq, hash } = this.#position
    if (known && known.seq > seq) {
      this.#report(tenantId, known.entryId ?? null, `removed: ${numbers(seq + 1, known.seq)} of the chain, its newest`)
    } else if (known && known.seq === seq && known.hash !== hash) {
      this.#report(tenantId, known.entryId ?? null, 'changed: the newest seal')
    }
  }

  /** Reports entries that were inserted, changed before their seal, or lost their seal. */
  async #checkUnchained(isBackfillDone: boolean): Promise<void> {
    const { tenantId, signal } = this.#options
    for await (const entry of unchainedEntries(this.#client, tenantId)) {
      signal?.throwIfAborted()
      if (this.#broken.length === MAX_REPORTED) return
      const reason = whatIsWrongWith(entry, this.#key, isBackfillDone)
      if (reason === undefined) this.#unsealed += 1
      else this.#report(entry.tenantId ?? NO_TENANT_KEY, entry.id, reason)
    }
  }

  /** Reports fewer seals than were ever made: a chain was rolled back with its end, and may have been sealed again without an entry. */
  async #count(): Promise<void> {
    const { rows } = await this.#client.query(
      `select seals, seals_mac as mac, (select coalesce(sum(seq), 0)::bigint from multitenancy.audit_heads) as "inChains"
       from multitenancy.audit_state`,
    )
    for (const { seals, mac, inChains } of rows) {
      if (!isMac(mac, sealsMac(this.#key, seals)) || inChains > seals) {
        this.#report(NO_TENANT_KEY, null, 'changed: number of all seals')
      } else if (inChains < seals) {
        this.#report(
          NO_TENANT_KEY,
          null,
          `removed: ${seals - inChains} of ${seals} seals, with their traces in the chains`,
        )
      }
    }
  }

  #expect(hash: string): void {
    if (hash !== NO_HASH && hash === this.#options.expect) this.#isExpectedThere = true
  }

  #report(tenantId: string, entryId: string | null, reason: string): void {
    if (this.#broken.length < MAX_REPORTED)
      this.#broken.push({ tenantId: tenantId === NO_TENANT_KEY ? null : tenantId, entryId, reason })
  }
}

const numbers = (from: number, to: number): string => (from === to ? `number ${from}` : `numbers ${from} to ${to}`)
