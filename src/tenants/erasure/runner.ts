/**
 * Carries out one attempt of an erasure, under a lease.
 *
 *   for all systems: search ─► record
 *   for each:        remove ─► record
 *   for all:         search again ─► nothing left ─► report, signature, event, in one transaction
 *                          └── something left: remove again
 *
 * - Each removal is idempotent, so a killed attempt is repeated from the step that it has not recorded. `found` is recorded before the
 *   first removal: a repetition does not change it.
 * - A failure of one system does not delay the removal in others, but that of the rows, which a repetition needs.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { repeat } from '../../kernel/base/repeat.ts'
import { type ErasureSubject, inSystem, SystemUnavailable } from '../../kernel/erasable.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import {
  AttemptLost,
  createLease,
  expired,
  type Lease,
  leasedUntil,
  RENEWALS_PER_LEASE,
} from '../../kernel/jobs/lease.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Registry } from '../registry/registry.ts'
import { TenantErased } from '../tenant/events.ts'
import { expiringCopies, remaining, reportOf, type Searched } from './report.ts'
import { BACKOFFICE, type System } from './systems.ts'
import { COLUMNS, type ErasureRow, type SigningKey, type StepRecord, TABLE } from './tables.ts'

const LEASE_MS = 15_000
/** Late writes of other processes and of jobs in progress reach a system after its removal. */
const SEARCHES = 5
const SEARCH_AGAIN_MS = 200

export interface RunnerDependencies {
  readonly kernel: Kernel
  readonly registry: Registry
  readonly systems: readonly System[]
  readonly serverBackupsDays: number
  readonly sign: (text: string) => Promise<{ readonly value: string; readonly key: SigningKey }>
}

export interface WorkOptions {
  readonly signal: AbortSignal
  /** Time without a renewal after which another worker may continue; default 15,000. */
  readonly leaseMs?: number | undefined
  /** Called after each recorded step. */
  readonly onStep?: ((name: string, state: 'found' | 'removed' | 'proved') => unknown) | undefined
}

/** No effect if the erasure is completed, or another worker holds it. Records the system that it waits for. */
export async function work(dependencies: RunnerDependencies, tenantId: string, options: WorkOptions): Promise<void> {
  const { database, log } = dependencies.kernel
  const { leaseMs = LEASE_MS } = options
  const lease = createLease(database, { table: TABLE, group: 'tenant_id', row: 'tenant_id' }, tenantId, leaseMs)
  const row = await claim(dependencies.kernel, tenantId, lease.worker, leaseMs)
  if (!row) return
  const lost = new AbortController()
  const signal = AbortSignal.any([options.signal, lost.signal])
  const stop = repeat(
    async () => {
      if (!(await lease.renew())) lost.abort(new AttemptLost(`The erasure of ${tenantId} has another worker.`))
    },
    leaseMs / RENEWALS_PER_LEASE,
    (error) => log.warn({ err: error, tenantId }, 'could not renew the lease of an erasure'),
  )
  try {
    await new Attempt(dependencies, row, lease, { ...options, signal }).run()
  } catch (error) {
    if (lost.signal.aborted || error instanceof AttemptLost) return
    if (options.signal.aborted) return void (await lease.update(`state = 'pending', worker = null`))
    const waitingFor = error instanceof SystemUnavailable ? error.system : 'an unexpected error, which the log has'
    await lease.update(`state = 'pending', worker = null, waiting_for = $3`, [waitingFor])
    log.warn({ err: error, tenantId, waitingFor }, 'the erasure of a tenant waits; retry in one minute')
  } finally {
    await stop()
  }
}

async function claim(
  { database }: Kernel,
  id: string,
  worker: string,
  leaseMs: number,
): Promise<ErasureRow | undefined> {
  const { rows } = await database.sql(
    `update ${TABLE} set state = 'running', worker = $2, lease_until = ${leasedUntil('$3')}
     where tenant_id = $1 and (state = 'pending' or ${expired('erasures')}) returning ${COLUMNS}`,
    [id, worker, leaseMs],
  )
  return rows[0]
}

/** The rows name the storage, the archives and the customer: they are removed last. */
const needsAllBefore = ({ name, isAfterRows }: System): boolean => name === BACKOFFICE || isAfterRows === true

class Attempt {
  readonly #dependencies: RunnerDependencies
  readonly #row: ErasureRow
  readonly #lease: Lease
  readonly #options: WorkOptions
  readonly #steps: Record<string, StepRecord>

  constructor(dependencies: RunnerDependencies, row: ErasureRow, lease: Lease, options: WorkOptions) {
    this.#dependencies = dependencies
    this.#row = row
    this.#lease = lease
    this.#options = options
    this.#steps = { ...row.steps }
  }

  async run(): Promise<void> {
    const { systems } = this.#dependencies
    const failures: unknown[] = []
    const attempt = async (work: () => Promise<void>) => {
      try {
        await work()
      } catch (error) {
        this.#options.signal.throwIfAborted()
        if (error instanceof AttemptLost) throw error
        failures.push(error)
      }
    }
    for (const [position, system] of systems.entries()) await attempt(() => this.#search(system, position))
    for (const system of systems) {
      if (needsAllBefore(system) && failures.length > 0) break
      if (this.#steps[system.name]) await attempt(() => this.#remove(system))
    }
    if (failures.length > 0) throw failures[0]
    await this.#complete(await this.#proof())
  }

  /** Records the found data before the first removal. */
  async #search({ name, find }: System, position: number): Promise<void> {
    if (this.#steps[name]) return
    this.#options.signal.throwIfAborted()
    const found = await inSystem(name, () => find(this.#subject(name)))
    await this.#record(name, { position, startedAt: this.#now(), found }, 'found')
  }

  async #remove({ name, remove }: System): Promise<void> {
    const step = this.#steps[name]
    if (!step || step.finishedAt) return
    this.#options.signal.throwIfAborted()
    await inSystem(name, async () => remove?.(this.#subject(name)))
    await this.#record(name, { ...step, finishedAt: this.#now() }, 'removed')
  }

  /** Searches all systems again, and removes data written since. */
  async #proof(): Promise<Searched[]> {
    for (let search = 1; ; search++) {
      const after: Searched[] = []
      const left: System[] = []
      let first: string | undefined
      for (const system of this.#dependencies.systems) {
        this.#options.signal.throwIfAborted()
        const found = await inSystem(system.name, () => system.find(this.#subject(system.name)))
        after.push({ system: system.name, found })
        const [rest] = remaining(found)
        if (!rest) continue
        left.push(system)
        first ??= `the removal of ${rest.kind} (${system.name})`
      }
      if (first === undefined) return after
      if (search === SEARCHES) throw new SystemUnavailable(first, undefined)
      await sleep(SEARCH_AGAIN_MS, undefined, { signal: this.#options.signal })
      for (const system of left) await inSystem(system.name, async () => system.remove?.(this.#subject(system.name)))
    }
  }

  async #complete(after: readonly Searched[]): Promise<void> {
    const { kernel, registry, systems, serverBackupsDays, sign } = this.#dependencies
    const { database, events, clock } = kernel
    const { tenantId } = this.#row
    const now = clock.now()
    const expires = [...expiringCopies(now, serverBackupsDays), ...systems.flatMap((one) => one.expires?.(now) ?? [])]
    const clones = await clonesOf(kernel, tenantId)
    const report = reportOf({ row: this.#row, before: this.#steps, after, expires, clones, now })
    const text = JSON.stringify(report)
    const { value, key } = await sign(text)
    await database.transaction(async () => {
      const isCompleted = await this.#lease.update(
        `state = 'completed', worker = null, waiting_for = null, report = $3, signature = $4, signed_with = $5, finished_at = $6,
         steps = $7`,
        [text, value, key, now, JSON.stringify(withoutReferences(this.#steps))],
      )
      if (!isCompleted) throw this.#lost()
      await registry.changed(tenantId)
      const kept = report.systems.reduce((sum, { foundAfterwards }) => sum + foundAfterwards, 0)
      const target = `tenant:${tenantId}`
      await recordChange(events, { action: 'erasures.complete', tenantId, target, after: { kept, signature: value } })
      await events.publish(TenantErased, { tenantId, kept })
    })
    this.#options.onStep?.('proof', 'proved')
  }

  async #record(name: string, step: StepRecord, state: 'found' | 'removed'): Promise<void> {
    const isRecorded = await this.#lease.update('steps = work.steps || jsonb_build_object($3::text, $4::jsonb)', [
      name,
      JSON.stringify(step),
    ])
    if (!isRecorded) throw this.#lost()
    this.#steps[name] = step
    this.#options.onStep?.(name, state)
  }

  #subject(system: string): ErasureSubject {
    const { tenantId, billing } = this.#row
    const references = this.#steps[system]?.found.flatMap((one) => one.references ?? []) ?? []
    return { tenantId, billing, references }
  }

  #now(): string {
    return this.#dependencies.kernel.clock.now().toISOString()
  }

  #lost(): AttemptLost {
    return new AttemptLost(`The erasure of ${this.#row.tenantId} has another worker.`)
  }
}

const withoutReferences = (steps: Readonly<Record<string, StepRecord>>): Record<string, StepRecord> =>
  Object.fromEntries(
    Object.entries(steps).map(([name, step]) => [
      name,
      { ...step, found: step.found.map(({ references: _, ...found }) => found) },
    ]),
  )

/** Tenants with a copy of the data: the erasure of one does not erase the others. */
async function clonesOf({ database }: Kernel, tenantId: string): Promise<string[]> {
  const { rows } = await database.sql(
    `select distinct c.tenant_id as id from multitenancy.transfers c join multitenancy.tenants t on t.id = c.tenant_id
     where c.source_id = $1 and c.kind = 'clone' and c.state = 'completed' and t.purged_at is null order by 1`,
    [tenantId],
  )
  return rows.map(({ id }) => id)
}
