/**
 * The systems of an erasure, in the order of their removal:
 *
 *   placements, systems of parts ─► rows of the backoffice ─► systems whose removal follows the rows (jobs, deliveries, audit keys)
 *
 * Parts that come later declare theirs with `erase`, in this order: the log of storage locations and capture logs (`storage_log`,
 * `tenantry_capture`) are rows of a placement, which `search` of the driver finds; read replicas are a system that waits for the LSN of
 * the removal.
 */
import { forEachConcurrent } from '../../kernel/base/concurrency.ts'
import { type ErasableSystem, type ErasureSubject, type FoundData, inSystem } from '../../kernel/erasable.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Part } from '../../kernel/part-definition.ts'
import type { DropOptions, StorageLocation } from '../isolation/driver.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { LostPlacements } from '../lifecycle/lost-placements.ts'
import type { Installation } from '../lifecycle/provisioning.ts'
import { toLocation } from '../registry/registry.ts'
import { forgetAdoptedName } from '../tenant/released.ts'
import type { Transfers } from '../transfers/transfers.ts'
import { findRows, removeRows } from './backoffice-rows.ts'

/** Records data that the first search has left out, before its removal is committed. */
export type RecordCounted = (found: readonly FoundData[]) => Promise<void>

/** A system together with the service of its part. */
export type System = Omit<ErasableSystem, 'find' | 'remove' | 'expires'> & {
  /** @param options `beforeRemoval`: without data that `remove` counts */
  readonly find: (
    subject: ErasureSubject,
    options?: { readonly beforeRemoval?: boolean },
  ) => Promise<readonly FoundData[]>
  readonly remove?: (subject: ErasureSubject, counted: RecordCounted) => Promise<void>
  readonly expires?: (now: Date) => ReturnType<NonNullable<ErasableSystem['expires']>>
}

/** The system with the rows of the tenant, which other systems may need. */
export const BACKOFFICE = 'backoffice'

export interface SystemDependencies {
  readonly kernel: Kernel
  readonly storage: Storage
  readonly lostPlacements: Pick<LostPlacements, 'drop'>
  readonly provisioning: Pick<Installation, 'purgeRows'>
  readonly transfers: Pick<
    Transfers,
    'dropStorage' | 'cancelClonesOf' | 'countStorageOfEndedClones' | 'dropStorageOfEndedClones'
  >
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

/** The storage of the tenant: its own, former and abandoned locations, also those that the registry does not know; that of unfinished clones. */
const placements = ({ kernel: { database }, storage, lostPlacements, transfers }: SystemDependencies): System => ({
  name: 'placements',
  async find({ tenantId, references }, { beforeRemoval = false } = {}) {
    const { lastEpoch, adopted } = await namesOf(database, storage, tenantId, references)
    const names = adopted.size > 0 ? { references: [...adopted.keys()] } : {}
    const beforeDrop = beforeRemoval && !(await hadPurge(database, tenantId))
    const searchOne = async (placement: string): Promise<FoundData[]> => {
      const found: FoundData[] = []
      for (const driver of storage.drivers) {
        const others = [...adopted.values()]
          .filter((one) => one.placement === placement && one.isolation === driver.name)
          .map(({ locator }) => locator)
        const here = await inSystem(`placement "${placement}"`, async () =>
          driver.search?.(placement, tenantId, lastEpoch, others, { beforeDrop }),
        )
        found.push(...at(placement, here ?? []).map((one) => ({ ...one, ...names })))
      }
      return found
    }
    const ofUnfinishedClones = async (): Promise<FoundData[]> => {
      const count = await transfers.countStorageOfEndedClones(tenantId)
      return count > 0 ? [{ kind: 'storage of unfinished clones', count }] : []
    }
    const searches = [...storage.placements.map((placement) => () => searchOne(placement)), ofUnfinishedClones]
    const all: FoundData[][] = []
    await forEachConcurrent(searches, searches.length, async (search, index) => {
      all[index] = await search()
    })
    return [...new Map(all.flat().map((one) => [one.kind, one])).values()] // the drivers of a server find the same outbox
  },
  async remove({ tenantId }, counted) {
    const isSearched = await hadPurge(database, tenantId)
    const counting = ({ placement }: StorageLocation): DropOptions => ({
      onRows: async (found) => (isSearched ? undefined : counted(at(placement, found))),
    })
    const { rows } = await database.sql(
      `select id, isolation, placement, locator, epoch, last_epoch as "lastEpoch", purged_at as "purgedAt" from multitenancy.tenants
       where id = $1 and (purge_started_at is not null or purged_at is not null)`,
      [tenantId],
    )
    if (rows.length === 0) throw new Error(`tenant ${tenantId} is not claimed for its removal`)
    for (const row of rows) {
      if (row.purgedAt && !isGenerated(storage, row)) continue // the host may have created storage with the name that was adopted
      const location = toLocation(row)
      await inSystem(`placement "${row.placement}"`, () => lostPlacements.drop(location, counting(location)))
      await forgetAdoptedName(database, location)
    }
    const drops = [() => transfers.dropStorage(tenantId, counting), () => transfers.dropStorageOfEndedClones(tenantId)]
    await forEachConcurrent(drops, drops.length, (drop) => drop())
  },
})

/**
 * Whether a purge began before the request. It may continue and drop rows without their number, so the first search counts
 * them instead of the drop.
 */
async function hadPurge(database: Kernel['database'], tenantId: string): Promise<boolean> {
  const { rows } = await database.sql(
    `select from multitenancy.tenants t join multitenancy.erasures e on tenant_id = id where id = $1 and purge_started_at <> requested_at`,
    [tenantId],
  )
  return rows.length > 0
}

/** The same table can exist on several servers. */
const at = (placement: string, found: readonly FoundData[]): FoundData[] =>
  found.map((one) => ({ ...one, kind: `${placement}: ${one.kind}` }))

interface NamedStorage {
  readonly id: string
  readonly isolation: string
  readonly placement: string
  readonly locator: string
  readonly lastEpoch: number
}

/** False for the name of adopted storage. True for a driver that is not configured: nothing is dropped without it. */
function isGenerated(storage: Storage, { id, isolation, locator, lastEpoch }: NamedStorage): boolean {
  const driver = storage.drivers.find(({ name }) => name === isolation)
  if (!driver) return true
  return Array.from({ length: lastEpoch }, (_, index) => driver.locator(id, index + 1)).includes(locator)
}

/**
 * The highest epoch, and storage whose name does not contain the tenant's id, by its reference. A purged tenant has
 * none. @param references of the first search
 */
async function namesOf(
  database: Kernel['database'],
  storage: Storage,
  tenantId: string,
  references: readonly string[],
): Promise<{
  lastEpoch: number
  adopted: Map<string, Pick<NamedStorage, 'isolation' | 'placement' | 'locator'>>
}> {
  const { rows } = await database.sql(
    `select t.id, place.isolation, place.placement, place.locator, t.last_epoch as "lastEpoch", t.purged_at as "purgedAt"
     from multitenancy.tenants t, lateral (
       select t.isolation, t.placement, t.locator
       union all select isolation, placement, locator from multitenancy.storage_locations where tenant_id = t.id) place
     where t.id = $1`,
    [tenantId],
  )
  const now = (rows as (NamedStorage & { readonly purgedAt: Date | null })[])
    .filter((row) => !row.purgedAt && !isGenerated(storage, row))
    .map(({ isolation, placement, locator }) => JSON.stringify({ isolation, placement, locator }))
  const adopted = new Map([...references, ...now].map((reference) => [reference, JSON.parse(reference)]))
  return { lastEpoch: rows[0]?.lastEpoch ?? 1, adopted }
}

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
