/** Sealing is complete with concurrent transactions and any watermark. */
import { randomBytes, randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { type Audited, openAudited } from './audited.fixture.ts'
import { SealKeyStore } from './seal-key-store.ts'
import { Sealer } from './sealer.ts'

let audited: Audited
/** Of the test. */
let tenant: string
/** Number of entries that were sealed before the test. */
let sealedBefore: number
const ends: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  audited = await openAudited(inject('postgresUrl'))
})
beforeEach(async () => {
  tenant = `acme-${randomUUID()}`
  await seal()
  sealedBefore = (await audited.tenancy.auditLogs.verify()).checked
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})
afterAll(() => audited.close())

const query = async (text: string, values: unknown[] = []) =>
  (await audited.tenancy.kernel.database.sql(text, values)).rows
const record = (target: string, tenantId = tenant) =>
  recordChange(audited.tenancy.kernel.events, { action: 'crm.sync', tenantId, target })
const seal = () => audited.tenancy.auditLogs.sealer.seal()
/** Reads ten entries at a time. */
const sealerOfTen = () => new Sealer(audited.tenancy.kernel, new SealKeyStore(audited.tenancy.kernel), 10)
/** Verifies all entries, without those that were sealed before the test. */
const verify = async () => {
  const { checked, ...found } = await audited.tenancy.auditLogs.verify()
  return { ...found, checked: checked - sealedBefore }
}
/** Sealed entries of the tenant in the order of the chain. */
const chain = async (): Promise<string[]> =>
  (
    await query(
      `select target from multitenancy.audit_seals s join multitenancy.audit_entries e on e.id = s.entry_id
       where s.tenant_id = $1 order by seq`,
      [tenant],
    )
  ).map(({ target }) => target)
const watermark = async () =>
  (await query('select sealed_to as "to", sealed_in as "in" from multitenancy.audit_state'))[0] as {
    to: string
    in: string
  }

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  ends.push(() => client.end())
  return client
}

/** A change whose transaction stays open until it is ended. */
async function beginTransaction(target: string): Promise<(isToCommit?: boolean) => Promise<unknown>> {
  const [isRecorded, isFinished] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const running = audited.tenancy.transaction(async () => {
    await record(target)
    isRecorded.resolve()
    await isFinished.promise
  })
  const ended = running.catch((error) => error)
  await isRecorded.promise
  return (isToCommit = true) => {
    if (isToCommit) isFinished.resolve()
    else isFinished.reject(new Error('no'))
    return ended
  }
}

test('the next pass seals an entry of a transaction that commits after this pass', async () => {
  await record('before')
  const end = await beginTransaction('late')
  await record('meanwhile')
  expect(await seal()).toBe(2)
  await record('after')
  expect(await seal()).toBe(1)
  expect(await seal()).toBe(0)
  await end()
  await record('last')
  expect(await seal()).toBe(2)
  expect(await chain()).toEqual(['before', 'meanwhile', 'after', 'late', 'last'])
  expect(await verify()).toEqual({ ok: true, checked: 5, unsealed: 0, broken: [] })
})

test('a rolled-back transaction leaves nothing', async () => {
  const end = await beginTransaction('never')
  await record('meanwhile')
  expect(await seal()).toBe(1)
  expect(await end(false)).toMatchObject({ message: 'no' })
  expect(await seal()).toBe(0)
  expect((await audited.tenancy.auditLogs.list(tenant)).data.map(({ target }) => target)).toEqual(['meanwhile'])
  expect(await verify()).toEqual({ ok: true, checked: 1, unsealed: 0, broken: [] })
})

test.each(['this database', 'another database of the server'])(
  'a long writing transaction of %s delays the watermark, and no entry',
  async (where) => {
    const client = await connected(where === 'this database' ? audited.url : inject('postgresUrl'))
    await client.query('begin')
    const { rows } = await client.query('select pg_current_xact_id() as xact')
    for (const target of ['one', 'two', 'three']) {
      await record(target)
      expect(await seal()).toBe(1)
      expect(BigInt((await watermark()).to)).toBeLessThanOrEqual(BigInt(rows[0].xact))
      expect(await verify()).toMatchObject({ ok: true })
    }
    await client.query('commit')
    // Other databases of the server write, too.
    await eventually(async () => {
      await seal()
      expect(BigInt((await watermark()).to)).toBeGreaterThan(BigInt(rows[0].xact))
    })
    expect(await chain()).toEqual(['one', 'two', 'three'])
  },
)

test('seals more entries than one batch, also of one transaction', async () => {
  await audited.tenancy.transaction(async () => {
    for (let n = 0; n < 21; n++) await record(`${n}`, `${tenant}-${n % 3}`)
  })
  await record('another')
  expect(await sealerOfTen().seal()).toBe(22)
  expect(await verify()).toEqual({ ok: true, checked: 22, unsealed: 0, broken: [] })
})

test('an interrupted pass keeps the watermark, and leaves the rest to the next pass', async () => {
  for (let n = 0; n < 11; n++) await record(`${n}`)
  const before = await watermark()
  const stop = new AbortController()
  // The signal is checked before each batch: it is aborted after the first.
  let looks = 0
  Object.defineProperty(stop.signal, 'aborted', { get: () => looks++ > 0 })
  expect(await sealerOfTen().seal(stop.signal)).toBe(10)
  expect(await watermark()).toEqual(before)
  expect(await verify()).toEqual({ ok: true, checked: 10, unsealed: 1, broken: [] })
  expect(await seal()).toBe(1)
  // Transactions of other databases of the server delay the watermark.
  await eventually(async () => {
    await seal()
    expect(await watermark()).not.toEqual(before)
  })
})

test('a watermark of another cluster is ignored and replaced', async () => {
  const { in: cluster } = await watermark()
  await record('from another cluster')
  await record('from far ahead in another cluster')
  await query(`update multitenancy.audit_state set sealed_to = pg_current_xact_id(), sealed_in = '7000000000000000000'`)
  await record('from this cluster')
  expect(await verify()).toMatchObject({ ok: true })
  expect(await seal()).toBe(3)
  expect((await watermark()).in).toBe(cluster)
  expect(await verify()).toEqual({ ok: true, checked: 3, unsealed: 0, broken: [] })
})

test('entries with higher numbers of another cluster are sealed once and not read again', async () => {
  await query("alter table multitenancy.audit_entries alter column xact set default '5000000000000'::xid8")
  await record('from another cluster')
  await query('alter table multitenancy.audit_entries alter column xact set default pg_current_xact_id()')
  expect(await seal()).toBe(0)
  await query(`update multitenancy.audit_state set sealed_in = '7000000000000000000'`)
  expect(await seal()).toBe(1)
  await record('from this cluster')
  expect(await seal()).toBe(1)
  expect(await chain()).toEqual(['from another cluster', 'from this cluster'])
  expect(await verify()).toEqual({ ok: true, checked: 2, unsealed: 0, broken: [] })
})

test('a role without rights can read the identifier of the cluster', async () => {
  const role = `nobody_${randomBytes(6).toString('hex')}`
  await query(`create role ${role}`)
  try {
    await audited.tenancy.kernel.database.session(async (client) => {
      await client.query(`set role ${role}`)
      const { rows } = await client.query('select system_identifier::text as id from pg_control_system()')
      expect(rows[0].id).toBe((await watermark()).in)
    })
  } finally {
    await query(`drop role ${role}`)
  }
})

test('ten concurrent sealers seal each entry once during changes, and omit none', async () => {
  const { kernel } = audited.tenancy
  const sealers = Array.from({ length: 10 }, () => {
    const database = new Database({ url: audited.url, max: 2 }, createLogger({ level: 'silent' }))
    ends.push(() => database.close())
    const own = { ...kernel, database }
    return new Sealer(own, new SealKeyStore(own))
  })
  let isRecorded = false
  const recording = Promise.all(
    Array.from({ length: 10 }, async (_, worker) => {
      for (let n = 0; n < 50; n++) {
        if (n % 10 > 0) await record(`${n}`, `${tenant}-${worker}`)
        else await (await beginTransaction(`${n}`))()
      }
    }),
  ).then(() => {
    isRecorded = true
  })
  const sealed = await Promise.all(
    sealers.map(async (sealer) => {
      let sum = 0
      while (!isRecorded) sum += await sealer.seal()
      return sum
    }),
  )
  await recording
  const rest = await seal()
  expect(sealed.reduce((sum, one) => sum + one, rest)).toBe(500)
  expect(await verify()).toEqual({ ok: true, checked: 500, unsealed: 0, broken: [] })
  expect(await seal()).toBe(0)
})
