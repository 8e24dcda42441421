/**
 * A restore: new storage beside the old is filled from an archive, and the directory switches to it. Until then the tenant goes on
 * with what it has; whatever fails, it keeps it.
 */
import { TenantRestored } from '../../tenant/events.ts'
import { switchTo } from './cutover.ts'
import type { TransferHandler } from './dependencies.ts'
import { fill } from './fill.ts'
import { withCopy } from './source.ts'

export const restore: TransferHandler = {
  async run(dependencies, attempt) {
    const { tenantId } = attempt.transfer
    const from = await dependencies.registry.row(tenantId)
    const filled = await withCopy(dependencies, attempt, (copy) => fill(dependencies, attempt, copy))
    await attempt.phase('switching')
    await switchTo(
      dependencies,
      attempt,
      { ...filled, was: 'making' },
      {
        from,
        action: 'backups.restore',
        also: () => dependencies.kernel.events.publish(TenantRestored, { tenantId, from: 'backup' }),
      },
    )
  },
}
