/**
 * A restore: fills new storage from an archive and switches the tenant to it. The tenant stays in use until the switch,
 * and after a failure.
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
