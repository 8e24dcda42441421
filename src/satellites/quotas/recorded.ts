/**
 * Writes an administrator's change to the store, with its entry in the audit log.
 *
 * The entry is written first, because the store takes no part in transactions and a change without a response may have happened.
 * If the change fails, a second entry records the failure.
 */

import { isWriteOutage } from '../../kernel/database/write-failures.ts'
import { type Change, recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { lockTenant } from '../../tenants/registry/tenant-assertions.ts'

/**
 * @param look reads the present state; undefined if it equals the requested one, and nothing is changed
 * @throws E_TENANT_NOT_FOUND, E_TENANT_STATE for a deleted tenant, E_DEPENDENCY_UNAVAILABLE, and errors of `write`
 */
export async function recorded(
  { database, events, log, resilience }: Kernel,
  { tenantId, ...rest }: Pick<Change, 'action' | 'after'> & { readonly tenantId: string },
  write: () => Promise<void>,
  look: () => Promise<Change['before'] | undefined> = async () => null,
): Promise<void> {
  let change: Change = { ...rest, tenantId, target: `quotas:${tenantId}` }
  let isNeeded = true
  try {
    await database.transaction(async () => {
      await lockTenant(database, tenantId)
      const before = await look()
      isNeeded = before !== undefined
      if (!isNeeded) return
      change = { ...change, before }
      await recordChange(events, change)
    })
  } catch (error) {
    throw isWriteOutage(error) ? resilience.rejection('database', error) : error
  }
  if (!isNeeded) return
  try {
    await write()
  } catch (error) {
    await recordChange(events, { ...change, outcome: 'failure' }).catch((failure) =>
      log.error({ err: failure, ...change }, 'the failure of a change could not be recorded'),
    )
    throw error
  }
}
