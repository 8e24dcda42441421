/**
 * Keeps the monthly partitions of entries: creates future ones, and drops whole months past their retention.
 *
 * - Partitions are by the time of the change. Entries without a partition are in the default one, and move when their month is created.
 * - A month is dropped when all its entries are sealed: it is detached, checkpoints record the new starts of the chains, then it is dropped.
 * - Each step is one transaction that reads the present state, with retries on locks. Nothing is dropped during a verification, nor a
 *   month that an operator has detached.
 */
import { sqlState } from '../../kernel/database/database.ts'
import { LOCK_TIMEOUT_MS, type RetryOptions, retryOnLock } from '../../kernel/database/lock-retry.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { checkpointMac, isMac, keptFromMac, NO_HASH, sealOf } from './chain.ts'
import type { MacKey } from './mac.ts'
import { isAhead } from './model/seal-watermark.ts'
import type { SealKeyStore } from './seal-key-store.ts'
import { SEAL_LOCK } from './sealer.ts'
import { VERIFY_LOCK } from './verification.ts'

const DAY_MS = 86_400_000
/** Months after the present one. */
const AHEAD = 2
const SEALS_AT_ONCE = 10_000
/** SQLSTATE if the default partition has rows of the new one. */
const IN_THE_DEFAULT = '23514'

export interface KeptMonths {
  readonly made: number
  readonly dropped: number
  /** False if a lock, a verification or an unsealed entry delays a step; the next run continues. */
  readonly isComplete: boolean
}

export class Months {
  readonly #kernel: Kernel
  readonly #keyStore: SealKeyStore
  readonly #retentionDays: number | undefined

  /** @param retentionDays undefined: entries are kept without a limit */
  constructor(kernel: Kernel, keyStore: SealKeyStore, retentionDays: number | undefined) {
    this.#kernel = kernel
    this.#keyStore = keyStore
    this.#retentionDays = retentionDays
  }

  /** Creates future months, and drops months past their retention. */
  async keep(retry?: RetryOptions): Promise<KeptMonths> {
    const key = await this.#keyStore.key()
    const done = { made: 0, dropped: 0 }
    const isComplete = await retryOnLock(async () => {
      let areMade = true
      for (const month of await this.missing()) {
        if (await this.#alone(() => this.#make(month))) done.made += 1
        else areMade = false
      }
      while (await this.#oldest()) {
        if (!(await this.#alone(() => this.#detach(key)))) return false
      }
      while ((await this.#detached(key)).length > 0) {
        if (!(await this.#alone(() => this.#drop(key)))) return false
        done.dropped += 1
      }
      return areMade
    }, retry)
    if (isComplete === undefined) {
      this.#kernel.log.info('the audit log was locked; its months are kept at the next run')
    }
    return { ...done, isComplete: isComplete ?? false }
  }

  /** The present month and future ones without a partition. */
  async missing(): Promise<Date[]> {
    const known = new Set((await this.#known()).map((month) => month.getTime()))
    const now = this.#kernel.clock.now()
    return Array.from({ length: AHEAD + 1 }, (_, index) => monthsAfter(now, index)).filter(
      (month) => !known.has(month.getTime()),
    )
  }

  /** First days of the existing months, the oldest first. */
  async #known(): Promise<Date[]> {
    const { rows } = await this.#kernel.database.sql(
      `select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
       where inhparent = 'multitenancy.audit_entries'::regclass and relname ~ '^audit_entries_[0-9]{6}$' order by relname`,
    )
    return rows.map(({ relname }) => monthOf(relname))
  }

  async #oldest(): Promise<Date | undefined> {
    if (this.#retentionDays === undefined) return undefined
    const [oldest] = await this.#known()
    const keptFrom = this.#kernel.clock.now().getTime() - this.#retentionDays * DAY_MS
    return oldest && monthsAfter(oldest, 1).getTime() <= keptFrom ? oldest : undefined
  }

  /** Runs under the lock of the sealer; waits for a running pass. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const { database } = this.#kernel
    return database.transaction(async () => {
      await database.sql(`select set_config('lock_timeout', '${LOCK_TIMEOUT_MS}ms', true)`)
      await database.sql('select pg_advisory_xact_lock($1)', [SEAL_LOCK])
      return work()
    })
  }

  /** False if a detached table has the name of the month. */
  async #make(month: Date): Promise<boolean> {
    const { database, log } = this.#kernel
    if ((await this.#known()).some((known) => known.getTime() === month.getTime())) return true
    const table = nameOf(month)
    if ((await this.#apart()).includes(table)) {
      log.warn({ table }, 'a month of the audit log is detached: attach it, or rename its table')
      return false
    }
    const make = () =>
      this.#makePartition(
        table,
        `for values from ('${month.toISOString()}') to ('${monthsAfter(month, 1).toISOString()}')`,
      )
    try {
      await database.transaction(make)
    } catch (error) {
      if (sqlState(error) !== IN_THE_DEFAULT) throw error
      await this.#remakeDefault(make)
    }
    return true
  }

  /** Replaces the default partition, without entries that belong to a month or are past retention. Tables reject DELETE. */
  async #remakeDefault(meanwhile: () => Promise<void>, keptFrom?: Date): Promise<void> {
    const { database } = this.#kernel
    await database.sql('lock table multitenancy.audit_entries in access exclusive mode')
    await database.sql('alter table multitenancy.audit_entries detach partition multitenancy.audit_entries_others')
    await database.sql('alter table multitenancy.audit_entries_others rename to audit_entries_strays')
    await meanwhile()
    await this.#makePartition('audit_entries_others', 'default')
    await database.sql(
      `insert into multitenancy.audit_entries select * from multitenancy.audit_entries_strays
       where $1::timestamptz is null or created_at >= $1`,
      [keptFrom ?? null],
    )
    await database.sql('drop table multitenancy.audit_entries_strays')
  }

  async #makePartition(name: string, bounds: string): Promise<void> {
    await this.#kernel.database.sql('select multitenancy.create_audit_partition($1, $2)', [name, bounds])
  }

  /** Detaches the oldest month and records the retention time. False if it has to wait. */
  async #detach(key: MacKey): Promise<boolean> {
    const { database, log } = this.#kernel
    const month = await this.#oldest()
    if (!month) return true
    const keptFrom = monthsAfter(month, 1)
    const { rows } = await database.sql(
      `select pg_try_advisory_xact_lock(${VERIFY_LOCK}) as "isFree", exists (
         select from multitenancy.audit_entries e where e.created_at < $1 and ${isAhead('e')}
           and not exists (select from multitenancy.audit_seals s where s.entry_id = e.id)) as "isUnsealed"`,
      [keptFrom],
    )
    const [{ isFree, isUnsealed }] = rows as [{ isFree: boolean; isUnsealed: boolean }]
    if (isUnsealed) log.warn({ keptFrom }, 'a month of the audit log is kept: some of its entries are not sealed')
    if (!isFree || isUnsealed) return false
    await database.sql(`alter table multitenancy.audit_entries detach partition multitenancy.${nameOf(month)}`)
    await database.sql('update multitenancy.audit_state set kept_from = $1, kept_from_mac = $2', [
      keptFrom,
      keptFromMac(key, keptFrom),
    ])
    const { rows: unpartitioned } = await database.sql(
      'select from multitenancy.audit_entries_others where created_at < $1 limit 1',
      [keptFrom],
    )
    if (unpartitioned.length > 0) await this.#remakeDefault(async () => undefined, keptFrom)
    return true
  }

  /** Tables of months that are not attached. */
  async #apart(): Promise<string[]> {
    const { rows } = await this.#kernel.database.sql(
      `select relname from pg_class where relnamespace = 'multitenancy'::regnamespace and relkind = 'r' and not relispartition
         and relname ~ '^audit_entries_[0-9]{6}$' order by relname`,
    )
    return rows.map(({ relname }) => relname)
  }

  /** Tables that were detached by retention. */
  async #detached(key: MacKey): Promise<string[]> {
    const keptFrom = await this.#keptFrom(key)
    return (await this.#apart()).filter((table) => keptFrom && monthsAfter(monthOf(table), 1) <= keptFrom)
  }

  /** Undefined if no month was dropped, or if the stored time was altered. */
  async #keptFrom(key: MacKey): Promise<Date | undefined> {
    const { rows } = await this.#kernel.database.sql(
      'select kept_from as "keptFrom", kept_from_mac as mac from multitenancy.audit_state',
    )
    const { keptFrom, mac } = rows[0]
    return keptFrom && isMac(mac, keptFromMac(key, keptFrom)) ? keptFrom : undefined
  }

  /** False if it has to wait: a verification must not read checkpoints and seals of different times. */
  async #drop(key: MacKey): Promise<boolean> {
    const { database, log } = this.#kernel
    const { rows } = await database.sql(`select pg_try_advisory_xact_lock(${VERIFY_LOCK}) as "isFree"`)
    if (!rows[0].isFree) return false
    const keptFrom = await this.#keptFrom(key)
    const [table] = await this.#detached(key)
    if (!keptFrom || !table) return true
    await this.#checkpoint(keptFrom, key)
    await database.sql(`drop table multitenancy.${table}`)
    log.info({ table }, 'a month of the audit log past its retention was dropped')
    return true
  }

  /** Whether the dropped entries match their seals; afterwards a checkpoint replaces them. */
  async #isWhole(tenantId: string, until: number, keptFrom: Date, key: MacKey): Promise<boolean> {
    const { database } = this.#kernel
    const { rows: checkpoints } = await database.sql(
      'select seq::float8 as seq, hash, mac from multitenancy.audit_checkpoints where tenant_id = $1',
      [tenantId],
    )
    const [begin = { seq: 0, hash: NO_HASH }] = checkpoints
    if (checkpoints.length > 0 && !isMac(begin.mac, checkpointMac(key, tenantId, begin.seq, begin.hash))) return false
    for (let { seq, hash } = begin; seq < until; ) {
      const { rows } = await database.sql(
        `select seq::float8 as seq, entry_id as "entryId", created_at as "createdAt", digest, hash
         from multitenancy.audit_seals where tenant_id = $1 and seq > $2 and seq <= $3 order by seq limit ${SEALS_AT_ONCE}`,
        [tenantId, seq, until],
      )
      if (rows.length === 0) return false
      for (const { hash: found, ...seal } of rows) {
        if (seal.seq !== seq + 1 || !(seal.createdAt < keptFrom)) return false
        if (!isMac(found, sealOf(key, { ...seal, tenantId, before: hash }))) return false
        seq = seal.seq
        hash = found
      }
    }
    return true
  }

  /** Starts each intact chain after its dropped entries. A seal among later ones stays, without its entry. */
  async #checkpoint(keptFrom: Date, key: MacKey): Promise<void> {
    const { database, log } = this.#kernel
    for (let after = ''; ; ) {
      const { rows } = await database.sql(
        `with chains as (
           select tenant_id, coalesce(min(seq) filter (where created_at >= $1) - 1, max(seq)) as seq
           from multitenancy.audit_seals where tenant_id > $2 group by 1 order by 1 limit ${SEALS_AT_ONCE})
         select c.tenant_id as "tenantId", c.seq::float8 as seq, s.hash
         from chains c left join multitenancy.audit_seals s on s.tenant_id = c.tenant_id and s.seq = c.seq order by 1`,
        [keptFrom, after],
      )
      const started: { tenantId: string; seq: number; hash: string }[] = []
      for (const chain of rows) {
        if (chain.hash === null) continue
        if (await this.#isWhole(chain.tenantId, chain.seq, keptFrom, key)) started.push(chain)
        else
          log.error(
            { tenantId: chain.tenantId },
            'a chain of the audit log does not match its seals; its seals are kept',
          )
      }
      await database.sql(
        `with checkpoint as (
           insert into multitenancy.audit_checkpoints (tenant_id, seq, hash, mac)
           select * from unnest($1::text[], $2::bigint[], $3::text[], $4::text[])
           on conflict (tenant_id) do update set seq = excluded.seq, hash = excluded.hash, mac = excluded.mac)
         delete from multitenancy.audit_seals s using unnest($1::text[], $2::bigint[]) c(tenant_id, seq)
         where s.tenant_id = c.tenant_id and s.seq <= c.seq`,
        [
          started.map(({ tenantId }) => tenantId),
          started.map(({ seq }) => seq),
          started.map(({ hash }) => hash),
          started.map(({ tenantId, seq, hash }) => checkpointMac(key, tenantId, seq, hash)),
        ],
      )
      if (rows.length < SEALS_AT_ONCE) return
      after = rows.at(-1).tenantId
    }
  }
}

/** Midnight UTC of the first day. */
const monthsAfter = (date: Date, months: number): Date =>
  new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months, 1))

const nameOf = (month: Date): string => `audit_entries_${month.toISOString().slice(0, 7).replace('-', '')}`

const monthOf = (name: string): Date => new Date(Date.UTC(Number(name.slice(-6, -2)), Number(name.slice(-2)) - 1, 1))
