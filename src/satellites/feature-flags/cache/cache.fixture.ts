/** Two tenancies on one database: flags change in `here` and are read in `there`, which learns changes from notifications only. */
import { randomUUID } from 'node:crypto'
import { expect, vi } from 'vitest'
import { eventually, notificationsReceived, type TestTenancy } from '../../../testing/base/tenancy.ts'
import { type FlagsTenancy, openFlags, queriesOf } from '../flags.fixture.ts'
import type { featureFlags } from '../index.ts'

export interface FlagsPair {
  readonly opened: TestTenancy<[ReturnType<typeof featureFlags>]>
  readonly here: FlagsTenancy
  readonly there: FlagsTenancy
  /** Resolves when `there` has received the notifications of all earlier commits. */
  notificationsReceived(): Promise<void>
  /** A change without a notification: a cached flag does not show it. */
  setInSecret(tenantId: string, key: string, enabled: boolean): Promise<unknown>
  /** Number of statements about flags that `there` sent while `work` ran. */
  queriesOf(work: () => Promise<unknown>): Promise<number>
  /** Starts `read` in `there`: its statement has run, and its result is delayed until `release`. */
  slowRead(read: () => Promise<boolean>): Promise<{ before: Promise<boolean>; release: () => void }>
}

/** @param urlOf maps the database's URL to the URL for `there` */
export async function openPair(
  postgresUrl: string,
  urlOf: (url: string) => string | Promise<string> = (url) => url,
): Promise<FlagsPair> {
  const opened = await openFlags(postgresUrl)
  const here = opened.tenancy
  const there = await opened.open({ database: { url: await urlOf(opened.url) } })
  // Both listen, once a change of one reaches the other.
  await eventually(async () => {
    const ghost = `ghost-${randomUUID().slice(0, 8)}`
    await here.tenants.create({ id: ghost, name: 'Ghost' })
    for (const one of [here, there]) await one.featureFlags.isEnabled('flag', { tenantId: ghost })
    await here.featureFlags.set(ghost, 'flag', { enabled: true })
    await notificationsReceived(there)
    expect(await there.featureFlags.isEnabled('flag', { tenantId: ghost })).toBe(true)
  })
  return {
    opened,
    here,
    there,
    notificationsReceived: () => notificationsReceived(there),
    setInSecret: (tenantId, key, enabled) =>
      here.kernel.database.sql(
        `insert into multitenancy.feature_flags (id, tenant_id, key, enabled, created_at, updated_at)
         values (gen_random_uuid(), $1, $2, $3, now(), now())
         on conflict (tenant_id, key) do update set enabled = excluded.enabled`,
        [tenantId, key, enabled],
      ),
    queriesOf: (work) => queriesOf(there, work),
    async slowRead(read) {
      const { database } = there.kernel
      const original = database.sql.bind(database)
      const [done, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      vi.spyOn(database, 'sql').mockImplementationOnce(async (...given) => {
        const result = await original(...given)
        done.resolve()
        await held.promise
        return result
      })
      const before = read()
      await done.promise
      return { before, release: held.resolve }
    },
  }
}
