/**
 * Seals recorded entries in batches, outside of their transactions. One process seals at a time.
 *
 * - Seals, ends of chains and the number of seals change in one transaction, so an entry is sealed once.
 * - Changed or inserted entries are never sealed; the verification reports them. The altered end of a chain stays altered: sealing
 *   continues without a valid HMAC.
 */
import type { Kernel } from '../../kernel/kernel.ts'
import { digestOf, headMac, isMac, NO_HASH, sealOf, sealsMac } from './chain.ts'
import type { MacKey } from './mac.ts'
import { advanceWatermark, type Pass, startPass } from './model/seal-watermark.ts'
import { NO_TENANT_KEY } from './model/tables.ts'
import type { SealKeyStore } from './seal-key-store.ts'
import { FIRST, isGenuine, type Position, READ_AT_ONCE, type Unsealed, unsealedAfter } from './unsealed.ts'

/** Arbitrary constant. Sealers and retention hold this lock. */
export const SEAL_LOCK = 7_367_228_008

interface Head {
  seq: number
  entryId: string
  hash: string
  /** False: the end of the chain was altered. */
  isOurs: boolean
}

/** HMAC of an altered end. */
const NO_MAC = ''

export class Sealer {
  readonly #kernel: Kernel
  readonly #keyStore: SealKeyStore
  readonly #readAtOnce: number

  constructor(kernel: Kernel, keyStore: SealKeyStore, readAtOnce = READ_AT_ONCE) {
    this.#kernel = kernel
    this.#keyStore = keyStore
    this.#readAtOnce = readAtOnce
  }

  /** Seals all entries that exist at its start, unless another process seals. Returns their number. */
  async seal(signal?: AbortSignal): Promise<number> {
    const key = await this.#keyStore.key()
    const isBackfillDone = await this.#keyStore.isBackfillDone()
    const pass = await startPass(this.#kernel.database)
    let sealed = 0
    for (let after: Position | undefined = FIRST; after; ) {
      if (signal?.aborted) return sealed
      const from: Position = after
      const some = await this.#kernel.database.transaction(() => this.#sealSome(key, isBackfillDone, pass, from))
      if (!some) return sealed
      sealed += some.sealed
      after = some.next
    }
    if (!isBackfillDone) await this.#keyStore.completeBackfill()
    return sealed
  }

  /** Undefined if another process seals; no `next` after the last batch. */
  async #sealSome(
    key: MacKey,
    isBackfillDone: boolean,
    pass: Pass,
    after: Position,
  ): Promise<{ sealed: number; next: Position | undefined } | undefined> {
    const { database } = this.#kernel
    const { rows: locks } = await database.sql('select pg_try_advisory_xact_lock($1) as is_ours', [SEAL_LOCK])
    if (!locks[0].is_ours) return undefined
    const unsealed = await unsealedAfter(database, pass, after, this.#readAtOnce)
    const seen = new Set<string>()
    const genuine = unsealed.filter((one) => {
      if (seen.has(one.id) || !isGenuine(key, isBackfillDone, one)) return false
      seen.add(one.id)
      return true
    })
    if (genuine.length > 0) await this.#write(key, genuine)
    const next = unsealed.length === this.#readAtOnce ? unsealed.at(-1) : undefined
    if (!next) await advanceWatermark(database, pass)
    return { sealed: genuine.length, next }
  }

  async #write(key: MacKey, entries: readonly Unsealed[]): Promise<void> {
    const { database } = this.#kernel
    const tenantOf = ({ tenantId }: Unsealed) => tenantId ?? NO_TENANT_KEY
    const heads = await this.#heads(key, [...new Set(entries.map(tenantOf))])
    const seals = entries.map((entry) => {
      const tenantId = tenantOf(entry)
      const { seq, hash: before, isOurs } = heads.get(tenantId) ?? { seq: 0, hash: NO_HASH, isOurs: true }
      const { id: entryId, createdAt, text } = entry
      const link = { tenantId, seq: seq + 1, before, entryId, createdAt, digest: digestOf(text) }
      const seal = { ...link, hash: sealOf(key, link) }
      heads.set(tenantId, { ...seal, isOurs })
      return seal
    })
    await database.sql(
      `insert into multitenancy.audit_seals (tenant_id, seq, entry_id, created_at, digest, hash)
       select * from unnest($1::text[], $2::bigint[], $3::uuid[], $4::timestamptz[], $5::text[], $6::text[])`,
      [
        seals.map(({ tenantId }) => tenantId),
        seals.map(({ seq }) => seq),
        seals.map(({ entryId }) => entryId),
        seals.map(({ createdAt }) => createdAt),
        seals.map(({ digest }) => digest),
        seals.map(({ hash }) => hash),
      ],
    )
    const last = [...heads]
    await database.sql(
      `insert into multitenancy.audit_heads (tenant_id, seq, entry_id, hash, mac)
       select * from unnest($1::text[], $2::bigint[], $3::uuid[], $4::text[], $5::text[])
       on conflict (tenant_id) do update
         set seq = excluded.seq, entry_id = excluded.entry_id, hash = excluded.hash, mac = excluded.mac`,
      [
        last.map(([tenantId]) => tenantId),
        last.map(([, { seq }]) => seq),
        last.map(([, { entryId }]) => entryId),
        last.map(([, { hash }]) => hash),
        last.map(([tenantId, { seq, hash, isOurs }]) => (isOurs ? headMac(key, tenantId, seq, hash) : NO_MAC)),
      ],
    )
    await this.#count(key, seals.length)
  }

  /** An altered number of seals stays unchanged: sealing continues, and the verification reports it. */
  async #count(key: MacKey, more: number): Promise<void> {
    const { database, log } = this.#kernel
    const { rows } = await database.sql('select seals, seals_mac as mac from multitenancy.audit_state')
    const { seals, mac } = rows[0]
    if (!isMac(mac, sealsMac(key, seals))) {
      return log.error('the number of seals of the audit log was altered: run tenantry tenant:audit:verify')
    }
    const sum = seals + more
    await database.sql('update multitenancy.audit_state set seals = $1, seals_mac = $2', [sum, sealsMac(key, sum)])
  }

  /** Without an end, a chain continues after its last seal or its checkpoint, and the verification reports the missing end. */
  async #heads(key: MacKey, tenantIds: readonly string[]): Promise<Map<string, Head>> {
    const { database, log } = this.#kernel
    const { rows } = await database.sql(
      `select tenant_id as "tenantId", seq::float8 as seq, entry_id as "entryId", hash, mac from (
         select tenant_id, seq, entry_id, hash, mac from multitenancy.audit_heads where tenant_id = any($1)
         union all
         select s.* from unnest($1::text[]) those(id) cross join lateral (
           select tenant_id, seq, entry_id, hash, null from multitenancy.audit_seals where tenant_id = those.id order by seq desc limit 1) s
         union all
         select tenant_id, seq, null, hash, null from multitenancy.audit_checkpoints where tenant_id = any($1)) known
       order by tenant_id, seq, mac nulls first`,
      [tenantIds],
    )
    const heads = new Map<string, Head>()
    for (const { tenantId, seq, entryId, hash, mac } of rows) {
      const isOurs = isMac(mac, headMac(key, tenantId, seq, hash)) || heads.get(tenantId)?.isOurs === true
      heads.set(tenantId, { seq, entryId, hash, isOurs })
    }
    for (const [tenantId, { isOurs }] of heads) {
      if (!isOurs)
        log.error({ tenantId }, 'the end of a chain of the audit log was altered: run tenantry tenant:audit:verify')
    }
    return heads
  }
}
