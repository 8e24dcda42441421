/**
 * The systems of an erasure, in the order of their removal:
 *
 *   placements ─► systems of parts ─► rows of the backoffice ─► systems whose removal follows the rows (jobs, deliveries, audit keys)
 *
 * Parts that come later declare theirs with `erase`, in this order: the log of storage locations and capture logs (`storage_log`,
 * `tenantry_capture`) are rows of a placement, which `search` of the driver finds; read replicas are a system that waits for the LSN of
 * the removal.
 */
import { type ErasableSystem, type FoundData, inSystem } from '../../kernel/erasable.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Part } from '../../kernel/part-definition.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { LostPlacements } from '../lifecycle/lost-placements.ts'
import type { Installation } from '../lifecycle/provisioning.ts'
import { toLocation } from '../registry/registry.ts'
import type { Transfers } from '../transfers/transfers.ts'
import { findRows, removeRows } from './backoffice-rows.ts'

/** A system together with the service of its part. */
export type System = Omit<ErasableSystem, 'find' | 'remove' | 'expires'> & {
  readonly find: (subject: Parameters<ErasableSystem['find']>[1]) => Promise<readonly FoundData[]>
  readonly remove?: (subject: Parameters<ErasableSystem['find']>[1]) => Promise<void>
  readonly expires?: (now: Date) => ReturnType<NonNullable<ErasableSystem['expires']>>
}

/** The system with the rows of the tenant, which other systems may need. */
export const BACKOFFICE = 'backoffice'

export interface SystemDependencies {
  readonly kernel: Kernel
  readonly storage: Storage
  readonly lostPlacements: Pick<LostPlacements, 'drop'>
  readonly provisioning: Pick<Installation, 'purgeRows'>
  readonly transfers: Pick<Transfers, 'dropStorage'>
}

export const bound = (service: unknown, { find, remove, expires, ...system }: ErasableSystem): System => ({
  ...system,
  find: (subject) => find(service, subject),
  ...(remove ? { remove: (subject) => remove(service, subject) } : {}),
  ...(expires ? { expires: (now) => expires(service, now) } : {}),
})

/** @param declared of the parts, in their order. @param parts that are enabled */
export function orderedSystems(
  dependencies: SystemDependencies,
  declared: readonly System[],
  parts: readonly Part[],
): System[] {
  const known = new Set(parts.flatMap(({ tenantTables = [] }) => tenantTables))
  const elsewhere = new Set(declared.flatMap(({ tables = [] }) => tables))
  return [
    placements(dependencies),
    ...declared.filter(({ isAfterRows }) => !isAfterRows),
    backoffice(dependencies, { known, elsewhere }),
    ...declared.filter(({ isAfterRows }) => isAfterRows),
  ]
}

/** The storage of the tenant: its own, former and abandoned locations, also those that the registry does not know. */
const placements = ({ kernel, storage, lostPlacements, transfers }: SystemDependencies): System => ({
  name: 'placements',
  async find({ tenantId }) {
    const { rows } = await kernel.database.sql(
      'select last_epoch as "lastEpoch" from multitenancy.tenants where id = $1',
      [tenantId],
    )
    const { lastEpoch = 1 } = rows[0] ?? {}
    const found = new Map<string, FoundData>()
    for (const placement of storage.placements) {
      for (const driver of storage.drivers) {
        const here = await inSystem(`placement "${placement}"`, async () =>
          driver.search?.(placement, tenantId, lastEpoch),
        )
        for (const one of here ?? []) {
          const kind = `${placement}: ${one.kind}`
          found.set(kind, { ...one, kind })
        }
      }
    }
    return [...found.values()]
  },
  async remove({ tenantId }) {
    const { rows } = await kernel.database.sql(
      `select id, isolation, placement, locator, epoch from multitenancy.tenants
       where id = $1 and (purge_started_at is not null or purged_at is not null)`,
      [tenantId],
    )
    if (rows.length === 0) throw new Error(`tenant ${tenantId} is not claimed for its removal`)
    for (const row of rows) {
      await inSystem(`placement "${row.placement}"`, () => lostPlacements.drop(toLocation(row)))
    }
    await transfers.dropStorage(tenantId)
  },
})

const backoffice = (
  { kernel: { database }, provisioning }: SystemDependencies,
  tables: { readonly known: ReadonlySet<string>; readonly elsewhere: ReadonlySet<string> },
): System => ({
  name: BACKOFFICE,
  find: ({ tenantId }) => findRows(database, tenantId, tables),
  async remove({ tenantId }) {
    await provisioning.purgeRows(tenantId, 'erasure')
    await removeRows(database, tenantId, tables)
  },
})
