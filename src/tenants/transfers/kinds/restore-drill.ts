/**
 * A rehearsal (test restore): a restore without the switch. Compares the rows of the new storage with those of the
 * archive, independent of their order, then drops the storage.
 */
import { BackupIncompatible, type TenantCopy } from '../../isolation/copy.ts'
import type { Capabilities } from '../../isolation/driver.ts'
import type { TenantTables } from '../../tenant/tables.ts'
import { RowDigest } from '../archive/row-digest.ts'
import type { TransferHandler } from './dependencies.ts'
import { fill } from './fill.ts'
import { withCopy } from './source.ts'

export const rehearsal: TransferHandler = {
  async run(dependencies, attempt) {
    const { kernel, storage, stagedStorage } = dependencies
    const { transfer } = attempt
    const archived = new Map<string, RowDigest>()
    const { before, ...filled } = await withCopy(dependencies, attempt, async (copy) => ({
      before: copy.description.migrations.map(({ name }) => name),
      ...(await fill(dependencies, attempt, digested(copy, archived))),
    }))
    const isSameVersion = JSON.stringify(before) === JSON.stringify(filled.migrations)
    if (isSameVersion) {
      await storage.driver(filled.location.isolation).export(
        filled.location,
        async (restored) => {
          const found = new Map<string, RowDigest>()
          for await (const { csv } of digested(restored, found).tables()) for await (const _ of csv);
          compare(archived, found, storage.driver(filled.location.isolation).capabilities)
        },
        { signal: attempt.signal },
      )
    }
    await stagedStorage.abandon(transfer.id, attempt.epochs)
    await stagedStorage.drop({ transferId: transfer.id })
    await kernel.database.transaction(async () => {
      await attempt.hold()
      await kernel.database
        .query<TenantTables>()
        .updateTable('transfers')
        .set({ compared: isSameVersion ? 'contents' : 'counts' })
        .where('id', '=', transfer.id)
        .execute()
      await attempt.end('completed')
      await dependencies.registry.changed(transfer.tenantId)
    })
  },
}

/** Returns the same copy, and adds the digest of each finished table to `digests`. */
function digested(copy: TenantCopy, digests: Map<string, RowDigest>): TenantCopy {
  return {
    description: copy.description,
    estimatedRows: copy.estimatedRows,
    totals: () => copy.totals(),
    async *tables() {
      for await (const { table, csv } of copy.tables()) {
        const digest = new RowDigest()
        digests.set(table.name, digest)
        yield { table, csv: digest.watch(csv) }
      }
    },
  }
}

/** A copy of shared storage does not contain shared tables: the import has verified their rows. */
function compare(
  archived: ReadonlyMap<string, RowDigest>,
  found: ReadonlyMap<string, RowDigest>,
  { separateStorage }: Pick<Capabilities, 'separateStorage'>,
): void {
  for (const [name, digest] of archived) {
    if (!separateStorage && !found.has(name)) continue
    if (found.get(name)?.value === digest.value) continue
    throw BackupIncompatible(`The restored rows of the table "${name}" differ from those of the archive.`)
  }
}
