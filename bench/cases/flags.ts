/**
 * Benchmark of a cached flag at 50 % for a thousand users, against other flag clients that hash in the process, and
 * against the hash only; and of the time until a change reaches another process, with and without Redis.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { GrowthBookClient } from '@growthbook/growthbook'
import { InMemoryProvider, OpenFeature } from '@openfeature/server-sdk'
import { type FeatureFlags, featureFlags } from 'tenantry/satellites/feature-flags'
import { InMemStorageProvider, Unleash } from 'unleash-client'
import xxhash from 'xxhash-wasm'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { tenantryProvider } from '../../src/satellites/feature-flags/openfeature.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { startChild } from '../../test/support/child.ts'
import { alternate, type Bench, type Result, RUNS } from '../measure.ts'
import { openRedis } from '../redis.ts'
import { fillRegistry, withTenancy } from '../tenancy.ts'

const KEY = 'new-checkout'
const USERS = Array.from({ length: 1_000 }, (_, n) => `user-${n * 7_919}`)
const CALLS = { quick: 100_000, full: 1_000_000 }
const SDK_SHARE = 20
const PERCENT = 50

export const flags = {
  name: 'flags',
  async run({ postgresUrl, quick, say }: Bench): Promise<Result[]> {
    const changes = quick ? 50 : 500
    const results = await withFlags(postgresUrl, undefined, async (flagged) => [
      ...(await evaluations(flagged, quick ? CALLS.quick : CALLS.full)),
      await propagation(flagged, changes),
    ])
    const redis = await openRedis(say)
    if (!redis) return results
    try {
      return [...results, await withFlags(postgresUrl, redis.url, (flagged) => propagation(flagged, changes))]
    } finally {
      await redis.stop()
    }
  },
}

/** A tenancy with one tenant that has a flag. */
interface Flagged {
  readonly service: FeatureFlags
  readonly tenantId: string
  readonly url: string
  /** Absent if the store is in PostgreSQL. */
  readonly redis: { readonly url: string; readonly keyPrefix: string } | undefined
}

function withFlags<T>(
  postgresUrl: string,
  redisUrl: string | undefined,
  work: (flagged: Flagged) => Promise<T>,
): Promise<T> {
  const redis = redisUrl === undefined ? undefined : { url: redisUrl, keyPrefix: `bench-${randomUUID()}:` }
  return withTenancy(
    postgresUrl,
    async (tenancy, url) => {
      const service = (tenancy as unknown as { featureFlags: FeatureFlags }).featureFlags
      await fillRegistry(tenancy, 1)
      const { data } = await tenancy.tenants.list({ limit: 1 })
      const tenantId = data[0]?.id ?? ''
      await service.set(tenantId, KEY, { enabled: true, rolloutPercent: PERCENT })
      await eventually(async () => {
        if ((await service.explain(KEY, { tenantId })).reason !== 'SPLIT') throw new Error('not received yet')
      })
      return work({ service, tenantId, url, redis })
    },
    { satellites: [featureFlags()], ...(redis && { store: redisStore(redis) }) },
  )
}

async function evaluations({ service, tenantId }: Flagged, calls: number): Promise<Result[]> {
  const { h64 } = await xxhash()
  const texts = USERS.map((user) => `${KEY}:${user}`)
  const unleash = await startUnleash()
  const growthBook = new GrowthBookClient().initSync({
    payload: { features: { [KEY]: { defaultValue: false, rules: [{ force: true, coverage: PERCENT / 100 }] } } },
  })
  await OpenFeature.setProviderAndWait('ours', tenantryProvider(service))
  await OpenFeature.setProviderAndWait('in-memory', inMemory())
  const [through, peer] = [OpenFeature.getClient('ours'), OpenFeature.getClient('in-memory')]
  const viaSdk = calls / SDK_SHARE
  const figures = await alternate(RUNS, {
    ours: awaited(calls, (bucketKey) => service.isEnabled(KEY, { tenantId, bucketKey })),
    hash: plain(calls, (_user, n) => h64(texts[n] as string) >= 0n),
    unleash: plain(calls, (userId) => unleash.isEnabled(KEY, { userId })),
    growthBook: plain(calls, (id) => growthBook.isOn(KEY, { attributes: { id } })),
    through: awaited(viaSdk, (targetingKey) => through.getBooleanValue(KEY, false, { tenantId, targetingKey })),
    inMemory: awaited(viaSdk, (targetingKey) => peer.getBooleanValue(KEY, false, { tenantId, targetingKey })),
  })
  unleash.destroy()
  growthBook.destroy()
  await OpenFeature.clearProviders()
  const name = 'a cached flag at 50 %, awaited'
  const against = (what: string, reference: number, goal: number, ours = figures.ours, of = name): Result => {
    return { name: of, against: what, unit: 'µs', ours, reference, ratio: reference / ours, goal }
  }
  return [
    { name, value: `${figures.ours.toFixed(2)} µs`, goal: 'under 0.7 µs' },
    against('the hash only, xxhash-wasm', figures.hash, 0.4),
    against('unleash-client', figures.unleash, 1),
    against('GrowthBook', figures.growthBook, 1),
    against('the OpenFeature SDK with its in-memory provider', figures.inMemory, 1),
    against('the in-memory provider', figures.inMemory, 1, figures.through, 'the same through the OpenFeature SDK'),
  ]
}

/** Microseconds of one awaited call. */
function awaited(calls: number, evaluate: (user: string) => Promise<boolean>): () => Promise<number> {
  return async () => {
    let on = 0
    const started = performance.now()
    for (let n = 0; n < calls; n++) if (await evaluate(USERS[n % USERS.length] as string)) on++
    return perCall(started, calls, on)
  }
}

/** Microseconds of one synchronous call. */
function plain(calls: number, evaluate: (user: string, n: number) => boolean): () => Promise<number> {
  return async () => {
    let on = 0
    const started = performance.now()
    for (let n = 0; n < calls; n++) {
      const index = n % USERS.length
      if (evaluate(USERS[index] as string, index)) on++
    }
    return perCall(started, calls, on)
  }
}

function perCall(started: number, calls: number, on: number): number {
  const microseconds = ((performance.now() - started) / calls) * 1_000
  if (on < calls / 3) throw new Error(`only ${on} of ${calls} evaluations were on`)
  return microseconds
}

async function startUnleash(): Promise<Unleash> {
  const unleash = new Unleash({
    appName: 'bench',
    url: 'http://127.0.0.1:9/',
    refreshInterval: 0,
    disableMetrics: true,
    skipInstanceCountWarning: true,
    storageProvider: new InMemStorageProvider(),
    bootstrap: {
      data: [
        {
          name: KEY,
          type: 'release',
          enabled: true,
          stale: false,
          project: 'default',
          impressionData: false,
          variants: [],
          strategies: [
            {
              name: 'flexibleRollout',
              parameters: { rollout: String(PERCENT), stickiness: 'userId', groupId: KEY },
              constraints: [],
            },
          ],
        },
      ] as never,
    },
  })
  unleash.on('error', () => undefined) // the client warns because it cannot poll for changes
  unleash.on('warn', () => undefined)
  await eventually(() => {
    if (!unleash.getFeatureToggleDefinition(KEY)) throw new Error('not loaded yet')
  })
  return unleash
}

/** Provider with a minimal evaluation that does not hash. */
const inMemory = () =>
  new InMemoryProvider({
    [KEY]: {
      disabled: false,
      defaultVariant: 'on',
      variants: { on: true, off: false },
      contextEvaluator: ({ targetingKey }) => (targetingKey?.endsWith('1') ? 'off' : 'on'),
    },
  })

/** Time from the write to the first evaluation in the other process with the new value. */
async function propagation({ service, tenantId, url, redis }: Flagged, changes: number): Promise<Result> {
  const key = 'on-and-off'
  await service.set(tenantId, key, { enabled: false })
  const child = await startChild(new URL('../flags-process.ts', import.meta.url), { url, redis })
  const times: number[] = []
  try {
    await child.request({ tenantId, key, isOn: false })
    for (let n = 0; n < changes; n++) {
      const isOn = n % 2 === 0
      const seen = child.request({ tenantId, key, isOn })
      await sleep(5) // the other process is polling
      const started = Number(process.hrtime.bigint())
      await service.set(tenantId, key, { enabled: isOn })
      times.push(((await seen) - started) / 1e6)
    }
  } finally {
    await child.kill('SIGTERM')
  }
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) => `${(sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN).toFixed(1)} ms`
  return {
    name: `flag change until its use in another process${redis ? ', with Redis' : ''}`,
    value: `p50 ${at(0.5)}, p99 ${at(0.99)}`,
    goal: 'p99 under 100 ms',
  }
}
