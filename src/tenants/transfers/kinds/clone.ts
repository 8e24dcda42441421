/**
 * A clone: a new tenant, created from the storage of another in one snapshot while that tenant is in use. Its status is
 * provisioning until the copy is complete, or failed; activation then starts the clone again.
 */
import type { StorageLocation } from '../../isolation/driver.ts'
import { versionOnArrival } from '../../migrations/target-version.ts'
import { toLocation } from '../../registry/registry.ts'
import { TenantNotFound, TenantState } from '../../tenant/errors.ts'
import { TenantCloned, TenantMigrated } from '../../tenant/events.ts'
import type { Attempt } from '../execution/attempt.ts'
import { sourceOf } from '../requests/installation.ts'
import type { TransferDependencies, TransferHandler } from './dependencies.ts'
import { fill } from './fill.ts'

export const clone: TransferHandler = {
  async run(dependencies, attempt) {
    const { storage, stagedStorage, kernel } = dependencies
    const { sourceId, withData } = attempt.transfer
    const source = await sourceOf(kernel.database, sourceId)
    if (!withData) {
      const location = await stagedStorage.begin(attempt)
      await attempt.phase('making')
      const assertNotAbandoned = () => stagedStorage.assertMaking(location)
      return activate(
        dependencies,
        attempt,
        location,
        await storage.driver(location.isolation).provision(location, { assertNotAbandoned }),
      )
    }
    const filled = await storage
      .driver(source.isolation)
      .export(toLocation(source), (copy) => fill(dependencies, attempt, copy), attempt.options)
    await activate(dependencies, attempt, filled.location, filled.migrations)
  },

  async failPermanently({ transitions }, transfer, failure) {
    try {
      await transitions.run(transfer.tenantId, 'fail', () => ({
        set: { failure },
        event: { code: failure.code },
        outcome: 'failure',
      }))
    } catch (error) {
      if (!TenantState.matches(error) && !TenantNotFound.matches(error)) throw error // deleted during the copy
    }
  },
}

async function activate(
  { kernel, transitions, storage, versions, changes, stagedStorage }: TransferDependencies,
  attempt: Attempt,
  location: StorageLocation,
  migrations: readonly string[],
): Promise<void> {
  await attempt.phase('switching')
  const { database, events } = kernel
  const { tenantId, sourceId } = attempt.transfer
  const { isolation, placement, locator, epoch } = location
  await database.transaction(async () => {
    const driver = storage.driver(isolation)
    const schemaVersion = await versionOnArrival({ database, versions, changes }, driver, location, migrations)
    await driver.enter?.(location, { signal: attempt.signal })
    await transitions.run(tenantId, 'install', (_, now) => ({
      set: {
        activatedAt: now,
        failure: null,
        schemaVersion,
        clonedFrom: null,
        isolation,
        placement,
        locator,
        epoch,
      },
      also: async () => {
        await attempt.hold()
        await stagedStorage.take(location, 'making')
        await attempt.end('completed')
        if (migrations.length > 0) {
          await events.publish(TenantMigrated, { tenantId, migrations: [...migrations], direction: 'up' })
        }
        await events.publish(TenantCloned, { tenantId, sourceId: sourceId ?? '' })
      },
    }))
  })
}
