/**
 * Seals what was recorded: off the way of changes, many entries at once, each tenant's in the order of their times. One process seals at
 * a time, the others leave it to that one. An entry is sealed once: what waits, the seals and the heads of the chains change in one
 * transaction.
 *
 * What waits and is not what was recorded (it is gone, changed, or somebody else put it there) is left waiting: the verification names it.
 */
import type { Kernel } from '../../kernel/kernel.ts'
import { digestOf, NO_HASH, sealOf } from './chain.ts'
import type { Keeper } from './keeper.ts'
import { NOBODY } from './tables.ts'
import { FIRST, isGenuine, isSealed, type Position, type Waiting, waitingAfter } from './waiting.ts'

/** Any constant will do; it is ours in every database. Whoever seals or drops entries holds it. */
export const SEAL_LOCK = 7_367_228_008

interface Head {
  seq: number
  entryId: string
  hash: string
}

export class Sealer {
  readonly #kernel: Kernel
  readonly #keeper: Keeper

  constructor(kernel: Kernel, keeper: Keeper) {
    this.#kernel = kernel
    this.#keeper = keeper
  }

  /** Seals until nothing waits, or somebody else does it; answers how many entries that were. */
  async seal(signal?: AbortSignal): Promise<number> {
    const key = await this.#keeper.key()
    const isAdopted = await this.#keeper.isAdopted()
    let sealed = 0
    for (let after: Position | undefined = FIRST; after && !signal?.aborted; ) {
      const from: Position = after
      const some = await this.#kernel.database.transaction(() => this.#sealSome(key, isAdopted, from))
      if (!some) return sealed
      sealed += some.sealed
      after = some.next
    }
    if (!isAdopted && !signal?.aborted) await this.#keeper.adopted()
    return sealed
  }

  /** Undefined when another process is at it; no `next` after the last. */
  async #sealSome(
    key: Buffer,
    isAdopted: boolean,
    after: Position,
  ): Promise<{ sealed: number; next: Position | undefined } | undefined> {
    const { database } = this.#kernel
    const { rows: locks } = await database.sql('select pg_try_advisory_xact_lock($1) as is_ours', [SEAL_LOCK])
    if (!locks[0].is_ours) return undefined
    const { waiting, next } = await waitingAfter((text, values) => database.sql(text, values), after)
    const seen = new Set<string>()
    const genuine = waiting.filter((one) => {
      if (seen.has(one.entryId) || !isGenuine(key, isAdopted, one)) return false
      seen.add(one.entryId)
      return true
    })
    if (genuine.length > 0) await this.#write(key, genuine)
    const done = [...genuine, ...waiting.filter(isSealed)]
    await database.sql(
      `delete from multitenancy.audit_unsealed where (created_at, entry_id) in (select * from unnest($1::timestamptz[], $2::uuid[]))`,
      [done.map(({ createdAt }) => createdAt), done.map(({ entryId }) => entryId)],
    )
    return { sealed: genuine.length, next }
  }

  async #write(key: Buffer, entries: readonly Waiting[]): Promise<void> {
    const { database } = this.#kernel
    const tenantOf = ({ entry }: Waiting) => entry.tenantId ?? NOBODY
    const heads = await this.#heads([...new Set(entries.map(tenantOf))])
    const seals = entries.map((one) => {
      const { entryId, createdAt, text } = one
      const tenantId = tenantOf(one)
      const { seq, hash: before } = heads.get(tenantId) ?? { seq: 0, hash: NO_HASH }
      const digest = digestOf(text ?? '')
      const link = { tenantId, seq: seq + 1, before, entryId, createdAt, digest }
      const seal = { ...link, hash: sealOf(key, link) }
      heads.set(tenantId, seal)
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
      `insert into multitenancy.audit_heads (tenant_id, seq, entry_id, hash)
       select * from unnest($1::text[], $2::bigint[], $3::uuid[], $4::text[])
       on conflict (tenant_id) do update set seq = excluded.seq, entry_id = excluded.entry_id, hash = excluded.hash`,
      [
        last.map(([tenantId]) => tenantId),
        last.map(([, { seq }]) => seq),
        last.map(([, { entryId }]) => entryId),
        last.map(([, { hash }]) => hash),
      ],
    )
  }

  /** Where a head is gone, the last seal there is, or the checkpoint: sealing goes on, and the verification says what is missing. */
  async #heads(tenantIds: readonly string[]): Promise<Map<string, Head>> {
    const { rows } = await this.#kernel.database.sql(
      `select distinct on (tenant_id) tenant_id as "tenantId", seq::float8 as seq, entry_id as "entryId", hash from (
         select tenant_id, seq, entry_id, hash from multitenancy.audit_heads where tenant_id = any($1)
         union all
         select s.* from unnest($1::text[]) those(id) cross join lateral (
           select tenant_id, seq, entry_id, hash from multitenancy.audit_seals where tenant_id = those.id order by seq desc limit 1) s
         union all
         select tenant_id, seq, null, hash from multitenancy.audit_checkpoints where tenant_id = any($1)) known
       order by tenant_id, seq desc`,
      [tenantIds],
    )
    return new Map(rows.map(({ tenantId, seq, entryId, hash }) => [tenantId, { seq, entryId, hash }]))
  }
}
