/**
 * The way of one tenant's statements: the registry says whether the tenant may be used and where its rows are, the circuit
 * whether that server answers, and the driver runs them. All of it is asked anew for each statement alone and each transaction,
 * from the cache: a handle may be kept for as long as one likes.
 *
 * A process whose cache is behind meets a fence at the storage that the tenant has left. Then the registry is read again, and
 * the work is tried once more at the place that it names now. Nothing had been done: a scope comes before anything of the host, and
 * where policies are the fence the statement that met them was undone (a sequence keeps the numbers it gave).
 * Of what only looks like a fence (a session that was ended) that is not known: then the registry may have a better answer than
 * the error, and else the error stands. A server that fails is E_DEPENDENCY_UNAVAILABLE, with what it said as the cause.
 */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database/database.ts'
import type { Circuits } from '../circuits/circuits.ts'
import type { CopiedSequence } from '../isolation/copy.ts'
import {
  type IsolationDriver,
  type Statement,
  type StatementResult,
  StorageFenced,
  type StorageLocation,
  type TenantConnection,
  type TransactionModes,
} from '../isolation/driver.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { Fences } from '../lifecycle/fences.ts'
import { assertUsable } from '../registry/assert-usable.ts'
import type { Located, Registry } from '../registry/registry.ts'
import { tenantNotFound } from '../tenant/errors.ts'
import { assertAgrees } from './agreement.ts'

/** Where a handle's statements go. */
export interface TenantSource {
  readonly id: string
  execute(statement: Statement): Promise<StatementResult>
  /** A connection with a transaction open on it. */
  begin(modes: TransactionModes): Promise<TenantConnection>
}

/** Where the data of an import goes. */
export interface ImportSource extends TenantSource {
  /** As the driver does it; nothing where there are no sequences. */
  advanceSequences(wanted: readonly CopiedSequence[], signal: AbortSignal): Promise<void>
}

export interface SourceDependencies {
  readonly registry: Registry
  readonly storage: Storage
  readonly circuits: Circuits
  readonly fences: Fences
}

type Work<T> = (driver: IsolationDriver, location: StorageLocation) => Promise<T>

const RETRY_AFTER_SECONDS = 5
/** Rows of shared tables may have to get their labels back first, after a restore that was killed: a request does not wait for that. */
const REPAIR_TIMEOUT_MS = 10_000
const CONNECTING = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|57P03|53300)$/
const CONNECTING_MESSAGES = /^(timeout expired|timeout exceeded when trying to connect)/

export function tenantSource(id: string, dependencies: SourceDependencies): ImportSource {
  const at = <T>(work: Work<T>): Promise<T> => run(id, dependencies, work)
  const held = async (
    driver: IsolationDriver,
    location: StorageLocation,
    connecting: Promise<TenantConnection>,
  ): Promise<TenantConnection> => new WatchedConnection(await connecting, dependencies.circuits, driver, location)
  return {
    id,
    execute: (statement) => at((driver, location) => driver.execute(location, statement)),
    begin: (modes) => at((driver, location) => held(driver, location, beginTransaction(driver, location, modes))),
    advanceSequences: (wanted, signal) =>
      at(async (driver, location) => driver.advanceSequences?.(location, wanted, signal)),
  }
}

async function run<T>(id: string, dependencies: SourceDependencies, work: Work<T>): Promise<T> {
  assertAgrees(id)
  const { registry, storage, circuits } = dependencies
  const located = usable(id, registry.peek(id) ?? (await registry.find(id)))
  const driver = storage.driver(located.location.isolation)
  try {
    return await circuits.run(located.location, () => work(driver, located.location))
  } catch (failure) {
    const error = await closedMeanwhile(failure, driver, located.location)
    if (!driver.mayBeFence(error)) throw toTenantError(error)
    const location = await currentLocation(id, dependencies, located.location, error)
    try {
      return await circuits.run(location, () => work(storage.driver(location.isolation), location))
    } catch (again) {
      throw toTenantError(again)
    }
  }
}

/** Where the work is to be tried once more. Throws when it is not, for the best reason there is. */
async function currentLocation(
  id: string,
  { registry, storage, fences }: SourceDependencies,
  before: StorageLocation,
  error: unknown,
): Promise<StorageLocation> {
  const refresh = async () => {
    try {
      return usable(id, await registry.refresh(id))
    } catch (failure) {
      throw DependencyUnavailable.matches(failure) ? toTenantError(error) : failure // who cannot say more leaves it at that
    }
  }
  const now = await refresh()
  if (!StorageFenced.matches(error)) throw toTenantError(error) // it may have run
  const repaired = () =>
    withTimeout(fences.repair(id), REPAIR_TIMEOUT_MS, stillClosed).catch((failure) => {
      throw toTenantError(failure)
    })
  const isElsewhere = now.location.isolation !== before.isolation || now.location.placement !== before.placement
  const sharesFence = storage.driver(now.location.isolation).enter !== undefined && !isElsewhere
  if (now.location.epoch !== before.epoch && !sharesFence) return now.location
  const isOpen = await repaired()
  const then = await refresh() // it may have been closed for good in the meantime, or have moved
  if (isOpen || then.location.epoch !== before.epoch) return then.location
  throw error
}

const stillClosed = () =>
  DependencyUnavailable('The storage of this tenant is being opened again.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })

/** What the server of a tenant said as it failed is for the log, and for who looks at the cause. */
const toTenantError = (error: unknown): unknown => {
  if (!isDatabaseUnavailable(error)) return error
  if (isConnecting(error)) {
    const retryAfterSeconds = RETRY_AFTER_SECONDS
    return DependencyUnavailable('The database of this tenant cannot be reached.', { retryAfterSeconds, cause: error })
  }
  return DependencyUnavailable('The database of this tenant was lost; it may have done what it was asked.', {
    cause: error,
  })
}

/** Nobody listened, or nobody was let in: then nothing was sent, and whoever asks again does nothing twice. */
function isConnecting(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.every(isConnecting)
  const { code = '', message = '' } = error as { code?: string; message?: string }
  return CONNECTING.test(code) || CONNECTING_MESSAGES.test(message)
}

/** To what had begun before the fence, a schema that is closed has no tables, functions or types. */
const UNNAMED = new Set(['42P01', '42883', '42704'])

/** The fence, where that is what was met; else the error as it is, also when its server cannot say. */
async function closedMeanwhile(error: unknown, driver: IsolationDriver, location: StorageLocation): Promise<unknown> {
  if (!UNNAMED.has(sqlState(error) ?? '')) return error
  const isFenced = await driver.isFenced(location).catch(() => false)
  return isFenced ? StorageFenced('The storage of the tenant was closed meanwhile.', { cause: error }) : error
}

/** A connection that is held: what it meets is counted and told as everywhere. */
class WatchedConnection implements TenantConnection {
  readonly #connection: TenantConnection
  readonly #circuits: Circuits
  readonly #driver: IsolationDriver
  readonly #location: StorageLocation

  constructor(connection: TenantConnection, circuits: Circuits, driver: IsolationDriver, location: StorageLocation) {
    this.#connection = connection
    this.#circuits = circuits
    this.#driver = driver
    this.#location = location
  }

  get inTransaction(): boolean {
    return this.#connection.inTransaction
  }

  query(statement: Statement): Promise<StatementResult> {
    return this.#watched(() => this.#connection.query(statement))
  }

  begin(modes?: TransactionModes): Promise<void> {
    return this.#watched(() => this.#connection.begin(modes))
  }

  end(how: 'commit' | 'rollback'): Promise<void> {
    return this.#watched(() => this.#connection.end(how))
  }

  release(destroy?: boolean): void {
    this.#connection.release(destroy)
  }

  async #watched<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await this.#circuits.watch(this.#location, work)
    } catch (error) {
      throw toTenantError(await closedMeanwhile(error, this.#driver, this.#location))
    }
  }
}

/** Throws what a guarded route answers when the tenant cannot be used now. */
export function usable(id: string, located: Located | undefined): Located {
  if (!located) throw tenantNotFound(id)
  assertUsable(located.tenant)
  return located
}

/** A connection of that storage with a transaction open on it. */
export async function beginTransaction(
  driver: IsolationDriver,
  location: StorageLocation,
  modes: TransactionModes,
): Promise<TenantConnection> {
  const connection = await driver.connect(location)
  try {
    await connection.begin(modes)
    return connection
  } catch (error) {
    connection.release()
    throw error
  }
}
