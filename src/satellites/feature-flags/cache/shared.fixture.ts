/** Tenancies that share flags through Redis. */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { inject } from 'vitest'
import { redisStore } from '../../../drivers/store/redis.ts'
import type { TestTenancy } from '../../../testing/base/tenancy.ts'
import { type FlagsTenancy, openFlags } from '../flags.fixture.ts'
import type { featureFlags } from '../index.ts'

export const CACHE_TTL_MS = 60_000
/** Longest time for which Redis can hold an older value after a change. */
export const SHARED_TTL_MS = CACHE_TTL_MS + 10_000
export const CHANNEL = 'multitenancy_feature_flags'

export interface SharedFlagsOpened {
  readonly opened: TestTenancy<[ReturnType<typeof featureFlags>]>
  readonly here: FlagsTenancy
  readonly there: FlagsTenancy
  readonly keyPrefix: string
  readonly redis: Redis
  end(): Promise<void>
}

export async function openSharedFlags(): Promise<SharedFlagsOpened> {
  const url = inject('redisUrl')
  const keyPrefix = `test-${randomUUID()}:`
  const redis = new Redis(url)
  const opened = await openFlags(inject('postgresUrl'), { store: redisStore({ url, keyPrefix }) })
  return {
    opened,
    here: opened.tenancy,
    there: await opened.open(),
    keyPrefix,
    redis,
    async end() {
      await opened.end()
      redis.disconnect()
    },
  }
}

/** Flags of one tenant in the database and in Redis, read and written without the satellite. */
export function flagsOf({ kernel }: FlagsTenancy, tenantId: string) {
  return {
    kept: (key = 'one') => kernel.store.get(tenantId, `feature-flags/${key}`),
    forgetInStore: (key = 'one') => kernel.store.delete(tenantId, `feature-flags/${key}`),
    /** A row without a tombstone, as long after its change. */
    setLongAgo: (key: string, enabled: boolean) =>
      kernel.database.sql(
        `insert into multitenancy.feature_flags (id, tenant_id, key, enabled, created_at, updated_at)
         values (gen_random_uuid(), $1, $2, $3, now(), now())
         on conflict (tenant_id, key) do update set enabled = excluded.enabled`,
        [tenantId, key, enabled],
      ),
    /** Redis keeps the old value. */
    async changeInSecret() {
      await this.setLongAgo('one', true)
      await kernel.store.set(tenantId, 'feature-flags/one', ruleOf(true), 60)
      await this.setLongAgo('one', false)
    },
  }
}

const ruleOf = (enabled: boolean) => JSON.stringify({ key: 'one', enabled, rolloutPercent: null, bucketKey: null })
