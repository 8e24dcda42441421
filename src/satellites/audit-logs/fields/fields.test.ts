import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Actor, enterContext } from '../../../kernel/base/context.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import { type TestTenancy, testTenancy } from '../../../testing/base/tenancy.ts'
import { bypassTriggers } from '../bypass-triggers.fixture.ts'
import { auditLogs } from '../index.ts'

const actor: Actor = { type: 'user', id: 'u1', name: 'ann@acme.example' }
const signal = AbortSignal.timeout(60_000)

let opened: TestTenancy<[ReturnType<typeof auditLogs>]>
let log: (typeof opened)['tenancy']['auditLogs']
beforeAll(async () => {
  const erasure = { auditFields: 'encrypt' } as const
  opened = await testTenancy(inject('postgresUrl'), { role: 'api', satellites: [auditLogs()], erasure })
  log = opened.tenancy.auditLogs
})
afterAll(() => opened.end())

const rowsOf = async (id: string): Promise<string> =>
  JSON.stringify(
    (await opened.tenancy.kernel.database.sql('select * from multitenancy.audit_entries where tenant_id = $1', [id]))
      .rows,
  )
const rename = (id: string, name: string, by = opened.tenancy) =>
  enterContext({ requestId: 'r1', actor, ip: '192.0.2.9' }, () => by.tenants.update(id, { name }))
const install = async (id: string) => {
  await opened.tenancy.tenants.create({ id, name: 'Confidential Ltd' })
  await opened.tenancy.tenants.installation.install(id, { isLast: true })
}
const exported = async (id: string) => (await Array.fromAsync(await log.export(id, 'ndjson'))).join('')

describe('encrypted fields of audit entries', () => {
  test('an encrypted entry is not readable in the table, and complete in lists, exports and the stream', async () => {
    await install('acme')
    await rename('acme', 'Renamed Ltd')
    const stored = await rowsOf('acme')
    for (const text of ['Confidential', 'Renamed', 'ann@', '192.0.2.9']) expect(stored).not.toContain(text)

    const [entry] = (await log.list('acme')).data
    expect(entry).toMatchObject({
      action: 'tenants.update',
      actor,
      ip: '192.0.2.9',
      before: { name: 'Confidential Ltd' },
      after: { name: 'Renamed Ltd' },
    })
    expect(await exported('acme')).toContain('"name":"ann@acme.example"')
    expect((await log.listAll({ actor: 'u1', tenantId: 'acme' })).data).toHaveLength(1)

    await log.sealer.seal()
    const batch = await opened.tenancy.kernel.streams.get('audit.entries')?.after(0, 1_000_000)
    expect(JSON.stringify(batch?.body)).toContain('Renamed Ltd')
    expect(await log.verify()).toMatchObject({ ok: true, unsealed: 0 })
  })

  test('an entry without a tenant is not encrypted', async () => {
    await recordChange(opened.tenancy.kernel.events, {
      action: 'service.changed',
      tenantId: null,
      target: 'service',
    })
    const { data } = await log.listAll({ action: 'service.changed' })
    expect(data).toMatchObject([{ before: null, after: null, actor: { name: 'host' } }])
  })

  test('a changed ciphertext breaks the seal, and is shown as stored', async () => {
    await install('forged')
    await log.sealer.seal()
    await bypassTriggers(
      opened,
      `update multitenancy.audit_entries set actor_name = 'encrypted:v1.00000000.AAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA'
       where tenant_id = 'forged' and action = 'tenants.create'`,
    )
    const { ok, broken } = await log.verify({ tenantId: 'forged' })
    expect({ ok, reasons: broken.map(({ reason }) => reason) }).toEqual({ ok: false, reasons: ['changed'] })
    expect((await log.list('forged')).data.at(-1)?.actor.name).toMatch(/^encrypted:/)
  })

  test('encrypted entries are unreadable after an erasure, and their seals stay valid', async () => {
    const { erasures } = opened.tenancy.tenants
    const keeping = await opened.open({ erasure: { auditFields: 'keep' } })
    await install('erased')
    await rename('erased', 'Before the setting', keeping)
    await rename('erased', 'Renamed Ltd')
    const cached = await log.dataKeys.forWriting('erased')
    await erasures.request('erased', { confirm: 'erased', reason: 'request 4711' })
    await erasures.work('erased', { signal })

    const { report, signature } = await erasures.get('erased')
    const ofLog = report?.systems.filter(({ system }) => system === 'audit log') ?? []
    const counts = Object.fromEntries(ofLog.map(({ kind, foundAfterwards }) => [kind, foundAfterwards]))
    expect(counts).toEqual({
      'readable entries': 1,
      'encrypted entries': expect.any(Number),
      'data keys': 0,
    })
    expect(signature).toMatchObject({ key: 'audit', isValid: true })

    const { data } = await log.list('erased')
    expect(data[0]).toMatchObject({ action: 'erasures.complete', actor: { name: '[erased]' }, after: null })
    expect(data.filter(({ actor: { name } }) => name !== '[erased]')).toMatchObject([
      { after: { name: 'Before the setting' } },
    ])
    expect(await exported('erased')).not.toContain('Renamed Ltd')
    await log.sealer.seal()
    expect(await log.verify({ tenantId: 'erased' })).toMatchObject({ ok: true, unsealed: 0 })

    expect(await log.dataKeys.forWriting('erased')).not.toBe(cached)
    expect(await log.dataKeys.forReading(['erased'])).toEqual(new Map([['erased', null]]))
    await keeping.stop()
  })

  test('a destruction without a key leaves no key for later entries', async () => {
    await log.dataKeys.destroy('keyless')
    await log.dataKeys.forWriting('keyless')
    expect(await log.dataKeys.forReading(['keyless'])).toEqual(new Map([['keyless', null]]))
    expect(await log.dataKeys.count('keyless')).toBe(0)
  })

  test('two processes use one key of a tenant', async () => {
    const other = await opened.open()
    await Promise.all([log.dataKeys.forWriting('shared'), other.auditLogs.dataKeys.forWriting('shared')])
    const [one, two] = await Promise.all([log, other.auditLogs].map(({ dataKeys }) => dataKeys.forWriting('shared')))
    expect(two?.decrypt(one?.encrypt('text', 'b') ?? '', 'b')).toBe('text')
    await other.stop()
  })
})
