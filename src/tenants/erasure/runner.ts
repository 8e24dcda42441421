/**
 * Carries out one attempt of an erasure, under a lease.
 *
 *   all systems: search ─► record
 *   remove ─► record: placements, store, archives, … ─► rows ─► jobs, deliveries, audit keys
 *   all systems: search again ─► nothing left ─► report, signature, event, in one transaction
 *                            └── something left: remove again
 *
 * - The systems of one line, or of one stage of the removal, do not depend on each other: they are worked on concurrently.
 * - Each removal is idempotent, so a killed attempt is repeated from the steps that it has not recorded. `found` is recorded before the
 *   first removal: a repetition does not change it. Rows of shared tables are counted by their deletion, and recorded before its commit:
 *   they are read once. A repetition after a failure finds all of them again, or those that were written since: the larger number
 *   counts. Numbers of removals that have succeeded are added.
 * - A failure of one system does not delay the removal in others, but that of the rows, which a repetition needs.
 * - The last search also finds data that a removal has written to another system, such as relayed entries of the outbox.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { forEachConcurrent } from '../../kernel/base/concurrency.ts'
import { repeat } from '../../kernel/base/repeat.ts'
import { type ErasureSubject, type FoundData, inSystem, SystemUnavailable } from '../../kernel/erasable.ts'
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

/** Each may use a connection of the backoffice. Most systems take less time than a new connection. */
const CONCURRENT_SYSTEMS = 3

export interface RunnerDependencies {
  readonly kernel: Kernel
  readonly registry: Registry
  readonly systems: readonly System[]
  readonly serverBackupsDays: number
  readonly sign: (text: string) => Promise<{ readonly value: string; readonly key: SigningKey }>
}

/** `counted`: the removal has counted data, and is not committed. */
export type StepState = 'found' | 'counted' | 'removed' | 'proved'

export interface WorkOptions {
  readonly signal: AbortSignal
  /** Time without a renewal after which another worker may continue; default 15,000. */
  readonly leaseMs?: number | undefined
  /** Called after each recorded step, which it delays. */
  readonly onStep?: ((name: string, state: StepState) => unknown) | undefined
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
    if (lost.signal.aborted || isLost(error)) return
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
const STAGES: readonly ((system: System) => boolean)[] = [
  ({ name, isAfterRows }) => name !== BACKOFFICE && !isAfterRows,
  ({ name }) => name === BACKOFFICE,
  ({ isAfterRows }) => isAfterRows === true,
]

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
    const failures = await this.#search()
    for (const isInStage of STAGES) {
      const systems = this.#dependencies.systems.filter((system) => isInStage(system) && this.#steps[system.name])
      failures.push(...(await this.#concurrently(systems, (system) => this.#remove(system))))
      if (failures.length > 0) throw failures[0]
    }
    await this.#complete(await this.#proof())
  }

  /** Waits for all. Returns the failures; throws if the attempt has ended. */
  async #concurrently(systems: readonly System[], work: (system: System) => Promise<void>): Promise<unknown[]> {
    const failures: unknown[] = []
    const { signal } = this.#options
    await forEachConcurrent(
      systems,
      CONCURRENT_SYSTEMS,
      (system) => work(system).catch((failure) => void failures.push(failure)),
      signal,
    )
    signal.throwIfAborted()
    const lost = failures.find(isLost)
    if (lost) throw lost
    return failures
  }

  /** Records the found data of all systems before the first removal. */
  async #search(): Promise<unknown[]> {
    const { systems } = this.#dependencies
    const found: Record<string, StepRecord> = {}
    const failures = await this.#concurrently(systems, async (system) => {
      const { name, find } = system
      if (this.#steps[name]) return
      const startedAt = this.#now()
      const data = await inSystem(name, () => find(this.#subject(name), { beforeRemoval: true }))
      found[name] = { position: systems.indexOf(system), startedAt, found: data }
    })
    if (Object.keys(found).length > 0) await this.#record(found, 'found')
    return failures
  }

  async #remove({ name, remove }: System): Promise<void> {
    const step = this.#steps[name]
    if (!step || step.finishedAt) return
    await this.#removeFrom({ name, remove })
    const removed = withCommitted(this.#steps[name] ?? step)
    await this.#record({ [name]: { ...removed, finishedAt: this.#now() } }, 'removed')
  }

  #removeFrom({ name, remove }: Pick<System, 'name' | 'remove'>): Promise<void> {
    const counted = async (found: readonly FoundData[]) => {
      const step = this.#steps[name]
      if (!step || found.length === 0) return
      await this.#record({ [name]: { ...step, counted: withLargest(step.counted ?? [], found) } }, 'counted')
    }
    return inSystem(name, async () => remove?.(this.#subject(name), counted))
  }

  async #removeAgain(system: System): Promise<void> {
    await this.#removeFrom(system)
    const step = this.#steps[system.name]
    if (step?.counted) await this.#record({ [system.name]: withCommitted(step) }, 'removed')
  }

  /** Searches all systems again, and removes data written since. */
  async #proof(): Promise<Searched[]> {
    const { systems } = this.#dependencies
    for (let search = 1; ; search++) {
      const after = new Map<System, readonly FoundData[]>()
      const find = async (system: System) => {
        after.set(system, await inSystem(system.name, () => system.find(this.#subject(system.name))))
      }
      assertNone(await this.#concurrently(systems, find))
      const searched = systems.map((system) => ({ system: system.name, found: after.get(system) ?? [] }))
      const left = searched.flatMap(({ system, found }) => remaining(found).map(({ kind }) => `${kind} (${system})`))
      if (left.length === 0) return searched
      if (search === SEARCHES) throw new SystemUnavailable(`the removal of ${left[0]}`, undefined)
      await sleep(SEARCH_AGAIN_MS, undefined, { signal: this.#options.signal })
      assertNone(
        await this.#concurrently(
          systems.filter((one) => remaining(after.get(one) ?? []).length > 0),
          (system) => this.#removeAgain(system),
        ),
      )
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
    await this.#options.onStep?.('proof', 'proved')
  }

  async #record(steps: Readonly<Record<string, StepRecord>>, state: Exclude<StepState, 'proved'>): Promise<void> {
    if (!(await this.#lease.update('steps = work.steps || $3::jsonb', [JSON.stringify(steps)]))) throw this.#lost()
    Object.assign(this.#steps, steps)
    for (const name of Object.keys(steps)) await this.#options.onStep?.(name, state)
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

function assertNone(failures: readonly unknown[]): void {
  if (failures.length > 0) throw failures[0]
}

/** By kind: after a rollback, a repeated removal counts the same data again. */
function withLargest(before: readonly FoundData[], now: readonly FoundData[]): FoundData[] {
  const counted = new Map(before.map((one) => [one.kind, one]))
  for (const one of now) if (one.count > (counted.get(one.kind)?.count ?? 0)) counted.set(one.kind, one)
  return [...counted.values()]
}

/** After a removal, its numbers are final: a later one finds other data. */
const withCommitted = ({ counted = [], ...step }: StepRecord): StepRecord => ({
  ...step,
  found: [...step.found, ...counted],
})

const isLost = (error: unknown): boolean =>
  error instanceof AttemptLost || (error instanceof SystemUnavailable && error.cause instanceof AttemptLost)

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
