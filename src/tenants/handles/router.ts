/**
 * Routes the statements of one tenant: the registry returns status and storage location, the circuit the health of the
 * server, and the driver runs the statement. Each statement and each transaction checks the cache again, so a handle
 * can be kept.
 *
 * - A process with a stale cache meets a fence at the former storage. Then it reads the registry again and repeats the
 *   work once at the current location. Nothing was executed: a scope precedes all statements of the host, and policies
 *   that act as a fence have undone the statement (except for numbers of a sequence).
 * - A terminated session only resembles a fence, and it is unknown whether the statement ran. Then the registry may
 *   have a better error; otherwise the original error remains.
 * - An unavailable server is E_DEPENDENCY_UNAVAILABLE, with its error as the cause.
 */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database/database.ts'
import { withHint } from '../../kernel/database/start-failures.ts'
import type { Tracing } from '../../kernel/resilience/tracing.ts'
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
import type { Outbox } from '../outbox/outbox.ts'
import { assertUsable } from '../registry/assert-usable.ts'
import type { Located, Registry } from '../registry/registry.ts'
import { tenantNotFound } from '../tenant/errors.ts'
import { assertAgrees } from './agreement.ts'
import { inQuerySpan } from './query-span.ts'

/** The target of a handle's statements. */
export interface TenantSource {
  readonly id: string
  execute(statement: Statement): Promise<StatementResult>
  /** A connection with an open transaction. */
  begin(modes: TransactionModes): Promise<TenantConnection>
}

/** The target of an import. */
export interface ImportSource extends TenantSource {
  /** Delegates to the driver. No effect without sequences. */
  advanceSequences(wanted: readonly CopiedSequence[], signal: AbortSignal): Promise<void>
}

export interface SourceDependencies {
  readonly tracing: Tracing
  readonly registry: Registry
  readonly storage: Storage
  readonly circuits: Circuits
  readonly fences: Fences
  readonly outbox: Pick<Outbox, 'statement' | 'prepare' | 'posting' | 'wake'>
}

type Work<T> = (driver: IsolationDriver, location: StorageLocation) => Promise<T>

const RETRY_AFTER_SECONDS = 5
/** Limits the wait for the labels of shared rows after a killed restore. */
const REPAIR_TIMEOUT_MS = 10_000
/** Changes of structure, as SQLSTATE and message. Policies and functions of Tenantry have other messages with the same SQLSTATE. */
const DENIED =
  /^(42501 (permission denied for (schema|table|sequence|database)|must be owner of)|25001 (CREATE|DROP) DATABASE cannot) /
const ONLY_ROWS =
  'Statements of a tenant read and write rows of the tables that migrations create. Change tables by a migration, and disable schema ' +
  'synchronization of the ORM, see docs/migrations.md.'
const CONNECTING = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|57P03|53300)$/
const CONNECTING_MESSAGES = /^(timeout expired|timeout exceeded when trying to connect)/

export function tenantSource(id: string, dependencies: SourceDependencies): ImportSource {
  const at = <T>(work: Work<T>): Promise<T> => run(id, dependencies, work)
  const held = async (
    driver: IsolationDriver,
    location: StorageLocation,
    connecting: Promise<TenantConnection>,
  ): Promise<TenantConnection> => new WatchedConnection(await connecting, dependencies, driver, location)
  const { tracing } = dependencies
  const begin: TenantSource['begin'] = (modes) =>
    inQuerySpan(tracing, id, 'begin', () =>
      at((driver, location) => held(driver, location, beginTransaction(driver, location, modes))),
    )
  return {
    id,
    execute: (statement) =>
      mayPost(statement)
        ? inItsTransaction(begin, statement)
        : inQuerySpan(tracing, id, statement.text, () => at((driver, location) => driver.execute(location, statement))),
    begin,
    advanceSequences: (wanted, signal) =>
      at(async (driver, location) => driver.advanceSequences?.(location, wanted, signal)),
  }
}

/** Whether a statement may post to the outbox of its storage. */
const mayPost = ({ text }: Statement): boolean => POST.test(text)

const POST = /tenantry"?\s*\.\s*"?post|tenantry_outbox/i

/** Fails, so that PostgreSQL accepts nothing but a rollback of the transaction or of a savepoint before. */
const ABORT: Statement = { text: 'select 1 / 0' }

async function inItsTransaction(begin: TenantSource['begin'], statement: Statement): Promise<StatementResult> {
  const connection = await begin({})
  try {
    const result = await connection.query(statement)
    await connection.end('commit')
    return result
  } finally {
    connection.release()
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

/** The location for a second attempt. Throws the most specific error if there is none. */
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
      throw DependencyUnavailable.matches(failure) ? toTenantError(error) : failure // no better error
    }
  }
  const now = await refresh()
  if (!StorageFenced.matches(error)) throw toTenantError(error) // may have run
  const repaired = () =>
    withTimeout(fences.repair(id), REPAIR_TIMEOUT_MS, stillClosed).catch((failure) => {
      throw toTenantError(failure)
    })
  const isElsewhere = now.location.isolation !== before.isolation || now.location.placement !== before.placement
  const sharesFence = storage.driver(now.location.isolation).enter !== undefined && !isElsewhere
  if (now.location.epoch !== before.epoch && !sharesFence) return now.location
  const isOpen = await repaired()
  const then = await refresh() // the tenant may have been closed or moved
  if (isOpen || then.location.epoch !== before.epoch) return then.location
  throw error
}

const stillClosed = () =>
  DependencyUnavailable('The storage of the tenant is being reopened.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })

/** The server's own error is only in the log and in the cause. */
const toTenantError = (error: unknown): unknown => {
  if (DENIED.test(`${sqlState(error)} ${(error as Error).message}`)) return withHint(error, ONLY_ROWS)
  if (!isDatabaseUnavailable(error)) return error
  if (isConnecting(error)) {
    const retryAfterSeconds = RETRY_AFTER_SECONDS
    return DependencyUnavailable('The database of the tenant is unavailable.', { retryAfterSeconds, cause: error })
  }
  return DependencyUnavailable(
    'The connection to the database of the tenant was lost. The statement may have been executed.',
    {
      cause: error,
    },
  )
}

/** The connection was refused or rejected: nothing was sent, so a second attempt is safe. */
function isConnecting(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.every(isConnecting)
  const { code = '', message = '' } = error as { code?: string; message?: string }
  return CONNECTING.test(code) || CONNECTING_MESSAGES.test(message)
}

/** Errors of missing tables, functions and types: sessions older than the fence see a closed schema as empty. */
const UNNAMED = new Set(['42P01', '42883', '42704'])

/** The fence error if the storage is closed; otherwise the original error, also if the server does not respond. */
async function closedMeanwhile(error: unknown, driver: IsolationDriver, location: StorageLocation): Promise<unknown> {
  if (!UNNAMED.has(sqlState(error) ?? '')) return error
  const isFenced = await driver.isFenced(location).catch(() => false)
  return isFenced
    ? StorageFenced('The storage of the tenant was closed during the statement.', { cause: error })
    : error
}

/** A held connection whose errors are counted and converted, and whose posts are relayed after the commit. */
class WatchedConnection implements TenantConnection {
  readonly #connection: TenantConnection
  readonly #dependencies: Pick<SourceDependencies, 'circuits' | 'tracing' | 'outbox'>
  readonly #driver: IsolationDriver
  readonly #location: StorageLocation
  #hasPosted = false

  constructor(
    connection: TenantConnection,
    dependencies: Pick<SourceDependencies, 'circuits' | 'tracing' | 'outbox'>,
    driver: IsolationDriver,
    location: StorageLocation,
  ) {
    this.#connection = connection
    this.#dependencies = dependencies
    this.#driver = driver
    this.#location = location
  }

  get inTransaction(): boolean {
    return this.#connection.inTransaction
  }

  async query(statement: Statement): Promise<StatementResult> {
    const query = () => this.#watched(statement.text, () => this.#connection.query(statement))
    if (!mayPost(statement)) return query()
    this.#hasPosted = true
    let isDone = false
    const post = async () => {
      const result = await query()
      isDone = true
      return result
    }
    try {
      return await this.#dependencies.outbox.posting(this.#driver, this.#location, post)
    } catch (error) {
      if (isDone) await this.#connection.query(ABORT).catch(() => undefined) // An entry without a mark must not commit.
      throw error
    }
  }

  begin(modes?: TransactionModes): Promise<void> {
    return this.#watched('begin', () => this.#connection.begin(modes))
  }

  async end(how: 'commit' | 'rollback'): Promise<void> {
    const hasPosted = this.#hasPosted
    this.#hasPosted = false
    await this.#watched(how, () => this.#connection.end(how))
    if (hasPosted && how === 'commit') this.#dependencies.outbox.wake(this.#location)
  }

  release(destroy?: boolean): void {
    this.#connection.release(destroy)
  }

  #watched<T>(text: string, work: () => Promise<T>): Promise<T> {
    const { tracing } = this.#dependencies
    return inQuerySpan(tracing, this.#location.tenantId, text, () => this.#counted(work))
  }

  async #counted<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await this.#dependencies.circuits.watch(this.#location, work)
    } catch (error) {
      throw toTenantError(await closedMeanwhile(error, this.#driver, this.#location))
    }
  }
}

/** Throws the error of a guarded route if the tenant is not usable. */
export function usable(id: string, located: Located | undefined): Located {
  if (!located) throw tenantNotFound(id)
  assertUsable(located.tenant)
  return located
}

/** A connection of the storage with an open transaction. */
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
