/**
 * Migrates or rolls back one storage and returns the result as a value.
 *
 * - A migration is idempotent: the driver runs pending migrations under a lock of the storage.
 * - A rollback is not: its migrations are stored before it starts, and its item is locked while it runs. A worker that takes over rolls
 *   back the rest, and a slow worker rolls back no more.
 * - Before a rollback, a separate transaction sets the version to unknown: the claim for one tenant, `#unversion` for shared storage.
 */
import { AttemptLost } from '../../kernel/jobs/lease.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { IsolationDriver, StorageLocation } from '../isolation/driver.ts'
import type { Storage } from '../isolation/drivers.ts'
import { toLocation } from '../registry/registry.ts'
import { type AppliedMigration, lastOf, UNKNOWN_VERSION, upToDate, withChecksums } from '../tenant/schema-version.ts'
import { type MigrationFailure, MigrationRunning, migrationFailure } from './errors.ts'
import { startingVersion } from './initial-version.ts'
import type { Claimed, MigrationItems } from './items.ts'
import { type MigrationRun, retryDelayMs } from './model/run.ts'
import type { SchemaVersions } from './schema-versions.ts'
import { lockVersions, sharingTenants, unversion, versionsOf } from './shared-storage.ts'

export interface Outcome {
  readonly item: Claimed
  readonly state: 'pending' | 'done' | 'failed' | 'skipped'
  /** Migrations that the driver has run or rolled back. */
  readonly ran: readonly string[]
  /** The last published version of the storage; absent: unknown. */
  readonly reportedVersion?: string
  /** The new version; absent: unchanged. */
  readonly version?: string
  readonly failure?: MigrationFailure
  readonly delayMs: number
  readonly durationMs: number
}

interface Change {
  readonly ran: readonly string[]
  readonly reportedVersion?: string
  readonly version?: string
}

export interface StorageMigrationDependencies {
  readonly kernel: Kernel
  readonly storage: Storage
  readonly versions: SchemaVersions
  readonly run: MigrationRun
  readonly items: MigrationItems
}

export class StorageMigration {
  readonly #dependencies: StorageMigrationDependencies

  constructor(dependencies: StorageMigrationDependencies) {
    this.#dependencies = dependencies
  }

  async run(item: Claimed): Promise<Outcome> {
    const startedAt = performance.now()
    const settled = (outcome: Pick<Outcome, 'state' | 'ran'> & Partial<Outcome>): Outcome => ({
      item,
      delayMs: 0,
      durationMs: Math.round(performance.now() - startedAt),
      ...outcome,
    })
    const { kernel, run } = this.#dependencies
    const tenant = item.tenantId === null ? (await sharingTenants(kernel.database, item, 1))[0] : item.tenant
    if (!tenant) return settled({ state: 'skipped', ran: [] })
    const location = toLocation({ ...item, ...tenant })
    try {
      const change =
        run.direction === 'up' ? await this.#up(item, location, tenant.version) : await this.#down(item, location)
      return settled({ state: 'done', ...change })
    } catch (error) {
      if (error instanceof AttemptLost) return settled({ state: 'pending', ran: [] })
      const failure = migrationFailure(error, run.lockTimeoutMs)
      kernel.log.warn({ err: error, tenantId: tenant.id, runId: run.id }, 'the migration of a storage failed')
      if (failure.isPassing && item.attempts <= run.retries) {
        return settled({ state: 'pending', ran: [], failure, delayMs: retryDelayMs(item.attempts) })
      }
      // After a rejection by the driver the storage is unchanged. After any other failure of a rollback its state is unknown.
      const isUnchanged = run.direction === 'down' && !failure.isPassing && item.tenant
      return settled({ state: 'failed', ran: [], failure, ...(isUnchanged ? { version: item.tenant.version } : {}) })
    }
  }

  async #up(item: Claimed, location: StorageLocation, version: string): Promise<Change> {
    const { storage, versions, run } = this.#dependencies
    const driver = storage.driver(item.isolation)
    const options = { lockTimeoutMs: run.lockTimeoutMs }
    if (!driver.capabilities.durable) return { ran: await driver.migrate(location, options) }
    const { reportedVersion, has } = await startingVersion(this.#dependencies, driver, item, location, version)
    const ran = await driver.migrate(location, options)
    return { ran, reportedVersion, version: await versions.keep(upToDate(versions.folder, has)) }
  }

  async #down(item: Claimed, location: StorageLocation): Promise<Change> {
    const { kernel, storage, versions, run, items } = this.#dependencies
    const driver = storage.driver(item.isolation)
    if (!item.tenant) await this.#unversion(item)
    const appliedBefore = withChecksums(await driver.applied(location), versions.folder)
    const targets = item.migrations ?? lastOf(appliedBefore, run.steps ?? 0)
    if (!item.migrations) await items.intend(item.storage, targets)
    return kernel.database.transaction(async () => {
      await items.hold(item.storage)
      if (!item.tenant) await this.#assertUnversioned(item)
      const applied = await driver.applied(location)
      const left = targets.filter((name) => applied.includes(name))
      const newest = lastOf(withChecksums(applied, versions.folder), left.length)
      if (newest.some((name) => !left.includes(name))) {
        throw MigrationRunning(
          'The storage was migrated during the rollback; the selected migrations are no longer its last ones.',
        )
      }
      if (left.length > 0) await driver.rollback(location, left.length, { lockTimeoutMs: run.lockTimeoutMs })
      if (!item.tenant) return { ran: targets }
      const before = await versions.of(item.tenant.version)
      const names = applied.filter((name) => !left.includes(name))
      return {
        ran: targets,
        version: await this.#versionOf(driver, withChecksums(names, versions.folder, before)),
      }
    })
  }

  /** While the result of the rollback is unknown, the storage must not count as up to date. */
  async #unversion(item: Claimed): Promise<void> {
    const { kernel, items } = this.#dependencies
    await kernel.database.transaction(async () => {
      await items.hold(item.storage)
      await lockVersions(kernel.database, item, 'all')
      await unversion(kernel.database, item)
    })
  }

  /** A tenant that was installed before the lock has a version. The lock prevents further installations. */
  async #assertUnversioned(item: Claimed): Promise<void> {
    const { database } = this.#dependencies.kernel
    await lockVersions(database, item, 'all')
    if ((await versionsOf(database, item)).some((version) => version !== UNKNOWN_VERSION)) {
      throw new AttemptLost(`a tenant was installed in the storage ${item.storage} during its rollback`)
    }
  }

  async #versionOf({ capabilities }: IsolationDriver, applied: readonly AppliedMigration[]): Promise<string> {
    return capabilities.durable ? this.#dependencies.versions.keep(applied) : UNKNOWN_VERSION
  }
}
