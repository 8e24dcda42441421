/** Transfers into adopted tables in killed processes, before and after the commit of the server. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startChild } from '../../../test/support/child.ts'
import { type Killer, openKiller } from '../transfers/kills.fixture.ts'
import type { Transfer } from '../transfers/model/transfer.ts'
import type { RowTransferProcess } from './row-transfer-process.fixture.ts'
import { IDS, idle, openRowTransfers, type RowTransfers } from './row-transfers.fixture.ts'

const PROGRAM = new URL('./row-transfer-process.fixture.ts', import.meta.url)
const TYPE = 'uuid'
const [acme] = IDS[TYPE]

let here: RowTransfers
let killer: Killer
let number = 0
/** A tenant with rows, in the adopted tables. */
let id: string

beforeAll(async () => {
  here = await openRowTransfers(TYPE)
  const { url, otherUrl, archives } = here
  const options: RowTransferProcess = { url, otherUrl, archives, type: TYPE }
  killer = await openKiller(url, () => startChild(PROGRAM, options))
})
afterAll(async () => {
  await killer?.close()
  await here?.end()
})
beforeEach(async () => {
  id = `018f0000-0000-7000-9000-${String(++number).padStart(12, '0')}`
  await here.tenants.create({ id, name: 'Tenant', isolation: 'rowscope-pg' })
  await here.tenants.installation.install(id, idle)
  await here.run(id, `insert into labels values (default, 'one'), (default, 'two')`)
})

type Started = { readonly tenantId: string; readonly id: string }
type Kind = Extract<Transfer['kind'], 'restore' | 'rehearsal' | 'clone' | 'move' | 'undo'>

/** Starts a transfer of each kind, after its preparation. */
const BEGIN: Readonly<Record<Kind, () => Promise<Started>>> = {
  async restore() {
    const backupId = await here.backup(id)
    await here.run(id, `insert into labels values (default, 'later')`)
    return (await here.transfers.backups.restore(id, { backupId })).transfer
  },
  async rehearsal() {
    const backupId = await here.backup(id)
    return (await here.transfers.backups.restore(id, { backupId, rehearse: true })).transfer
  },
  clone: async () => (await here.transfers.clone(id, { id: id.replace('-9000-', '-a000-'), name: 'A copy' })).transfer,
  async move() {
    await here.done(await here.transfers.move(id, { isolation: 'schema-pg' }))
    await here.run(id, `insert into labels values (default, 'elsewhere')`)
    return (await here.transfers.move(id, { isolation: 'rowscope-pg' })).transfer
  },
  async undo() {
    const backupId = await here.backup(id)
    await here.run(id, `insert into labels values (default, 'later')`)
    await here.done(await here.transfers.backups.restore(id, { backupId }))
    return (await here.transfers.move(id, { undo: true })).transfer
  },
}
/** The labels afterwards. */
const RESULT: Readonly<Record<Kind, readonly string[]>> = {
  restore: ['one', 'two'],
  rehearsal: ['one', 'two'],
  clone: ['one', 'two'],
  move: ['elsewhere', 'one', 'two'],
  undo: ['later', 'one', 'two'],
}

const labels = async (tenantId: string) => (await here.rows(tenantId)).labels.map(({ label }: any) => label)

/** At `done` the server has committed the exchange of the rows, and the backoffice has not. */
const CASES: readonly { kind: Kind; phase: Transfer['phase'] }[] = [
  { kind: 'restore', phase: 'loading' },
  { kind: 'restore', phase: 'switching' },
  { kind: 'restore', phase: 'done' },
  { kind: 'rehearsal', phase: 'verifying' },
  { kind: 'clone', phase: 'switching' },
  { kind: 'clone', phase: 'done' },
  { kind: 'move', phase: 'closing' },
  { kind: 'move', phase: 'indexing' },
  { kind: 'move', phase: 'done' },
  { kind: 'undo', phase: 'switching' },
  { kind: 'undo', phase: 'done' },
]

describe('a killed process', () => {
  test.each(CASES)('leaves a $kind, interrupted in phase $phase, to the next process', async ({ kind, phase }) => {
    const started = await BEGIN[kind]()
    const before = await here.others(id)
    const former = kind === 'move' || kind === 'undo' ? undefined : await labels(id)
    await killer.killedAt(phase, started.id)
    expect((await here.transfers.get(started.tenantId, started.id)).state).toBe('running')

    // The next request meets the fence, and returns to the location that the registry names.
    if (former) expect(await labels(id)).toEqual(former)
    else if (phase !== 'closing') expect((await here.tenants.get(id)).maintenance).not.toBeNull()

    await killer.expire(started.id)
    await here.transfers.work(started.id, idle)
    expect(await here.transfers.get(started.tenantId, started.id)).toMatchObject({
      state: 'completed',
      failure: null,
      attempts: 2,
    })
    expect(await labels(kind === 'clone' ? started.tenantId : id)).toEqual(RESULT[kind])
    expect(await here.tenants.get(id)).toMatchObject({ status: 'active', maintenance: null })
    if (kind !== 'clone') expect(await here.others(id)).toEqual(before)

    await here.transfers.recover()
    expect(await here.sql(`select from multitenancy.storage_locations where state <> 'former'`)).toEqual([])
    const known = await here.sql(
      `select from multitenancy.storage_locations where isolation = 'rowscope-pg' and (tenant_id, locator) not in (
         select tenant, locator from tenantry.row_locations)`,
    )
    expect(await here.aside()).toHaveLength(known.length)
    for (const driver of here.tenants.storage.drivers) {
      expect(await Array.fromAsync(here.tenants.reconciliation.mismatches(driver, 'main'))).toEqual([])
    }
  })

  test('whose transfer then fails leaves the former rows, and the tenant in use', async () => {
    const rows = await here.rows(acme)
    const backupId = await here.backup(acme)
    await here.run(acme, `insert into labels values (default, 'later')`)
    const [later, others] = [await here.rows(acme), await here.others(acme)]
    const { transfer } = await here.transfers.backups.restore(acme, { backupId })
    await killer.killedAt('done', transfer.id)
    await here.transfers.cancel(acme, transfer.id)
    await here.transfers.recover()
    expect(await here.rows(acme)).toEqual(later)
    expect(rows).not.toEqual(later)
    expect(await here.others(acme)).toEqual(others)
    expect(await here.sql(`select from multitenancy.storage_locations where tenant_id = $1`, [acme])).toEqual([])
  })
})
