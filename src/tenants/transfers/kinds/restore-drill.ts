/**
 * A rehearsal (test restore): everything that a restore does but for the switch. The rows of the new storage are read again and
 * compared with those of the archive, whatever order either has them in; then the storage is dropped.
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

/** The same copy; of each table that has passed, `digests` has what its rows come to. */
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

/** What tenants share is no part of a copy from there: that it has the rows of the archive, the import has seen to. */
function compare(
  archived: ReadonlyMap<string, RowDigest>,
  found: ReadonlyMap<string, RowDigest>,
  { separateStorage }: Pick<Capabilities, 'separateStorage'>,
): void {
  for (const [name, digest] of archived) {
    if (!separateStorage && !found.has(name)) continue
    if (found.get(name)?.value === digest.value) continue
    throw BackupIncompatible(`The rows of the table "${name}" are not the same after they were restored.`)
  }
}
