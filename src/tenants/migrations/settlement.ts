/**
 * Writes the results of items in one transaction: item states, versions of tenants, audit entries and `TenantMigrated`.
 *
 * If a listener rejects one of them, each result has its own transaction.
 */

import { isWriteOutage } from '../../kernel/database/write-failures.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Storage } from '../isolation/drivers.ts'
import { toLocation } from '../registry/registry.ts'
import { TenantMigrated } from '../tenant/events.ts'
import { UNKNOWN_VERSION, withChecksums } from '../tenant/schema-version.ts'
import { migrationFailure } from './errors.ts'
import type { Claimed, ItemResult, MigrationItems } from './items.ts'
import type { MigrationRun } from './model/run.ts'
import type { SchemaVersions } from './schema-versions.ts'
import { lockVersions, sharingTenants, writeVersions } from './shared-storage.ts'
import type { Outcome } from './storage-migration.ts'

export interface MigrationResultWriterDependencies {
  readonly kernel: Kernel
  readonly storage: Storage
  readonly versions: SchemaVersions
  readonly run: MigrationRun
  readonly items: MigrationItems
}

export class MigrationResultWriter {
  readonly #dependencies: MigrationResultWriterDependencies

  constructor(dependencies: MigrationResultWriterDependencies) {
    this.#dependencies = dependencies
  }

  async record(outcomes: readonly Outcome[]): Promise<void> {
    try {
      await this.#recordBatch(outcomes)
    } catch (error) {
      if (isWriteOutage(error)) throw error
      for (const outcome of outcomes) await this.#recordOne(outcome)
    }
  }

  /** A result whose event is rejected counts as failed: its version is unchanged, so the next run includes the storage. */
  async #recordOne(outcome: Outcome): Promise<void> {
    const { kernel, run, items } = this.#dependencies
    try {
      await this.#recordBatch([outcome])
    } catch (error) {
      if (isWriteOutage(error)) throw error
      kernel.log.error(
        { err: error, storage: outcome.item.storage, runId: run.id },
        'the result of a migration could not be recorded',
      )
      const { version: _, ...unversioned } = outcome
      const failure = migrationFailure(error, run.lockTimeoutMs)
      await items.record([resultOf({ ...unversioned, state: 'failed', failure })])
    }
  }

  #recordBatch(outcomes: readonly Outcome[]): Promise<void> {
    const { kernel, items } = this.#dependencies
    return kernel.database.transaction(async () => {
      const sorted = [...outcomes].sort((one, other) => (one.item.storage < other.item.storage ? -1 : 1))
      const results = await Promise.all(
        sorted.map(async (outcome) => ({ outcome, migrations: await this.#unpublished(outcome) })),
      )
      const counted = await items.record(
        results.map(({ outcome, migrations }) => resultOf({ ...outcome, ran: migrations })),
      )
      for (const { outcome, migrations } of results) {
        const { item, state, ran } = outcome
        if (state !== 'done' || !counted.has(item.storage)) continue
        if (item.tenant) await this.#announce(item.tenant.id, migrations)
        else await this.#recordSharing(item, ran)
      }
    })
  }

  /** The migrations of this attempt, and those that a process ran before it died without publishing them. */
  async #unpublished({ ran, reportedVersion, version }: Outcome): Promise<readonly string[]> {
    return reportedVersion === undefined || version === undefined ? ran : this.#since(reportedVersion, version, ran)
  }

  async #since(reportedVersion: string, version: string, ran: readonly string[]): Promise<readonly string[]> {
    const { versions } = this.#dependencies
    const [before, after] = [await versions.of(reportedVersion), await versions.of(version)]
    if (!before || !after) return ran
    const isOld = new Set(before.map(({ name }) => name))
    return after.map(({ name }) => name).filter((name) => !isOld.has(name) || ran.includes(name))
  }

  async #recordSharing(item: Claimed, ran: readonly string[]): Promise<void> {
    const { kernel, storage, versions, run } = this.#dependencies
    await lockVersions(kernel.database, item, 'all')
    const tenants = await sharingTenants(kernel.database, item)
    const [first] = tenants
    if (!first) return
    const driver = storage.driver(item.isolation)
    const names = await driver.applied(toLocation({ ...item, ...first }))
    const version = driver.capabilities.durable
      ? await versions.keep(withChecksums(names, versions.folder))
      : UNKNOWN_VERSION
    await writeVersions(kernel.database, item, version)
    for (const tenant of tenants) {
      await this.#announce(tenant.id, run.direction === 'up' ? await this.#since(tenant.version, version, ran) : ran)
    }
  }

  async #announce(tenantId: string, migrations: readonly string[]): Promise<void> {
    if (migrations.length === 0) return
    const { kernel, run } = this.#dependencies
    await recordChange(kernel.events, {
      action: run.direction === 'up' ? 'tenants.migrate' : 'tenants.rollback',
      tenantId,
      target: `tenant:${tenantId}`,
      after: { migrations },
    })
    await kernel.events.publish(TenantMigrated, { tenantId, migrations: [...migrations], direction: run.direction })
  }
}

function resultOf({ item, state, ran, version, failure, delayMs, durationMs }: Outcome): ItemResult {
  const { tenant } = item
  return {
    storage: item.storage,
    state,
    migrations: state === 'done' ? ran : null,
    error: failure ? { code: failure.code, message: failure.message } : null,
    durationMs,
    delayMs,
    versioned:
      tenant && version !== undefined && version !== UNKNOWN_VERSION
        ? { tenantId: tenant.id, epoch: tenant.epoch, version }
        : null,
  }
}
