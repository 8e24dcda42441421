/**
 * Leak fuzzer: tenants with equal keys, more workers than connections, and correct and incorrect host code in a seeded
 * order.
 *
 *   foreign marker    every row names its tenant; no result may contain a row of another tenant
 *   foreign change    between rounds, the server's view of each tenant equals the rows that the workers have written
 *   canary            a statement of the tenants' login without a scope is rejected
 *   liveness          legal operations succeed
 *   clean connection  settings, locks, cursors, statements, temporary tables, role and path are as for the first tenant
 *
 * Written here because property-test libraries do not run concurrent workers on a real server by one seed.
 * The seed fixes the operations of each worker, but not how the workers interleave.
 */
import type { IsolationDriver, StorageLocation } from '../../tenants/isolation/driver.ts'
import { directHandle, directSource } from '../base/direct-handle.ts'
import { seededRandom } from '../base/seeded-random.ts'
import { markOf, type StorageView } from '../base/subject.ts'
import { COMMON_OPERATIONS, type LeakOperation, raw } from './operations.ts'
import { importOperation } from './operations-import.ts'
import { ALL_ITEMS, POSTGRES_OPERATIONS } from './operations-postgres.ts'
import { inspectedInside, itemsOf, Outside, serverOperations } from './operations-server.ts'
import { describeError, type FuzzedTenant, FuzzStep, type Violation } from './step.ts'

const OPERATIONS_PER_ROUND = 1_000
/** Limit of reported violations; the run stops there. */
const MAX_VIOLATIONS = 50

export interface LeakFuzzOptions {
  /** Started with `proofMigrations`. */
  readonly driver: IsolationDriver
  /** Storage of at least two tenants: provisioned and empty. */
  readonly locations: readonly StorageLocation[]
  readonly operations: number
  /** Must be more than the connections of the driver. */
  readonly workers: number
  /** Seed of a reported run to repeat it; default: a new one. */
  readonly seed?: number | undefined
  readonly maxConnections: number
  /** Absent for a driver without a server: rows are then compared through the handles. */
  readonly viewOf?: ((location: StorageLocation) => StorageView) | undefined
  /** Names of operations to leave out, where their checks of connections cannot hold. */
  readonly without?: readonly string[] | undefined
  /** Called after each round with the number of operations so far. */
  readonly onRound?: ((done: number) => void) | undefined
}

export interface LeakReport {
  readonly seed: number
  /** Number of runs by operation. */
  readonly operations: Readonly<Record<string, number>>
  readonly violations: readonly Violation[]
  readonly elapsedMs: number
}

/**
 * Runs the fuzzer and returns its counts and violations. Needs no test runner.
 *
 * @example
 * const { seed, violations } = await leakFuzz({ ...subject, driver, locations, operations: 10_000, workers: 9 })
 * expect(violations, `seed ${seed}`).toEqual([])
 */
export async function leakFuzz(options: LeakFuzzOptions): Promise<LeakReport> {
  const { driver, locations, operations, workers, viewOf, onRound } = options
  const seed = options.seed ?? Math.floor(Math.random() * 2 ** 31)
  const startedAt = performance.now()
  const outside = new Outside()
  const counts: Record<string, number> = {}
  const violations: Violation[] = []
  const note = (violation: Violation) => {
    if (violations.length < MAX_VIOLATIONS) violations.push(violation)
  }
  const tenants: FuzzedTenant[] = locations.map((location) => ({
    handle: directHandle(driver, location),
    source: directSource(driver, location),
    location,
    view: viewOf?.(location),
    rows: Array.from({ length: workers }, () => new Map<number, number>()),
  }))
  const all: LeakOperation[] = [
    ...COMMON_OPERATIONS,
    importOperation(driver.capabilities.engine),
    ...(driver.capabilities.engine === 'postgres' ? POSTGRES_OPERATIONS : []),
    ...(viewOf ? serverOperations(outside) : []),
  ].filter(({ name }) => !options.without?.includes(name))
  const randoms = Array.from({ length: workers }, (_, worker) => seededRandom(seed * 1_009 + worker))
  let left = 0

  const stepOf = (operation: string, worker: number, tenant: FuzzedTenant): FuzzStep => {
    const random = randoms[worker]
    if (!random) throw new Error(`worker ${worker} does not exist`)
    const others = tenants.filter((one) => one !== tenant)
    return new FuzzStep({ operation, worker, random, tenant, others, note })
  }
  const work = async (worker: number): Promise<void> => {
    const random = randoms[worker]
    while (random && left > 0 && violations.length < MAX_VIOLATIONS) {
      left--
      const operation = random.weighted(all)
      counts[operation.name] = (counts[operation.name] ?? 0) + 1
      const step = stepOf(operation.name, worker, random.pick(tenants))
      await operation.run(step).catch((error) => step.violate(`a legal operation failed: ${describeError(error)}`))
    }
  }

  try {
    for (let done = 0; done < operations && violations.length < MAX_VIOLATIONS; done += OPERATIONS_PER_ROUND) {
      left = Math.min(OPERATIONS_PER_ROUND, operations - done)
      await Promise.all(randoms.map((_, worker) => work(worker)))
      await Promise.all(tenants.map((tenant) => compare(stepOf('comparison', 0, tenant), outside)))
      await inspectAll(options, tenants, stepOf)
      onRound?.(Math.min(done + OPERATIONS_PER_ROUND, operations))
    }
  } finally {
    await outside.close()
  }
  return { seed, operations: counts, violations, elapsedMs: performance.now() - startedAt }
}

/** Compares the present rows with the expected ones, while no worker runs. */
async function compare(step: FuzzStep, outside: Outside): Promise<void> {
  const { view, rows, handle, location } = step.tenant
  const known = rows.flatMap((own) =>
    [...own].map(([id, value]) => line({ owner: markOf(location.tenantId), id, value })),
  )
  const held = view ? await heldRows(view, outside) : await raw(handle.db, ALL_ITEMS)
  const found = held.map(line)
  const [extra, missing] = [found.filter((one) => !known.includes(one)), known.filter((one) => !found.includes(one))]
  if (extra.length > 0) step.violate(`the storage has unexpected rows: ${extra.slice(0, 5).join(', ')}`)
  if (missing.length > 0) step.violate(`the storage lacks rows: ${missing.slice(0, 5).join(', ')}`)
  if (!view?.tenantColumn) return
  const [{ count }] = (await outside.all(
    view,
    `select count(*)::int as count from ${itemsOf(view)} where owner <> 'of ' || split_part(tenant_id, '~', 1)`,
  )) as [{ count: number }]
  if (count > 0) step.violate(`${count} rows belong to another tenant than their marker names`)
}

const line = ({ owner, id, value }: any): string => `${owner} ${id}=${value}`

function heldRows(view: StorageView, outside: Outside): Promise<any[]> {
  const text = `select owner, id, value from ${itemsOf(view)}`
  return view.tenantColumn === undefined
    ? outside.all(view, text)
    : outside.all(view, `${text} where tenant_id = $1`, [view.tenantColumn])
}

/** Acquires all connections and inspects each of them; afterwards no connection may be in use. */
async function inspectAll(
  { driver, maxConnections, viewOf, locations }: LeakFuzzOptions,
  tenants: readonly FuzzedTenant[],
  stepOf: (operation: string, worker: number, tenant: FuzzedTenant) => FuzzStep,
): Promise<void> {
  const [first] = locations
  if (viewOf && first) {
    let arrived = 0
    let open = () => {}
    const everybody = new Promise<void>((resolve) => {
      open = resolve
    })
    const looks = Array.from({ length: maxConnections }, async (_, n) => {
      const tenant = tenants[n % tenants.length]
      if (!tenant) return
      const step = stepOf('connection inspected', 0, tenant)
      const inside = async () => {
        if (++arrived === maxConnections) open()
        await everybody
      }
      await inspectedInside(step, inside).catch((error) => {
        open()
        step.violate(`a legal operation failed: ${describeError(error)}`)
      })
    })
    await Promise.all(looks)
  }
  for (const { busy, waiting } of driver.connections()) {
    if (busy === 0 && waiting === 0) continue
    const [tenant] = tenants
    if (tenant)
      stepOf('connections', 0, tenant).violate(
        `${busy} connections are in use and ${waiting} requests wait while no worker runs`,
      )
  }
}
