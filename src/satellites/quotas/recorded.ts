/**
 * What an admin changes in the store, with its entry in the audit log.
 *
 * The store is no part of a transaction, and what it does not answer it may have done. So the entry comes first: a change without
 * one would be worse than one that was not made, of which a second entry says that it failed.
 */

import { isDatabaseUnavailable } from '../../kernel/database/database.ts'
import { type Change, recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { lockTenant } from '../../tenants/registry/tenant-assertions.ts'

/**
 * `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` when it is deleted, `E_DEPENDENCY_UNAVAILABLE`, or what `write` throws.
 * @param look what there was before; undefined: the requested state exists already, and nothing is changed
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
    throw isDatabaseUnavailable(error) ? resilience.rejection('database', error) : error
  }
  if (!isNeeded) return
  try {
    await write()
  } catch (error) {
    await recordChange(events, { ...change, outcome: 'failure' }).catch((failure) =>
      log.error({ err: failure, ...change }, 'that a change has failed could not be recorded'),
    )
    throw error
  }
}
