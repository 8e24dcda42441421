/** The archives of a tenant, for its erasure. */
import type { ErasableSystem, FoundData } from '../../kernel/erasable.ts'
import type { Transfers } from './transfers.ts'

const HIDDEN = 'The credentials may not list versions. Lifecycle rules of the bucket remove them.'
const PROTECTED = 'The bucket does not allow the deletion of versions. Its lifecycle rules remove them.'

export const archivesSystem: ErasableSystem<Transfers> = {
  name: 'archives',
  async find({ backups }, { tenantId }) {
    const { objects, versions } = await backups.countStored(tenantId)
    const older: FoundData =
      versions === null
        ? { kind: 'unknown versions', count: 1, kept: HIDDEN }
        : { kind: 'versions', count: versions, kept: PROTECTED }
    return [{ kind: 'objects', count: objects }, older]
  },
  remove: ({ backups }, { tenantId }) => backups.eraseStored(tenantId),
}
