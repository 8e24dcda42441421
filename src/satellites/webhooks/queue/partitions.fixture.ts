/** A tenancy at midday with a clock that tests move, and its partitions. */
import { afterAll, inject } from 'vitest'
import { startReceiver } from '../../../../test/support/receiver.ts'
import type { TenancyConfig } from '../../../tenancy/tenancy.ts'
import { type FakeClock, fakeClock } from '../../../testing/base/clock.ts'
import type { TestTenancy } from '../../../testing/base/tenancy.ts'
import type { WebhooksOptions } from '../index.ts'
import { webhooks } from '../index.ts'
import { DEVELOPMENT, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'

export const DAY_MS = 86_400_000
export const KINDS = ['messages', 'deliveries', 'attempts'] as const

/** Cleanup after a test, in reverse order. */
export const ends: (() => Promise<unknown>)[] = []
export async function endAll(): Promise<void> {
  for (const end of ends.splice(0).reverse()) await end()
}

export interface Opened {
  readonly tenancy: WebhooksTenancy
  readonly clock: FakeClock
  /** Midnight of the day of the installation. */
  readonly first: number
  readonly another: (options?: WebhooksOptions, config?: Config) => Promise<WebhooksTenancy>
}
type Config = Partial<TenancyConfig<WebhooksSatellites>>

/** The tenancy of a test file. Each test starts with the partitions of a new installation. */
export function sharedOpened(): () => Promise<Opened> {
  const first = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const clock = fakeClock(new Date(first + DAY_MS / 2))
  let shared: Promise<TestTenancy<WebhooksSatellites>> | undefined
  afterAll(async () => (await shared)?.end())
  return async () => {
    clock.set(new Date(first + DAY_MS / 2))
    shared ??= openWebhooks(inject('postgresUrl'), {}, { clock, role: 'api' })
    const { tenancy, open } = await shared
    await reset(tenancy)
    const another: Opened['another'] = async (options = {}, config = {}) => {
      const other = await open({ satellites: [webhooks(options)], egress: DEVELOPMENT, clock, role: 'api', ...config })
      ends.push(() => other.stop())
      return other
    }
    return { tenancy, clock, first, another }
  }
}

async function reset({ kernel: { database }, webhooks }: WebhooksTenancy): Promise<void> {
  const tables = [...KINDS, 'subscriptions', 'streams', 'counters'].map((name) => `multitenancy.webhook_${name}`)
  await database.sql(`truncate ${tables.join(', ')}`)
  const { rows } = await database.sql(
    `select string_agg(inhrelid::regclass::text, ', ') as names from pg_inherits join pg_class c on c.oid = inhrelid
     where inhparent = any($1::regclass[]) and pg_get_expr(relpartbound, c.oid) <> 'DEFAULT'`,
    [tables.slice(0, KINDS.length)],
  )
  if (rows[0].names) await database.sql(`drop table ${rows[0].names}`)
  await webhooks.partitions.keep()
}

export const receiver = async () => {
  const started = await startReceiver()
  ends.push(started.close)
  return started
}

/** Start and end of the partitions of each table, in days from `first`. */
export async function bounds({ kernel }: WebhooksTenancy, first: number): Promise<Record<string, [number, number][]>> {
  const { rows } = await kernel.database.sql(
    `select split_part(inhparent::regclass::text, '_', 2) as kind, pg_get_expr(relpartbound, c.oid) as bounds
     from pg_inherits join pg_class c on c.oid = inhrelid
     where inhparent in ('multitenancy.webhook_messages'::regclass, 'multitenancy.webhook_deliveries'::regclass,
       'multitenancy.webhook_attempts'::regclass) and pg_get_expr(relpartbound, c.oid) <> 'DEFAULT'
     order by relname`,
  )
  const dayOf = (id = '') => (Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16) - first) / DAY_MS
  const found: Record<string, [number, number][]> = { messages: [], deliveries: [], attempts: [] }
  for (const { kind, bounds } of rows) {
    const [, from, to] = /FROM \('(.*)'\) TO \('(.*)'\)/.exec(bounds) ?? []
    found[kind]?.push([dayOf(from), dayOf(to)])
  }
  return found
}

/** Midnight of the first day with partitions: a copied database has the partitions of its template. */
export async function firstDayOf(tenancy: WebhooksTenancy): Promise<number> {
  const [first] = (await bounds(tenancy, 0)).messages ?? []
  if (!first) throw new Error('there are no partitions')
  return first[0] * DAY_MS
}

export const inStep = (...of: [number, number][]) => ({ messages: of, deliveries: of, attempts: of })

export async function countsOf({ kernel }: WebhooksTenancy, suffix = ''): Promise<number[]> {
  const counts = KINDS.map((kind) => `(select count(*) from multitenancy.webhook_${kind}${suffix}) as ${kind}`)
  const { rows } = await kernel.database.sql(`select ${counts.join(', ')}`)
  return KINDS.map((kind) => rows[0][kind])
}

/** Starts a long reading transaction, like a dump. Returns the function that ends it. */
export async function reading({ kernel }: WebhooksTenancy): Promise<() => Promise<void>> {
  const [isReading, isFinished] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const session = kernel.database.session(async (client) => {
    await client.query('begin')
    for (const kind of KINDS) await client.query(`select count(*) from multitenancy.webhook_${kind}`)
    isReading.resolve()
    await isFinished.promise
    await client.query('commit')
  })
  const end = () => {
    isFinished.resolve()
    return session
  }
  ends.push(end)
  await isReading.promise
  return end
}

/** Number of transactions of this database that wait for a lock. */
export const waiting = async ({ kernel }: WebhooksTenancy): Promise<number> => {
  const { rows } = await kernel.database.sql(
    `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows[0].count
}
