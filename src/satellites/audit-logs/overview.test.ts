import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { Attention } from '../../tenants/overview/attention.ts'
import { type Audited, openAudited } from './audited.fixture.ts'
import { bypassTriggers } from './bypass-triggers.fixture.ts'

const ANN = { type: 'user', id: 'ann', name: 'Ann' } as const

let audited: Audited
beforeAll(async () => {
  audited = await openAudited(inject('postgresUrl'))
})
afterAll(() => audited.close())

const tenant = async () => {
  const id = uuidv7()
  await audited.tenancy.tenants.create({ id, name: 'Acme' })
  await audited.tenancy.kernel.database.sql(`update multitenancy.tenants set status = 'active' where id = $1`, [id])
  return id
}

describe('tenants.explain', () => {
  test('names the newest change behind a failed check', async () => {
    const id = await tenant()
    const { tenants } = audited.tenancy
    await audited.as({ ...ANN, name: 'Bob' }, () => tenants.suspend(id))
    await tenants.activate(id)
    audited.clock.advance(60_000)
    await audited.as(ANN, () => tenants.suspend(id))
    audited.clock.advance(60_000)
    await tenants.update(id, { name: 'Acme Corp' })
    const { checks } = await tenants.explain(id)
    const [entry] = (await audited.tenancy.auditLogs.list(id, { action: 'tenants.suspend' })).data
    expect(checks.find(({ check }) => check === 'status')).toMatchObject({
      passed: false,
      by: { id: entry?.id, action: 'tenants.suspend', actor: 'Ann', at: entry?.createdAt },
    })
    expect(checks.find(({ check }) => check === 'exists')).toMatchObject({ passed: true, by: null })
  })
})

describe('the timeline', () => {
  test('has the changes of the tenant, page by page', async () => {
    const id = await tenant()
    const { tenants } = audited.tenancy
    for (const name of ['one', 'two', 'three']) {
      audited.clock.advance(1_000)
      await audited.as(ANN, () => tenants.update(id, { name }))
    }
    const { timelines } = tenants.overview
    const first = await timelines.list(id, { limit: 2, kind: 'change' })
    const second = await timelines.list(id, { limit: 2, kind: 'change', cursor: first.nextCursor ?? '' })
    const entries = [...first.data, ...second.data]
    const logged = (await audited.tenancy.auditLogs.list(id)).data
    expect(entries.map((entry) => entry.id)).toEqual(logged.map((entry) => entry.id))
    expect(entries[0]).toMatchObject({ actor: 'Ann', title: 'Updated by Ann', params: { id, target: `tenant:${id}` } })
    expect(second.nextCursor).toBeNull()
  })
})

describe('the attention list', () => {
  const listed = (tenantId?: string) =>
    new Attention(audited.tenancy.kernel).list({ kind: 'auditVerification', ...(tenantId ? { tenantId } : {}) })

  test('has a failed verification until a verification succeeds', async () => {
    const id = await tenant()
    await audited.tenancy.auditLogs.sealer.seal()
    await audited.tenancy.auditLogs.verify()
    expect((await listed()).data).toEqual([])
    const rename = (name: string) =>
      bypassTriggers(audited, `update multitenancy.audit_entries set actor_name = $2 where tenant_id = $1`, [id, name])
    const [entry = expect.fail('no entry')] = (await audited.tenancy.auditLogs.list(id)).data
    await rename('Eve')
    await audited.tenancy.auditLogs.verify()
    expect((await listed()).data).toMatchObject([{ severity: 'high', count: 1, operation: 'auditLogs.verify' }])
    expect((await listed(id)).data).toMatchObject([{ tenantId: id, params: { tenantId: id } }])
    expect((await listed(await tenant())).data).toEqual([])
    await rename(entry.actor.name)
    await audited.tenancy.auditLogs.verify({ tenantId: id })
    expect((await listed()).data).toHaveLength(1)
    await audited.tenancy.auditLogs.verify()
    expect((await listed()).data).toEqual([])
  })
})
