/**
 * Goes along the chains and says what is not as it was sealed. Everything is read once, in pieces, in the order of the chains; while it
 * runs nothing is dropped by its age.
 *
 *   changed    the entry is there and is not what was sealed in its place
 *   removed    its seal is there, and the entry is not; also what came before a gap in a chain, or after its last seal
 *   inserted   the entry is there, has no seal and waits for none
 *
 * An entry waits for its seal when it is as it was recorded, and the sealer has not looked at it yet.
 */
import { z } from 'zod'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { type Database, type Session, sqlState } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { checkpointMac, digestOf, headMac, isMac, keptFromMac, NO_HASH, sealOf, sealsMac, textOf } from './chain.ts'
import type { MacKey } from './mac.ts'
import type { SealKeyStore } from './seal-key-store.ts'
import { inOurTime, NOBODY } from './tables.ts'
import { unchainedEntries, whatIsWrongWith } from './unchained-entries.ts'
import { READ_AT_ONCE } from './unsealed.ts'

const LOCK_TIMEOUT = '5s'
const LOCK_NOT_AVAILABLE = '55P03'
/** Told one by one; there may be more. */
const MAX_REPORTED = 1_000
/** Shared by those who verify; who drops entries by their age takes it alone. */
export const VERIFY_LOCK = 7_367_228_009

const Broken = z.object({
  tenantId: z.string().nullable(),
  entryId: z.string().nullable().meta({ description: 'Of a gap, the entry behind it' }),
  reason: z.string().meta({ description: 'Begins with `changed`, `removed` or `inserted`' }),
})
type Broken = z.output<typeof Broken>

export const Verification = z
  .object({
    ok: z.boolean(),
    checked: z.int().meta({ description: 'Seals that were looked at' }),
    broken: z.array(Broken).meta({ description: 'The first thousand' }),
  })
  .meta({ id: 'AuditVerification' })
export type Verification = z.output<typeof Verification>

export interface VerifyOptions {
  /** Default: all chains. */
  readonly tenantId?: string | undefined
  /** The hash of an entry, kept elsewhere: it has to be among those that are there. */
  readonly expect?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Told how many seals have been looked at, and how many there were when it began. */
  readonly onProgress?: ((checked: number, total: number) => void) | undefined
}

interface Seal {
  readonly tenantId: string
  readonly seq: number
  readonly entryId: string
  readonly createdAt: Date
  readonly digest: string
  readonly hash: string
  /** Of the entry; null: it is not there. */
  readonly text: string | null
}

/** Where a chain is known to be. */
interface ChainPosition {
  readonly seq: number
  readonly hash: string
}

interface KnownPosition extends ChainPosition {
  readonly mac: string
  /** Of a head. */
  readonly entryId?: string
}

export class Verifier {
  readonly #keyStore: SealKeyStore
  /** One verification of a process at a time: it takes long, and must not take connections from others. */
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
          ? DependencyUnavailable('A month of the audit log is being dropped; ask again in a moment.', { cause: error })
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
  #total = 0
  #isExpectedThere: boolean
  #keptFrom: Date | null = null
  /** Of the chain in hand. */
  #tenantId: string | undefined
  #position: ChainPosition = { seq: 0, hash: NO_HASH }
  /** What the entry in that place comes to; another than its hash when it is broken. */
  #computed = NO_HASH

  constructor(client: Session, key: MacKey, options: VerifyOptions) {
    this.#client = client
    this.#key = key
    this.#options = options
    this.#isExpectedThere = options.expect === undefined
  }

  async along(isBackfillDone: boolean): Promise<void> {
    await this.#readKeptFrom()
    // Heads that were read before anything else: what is sealed meanwhile is beyond them.
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
    // Those that have no seal left.
    for (const tenantId of new Set([...heads.keys(), ...checkpoints.keys()])) {
      this.#begin(tenantId, checkpoints)
      await this.#end(heads)
    }
    await this.#checkUnchained(isBackfillDone)
    if (this.#options.tenantId === undefined) await this.#count()
    if (!this.#isExpectedThere)
      this.#report(this.#options.tenantId ?? NOBODY, null, 'removed: no entry has the expected hash')
  }

  outcome(): Verification {
    return { ok: this.#broken.length === 0, checked: this.#checked, broken: this.#broken }
  }

  async #readKeptFrom(): Promise<void> {
    const { rows } = await this.#client.query(
      'select kept_from as "keptFrom", kept_from_mac as mac from multitenancy.audit_state',
    )
    if (rows.length === 0) return this.#report(NOBODY, null, 'removed: the key of the seals')
    const { keptFrom, mac } = rows[0]
    if (keptFrom === null) return
    if (isMac(mac, keptFromMac(this.#key, keptFrom))) this.#keptFrom = keptFrom
    else this.#report(NOBODY, null, 'changed: from when on entries are kept')
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
           where e.created_at = s.created_at and ${inOurTime('e')} and e.id = s.entry_id and coalesce(e.tenant_id, '${NOBODY}') = s.tenant_id offset 0) e on true
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

  /** Takes the checkpoint from among those. */
  #begin(tenantId: string, checkpoints: Map<string, KnownPosition>): void {
    this.#tenantId = tenantId
    this.#position = { seq: 0, hash: NO_HASH }
    const checkpoint = checkpoints.get(tenantId)
    checkpoints.delete(tenantId)
    if (checkpoint && isMac(checkpoint.mac, checkpointMac(this.#key, tenantId, checkpoint.seq, checkpoint.hash))) {
      this.#position = checkpoint
    } else if (checkpoint) this.#report(tenantId, null, 'changed: where the chain begins')
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
    // What comes behind a gap has lost what it was chained to; it says itself whether its entry is as it was.
    const isSealed = !isNext || computed === hash || after(this.#computed) === hash
    // What was dropped by its age may have been sealed among younger ones.
    const isDropped = isSealed && this.#keptFrom !== null && createdAt < this.#keptFrom
    if (!isSealed) this.#report(tenantId, entryId, 'changed')
    else if (text === null && !isDropped) this.#report(tenantId, entryId, 'removed')
    else if (text !== null && digestOf(text) !== digest) this.#report(tenantId, entryId, 'changed')
    this.#position = { seq, hash }
    this.#computed = computed
  }

  /** Takes the head from among those. */
  async #end(heads: Map<string, KnownPosition>): Promise<void> {
    const tenantId = this.#tenantId
    if (tenantId === undefined) return
    this.#tenantId = undefined
    const known = heads.get(tenantId)
    heads.delete(tenantId)
    // A chain that began after the heads were read has one by now.
    const head = known ?? (await this.#positions('audit_heads', tenantId)).get(tenantId)
    if (!head) return this.#report(tenantId, null, 'removed: where the chain ends')
    if (!isMac(head.mac, headMac(this.#key, tenantId, head.seq, head.hash)))
      return this.#report(tenantId, null, 'changed: where the chain ends')
    const { seq, hash } = this.#position
    if (known && known.seq > seq) {
      this.#report(tenantId, known.entryId ?? null, `removed: ${numbers(seq + 1, known.seq)} of the chain, its newest`)
    } else if (known && known.seq === seq && known.hash !== hash) {
      this.#report(tenantId, known.entryId ?? null, 'changed: the newest seal')
    }
  }

  /** Inserted by somebody else, changed before it was sealed, or robbed of its seal. */
  async #checkUnchained(isBackfillDone: boolean): Promise<void> {
    const { tenantId, signal } = this.#options
    for await (const entry of unchainedEntries(this.#client, tenantId)) {
      signal?.throwIfAborted()
      if (this.#broken.length === MAX_REPORTED) return
      const reason = whatIsWrongWith(entry, this.#key, isBackfillDone)
      if (reason !== undefined) this.#report(entry.tenantId ?? NOBODY, entry.id, reason)
    }
  }

  /** Fewer than were ever made: a chain was taken back, its head included, and may have been sealed anew without some entry. */
  async #count(): Promise<void> {
    const { rows } = await this.#client.query(
      `select seals, seals_mac as mac, (select coalesce(sum(seq), 0)::bigint from multitenancy.audit_heads) as "inChains"
       from multitenancy.audit_state`,
    )
    for (const { seals, mac, inChains } of rows) {
      if (!isMac(mac, sealsMac(this.#key, seals)) || inChains > seals) {
        this.#report(NOBODY, null, 'changed: how many seals were made')
      } else if (inChains < seals) {
        this.#report(NOBODY, null, `removed: ${seals - inChains} of ${seals} seals, with all that chains know of them`)
      }
    }
  }

  #expect(hash: string): void {
    if (hash !== NO_HASH && hash === this.#options.expect) this.#isExpectedThere = true
  }

  #report(tenantId: string, entryId: string | null, reason: string): void {
    if (this.#broken.length < MAX_REPORTED)
      this.#broken.push({ tenantId: tenantId === NOBODY ? null : tenantId, entryId, reason })
  }
}

const numbers = (from: number, to: number): string => (from === to ? `number ${from}` : `numbers ${from} to ${to}`)
