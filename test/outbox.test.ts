/** Calls of the built-in satellites inside a tenant's transaction commit or are rolled back with it. */
import { createHash, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../src/drivers/isolation/sqlite/driver.ts'
import { memoryStore } from '../src/drivers/store/memory.ts'
import { recordChange, runInContext } from '../src/index.ts'
import { uuidv7 } from '../src/kernel/base/ids.ts'
import type { OutboxKind } from '../src/kernel/outbox/kinds.ts'
import { kernelPart } from '../src/kernel/parts.ts'
import { auditLogs } from '../src/satellites/audit-logs/index.ts'
import { postedReports } from '../src/satellites/billing/usage/posted-reports.ts'
import { metrics } from '../src/satellites/metrics/index.ts'
import { quotas } from '../src/satellites/quotas/index.ts'
import { webhooks } from '../src/satellites/webhooks/index.ts'
import { builtInSatellites } from '../src/service/satellites.ts'
import type { Satellite } from '../src/tenancy/satellite.ts'
import type { Tenancy } from '../src/tenancy/tenancy.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../src/testing/base/tenancy.ts'

const ANN = { type: 'user', id: 'ann', name: 'Ann' } as const
const DAY_MS = 86_400_000
const EVENT = 'note.created'

const satellites = () => [auditLogs(), webhooks(), metrics(), quotas()] as const
type Satellites = [...ReturnType<typeof satellites>]

let opened: TestTenancy<Satellites>
let tenancy: Tenancy<Satellites>

beforeAll(async () => {
  opened = await testTenancy<Satellites>(inject('postgresUrl'), {
    isolation: [schemaPg(), sqliteMemory()],
    satellites: [...satellites()] as Satellites,
    store: memoryStore(),
    egress: { allowPrivateNetworks: true, allowHttp: true },
  })
  tenancy = opened.tenancy
})
afterAll(() => opened.end())

async function callAll(id: string): Promise<string[]> {
  const { events } = tenancy.kernel
  await recordChange(events, { action: 'notes.create', tenantId: id, target: 'note:1', after: { title: 'One' } })
  const deliveries = await tenancy.webhooks.dispatch(id, EVENT, { id: 1 })
  await tenancy.metrics.increment(id, 'notes', 2)
  await tenancy.quotas.track(id, 'notes', 3)
  return deliveries
}

async function effects(id: string) {
  const [entries, deliveries, counts] = await Promise.all([
    tenancy.auditLogs.list(id, { action: 'notes.create' }),
    tenancy.kernel.database.sql('select from multitenancy.webhook_deliveries where tenant_id = $1 and event = $2', [
      id,
      EVENT,
    ]),
    tenancy.metrics.list(id, { key: 'notes' }),
  ])
  return {
    actors: entries.data.map(({ actor }) => actor.id),
    deliveries: deliveries.rows.length,
    counted: counts.data.map(({ value }) => value),
    tracked: await tenancy.quotas.getUsage(id, 'notes'),
  }
}

describe.for(['schema-pg', 'sqlite-memory'])('%s', (isolation) => {
  const id = `of-${isolation}`
  beforeAll(async () => {
    await installed(tenancy, { id, name: 'Acme', isolation })
    await tenancy.webhooks.create(id, { url: 'http://127.0.0.1:9/', events: [EVENT] })
  })

  test('a rolled back transaction has no audit entry, delivery or count', async () => {
    const tenant = await tenancy.tenant(id)
    const failing = tenant.transaction(async () => {
      expect(await callAll(id)).toEqual([])
      throw new Error('rolled back')
    })
    await expect(failing).rejects.toThrow('rolled back')
    await tenant.transaction(() => tenancy.metrics.increment(id, 'other'))
    await tenancy.tenants.outbox.settled()
    expect(await effects(id)).toEqual({ actors: [], deliveries: 0, counted: [], tracked: 0 })
  })

  test('a committed transaction has each of them once, with the actor of the call', async () => {
    const tenant = await tenancy.tenant(id)
    await runInContext({ actor: ANN }, () => tenant.transaction(() => callAll(id)))
    await eventually(async () =>
      expect(await effects(id)).toEqual({ actors: ['ann'], deliveries: 1, counted: [2], tracked: 3 }),
    )
  })

  test('calls with one id have one effect, inside and outside of a transaction', async () => {
    const before = await effects(id)
    const tenant = await tenancy.tenant(id)
    const ids: Record<'change' | 'event', string> = { change: randomUUID(), event: randomUUID() }
    const call = async () => {
      const change = { action: 'notes.create', tenantId: id, target: 'note:2' }
      await recordChange(tenancy.kernel.events, change, { id: ids.change })
      return tenancy.webhooks.dispatch(id, EVENT, { id: 2 }, { id: ids.event })
    }
    await tenant.transaction(call)
    const twice = { actors: before.actors.length + 1, deliveries: before.deliveries + 1 }
    const counts = async () => {
      const { actors, deliveries } = await effects(id)
      return { actors: actors.length, deliveries }
    }
    await eventually(async () => expect(await counts()).toEqual(twice))
    expect(await call()).toEqual([])
    await tenant.transaction(call)
    await tenancy.tenants.outbox.settled()
    expect(await counts()).toEqual(twice)
    ids.change = randomUUID()
    ids.event = randomUUID()
    const failing = tenancy.transaction(async () => {
      await call()
      throw new Error('rolled back')
    })
    await expect(failing).rejects.toThrow('rolled back')
    const returned = await Promise.all([call(), call(), call()])
    expect(returned.flat()).toHaveLength(1)
    expect(await counts()).toEqual({ actors: twice.actors + 1, deliveries: twice.deliveries + 1 })
    ids.event = 'no-uuid'
    const invalid = { code: 'E_INVALID_REQUEST', extras: { errors: [{ path: 'id', message: 'Invalid UUID' }] } }
    await expect(call()).rejects.toMatchObject(invalid)
    await expect(tenant.transaction(call)).rejects.toMatchObject(invalid)
  })

  test('an id in upper case is the same id, and the entry has the actor of the call', async () => {
    const before = await effects(id)
    const tenant = await tenancy.tenant(id)
    const callId = 'ABCDEFAB'.concat(randomUUID().slice(8))
    const change = { action: 'notes.create', tenantId: id, target: 'note:3' }
    const call = (ofCall: string) => recordChange(tenancy.kernel.events, change, { id: ofCall })
    await runInContext({ actor: ANN }, () => tenant.transaction(() => call(callId)))
    await eventually(async () => expect((await effects(id)).actors).toEqual(['ann', ...before.actors]))
    await call(callId)
    await call(callId.toLowerCase())
    await tenant.transaction(() => call(callId.toLowerCase()))
    await tenancy.tenants.outbox.settled()
    expect((await effects(id)).actors).toEqual(['ann', ...before.actors])
  })

  test.for(['x\0', 'half an emoji \ud83d'])(
    'a call by an actor whose name cannot be stored fails: %j',
    async (name) => {
      const tenant = await tenancy.tenant(id)
      const failing = runInContext({ actor: { ...ANN, name } }, () => tenant.transaction(() => callAll(id)))
      await expect(failing).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    },
  )
})

/** Digests of the JSON Schemas of payloads, without descriptions. */
const FORMS = {
  'billing.reportUsage': '6ed5c56d',
  'changes.record': 'aa61b645',
  'metrics.increment': '93be8e45',
  'quotas.track': '71f7caaf',
  'webhooks.dispatch': '6a689e56',
}

test('a kind of entry names the form of its payload: a new form has a new kind', () => {
  const satellites: readonly Satellite[] = builtInSatellites()
  const kinds = [kernelPart, ...satellites].flatMap(({ outbox = [] }): readonly OutboxKind[] => outbox)
  const withoutWords = (key: string, value: unknown) => (/^(description|examples?)$/.test(key) ? undefined : value)
  const digest = ({ schema }: OutboxKind) => {
    const form = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
    return createHash('sha256').update(JSON.stringify(form, withoutWords)).digest('hex').slice(0, 8)
  }
  // Processes of both releases relay entries of a kind. A form with one more optional member, which the former release
  // ignores, keeps its name. Give another new form a new name, and declare both (kernel/outbox/kinds.ts).
  expect(Object.fromEntries([...kinds, postedReports].map((kind) => [kind.name, digest(kind)]))).toEqual(FORMS)
})

/** Milliseconds since 1970 of an id of version 7. */
const timeOf = (id: string): number => Number.parseInt(id.replace('-', '').slice(0, 12), 16)

test('a server whose clock is fast does not advance the ids of the process that relays', async () => {
  const id = 'of-schema-pg'
  const before = timeOf(uuidv7()) // later than now after a test with another clock
  await tenancy.kernel.database.sql(
    `insert into tenantry.outbox (id, tenant, kind, payload, posted_at)
     values (gen_random_uuid(), $1, 'changes.record', '{"action": "notes.early", "target": "note:1"}', now() + interval '1 year')`,
    [id],
  )
  const entries = async () => (await tenancy.auditLogs.list(id, { action: 'notes.early' })).data
  await eventually(async () => expect(await entries()).toHaveLength(1))
  expect(timeOf(uuidv7()) - before).toBeLessThan(DAY_MS)
})

test('SQL whose error contains NUL does not stop the entries behind it', async () => {
  const id = 'of-schema-pg'
  const { pool } = await tenancy.tenant(id)
  const post = 'select tenantry.post(gen_random_uuid(), $1, $2)'
  await pool.query(post, ['quotas.track', JSON.stringify({ quota: '\0', amount: 1 })])
  await pool.query(post, ['metrics.increment', JSON.stringify({ key: 'behind', amount: 1 })])
  await eventually(async () => expect((await tenancy.metrics.list(id, { key: 'behind' })).data).toHaveLength(1))
  const { failed } = tenancy.tenants.outbox
  const isKept = [{ kind: 'quotas.track', error: expect.stringContaining('\u{fffd}') }]
  await eventually(async () => expect((await failed.list({ tenantId: id })).data).toMatchObject(isKept))
  expect(await failed.retry({ tenantId: id })).toEqual({ applied: 0, failed: 1 })
  expect((await failed.list({ tenantId: id })).data).toMatchObject(isKept)
})
