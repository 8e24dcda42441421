/** A tenant and its objects at a time. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Change, recordChange } from '../../../kernel/events/changes.ts'
import { type Audited, openAudited } from '../audited.fixture.ts'

let audited: Audited
let made = 0
beforeAll(async () => {
  audited = await openAudited(inject('postgresUrl'))
})
afterAll(() => audited.close())

const log = () => audited.tenancy.auditLogs

async function newTenant(): Promise<string> {
  const id = `tenant-${++made}`
  await audited.tenancy.tenants.create({ id, name: 'Acme', metadata: { plan: 'free', seats: 1 } })
  return id
}

/** Now. The next change is later. */
function passed(): Date {
  const now = audited.clock.now()
  audited.clock.advance(1_000)
  return now
}

const at = (id: string, time: Date, until?: Date) => log().at(id, { time, until })
const record = (tenantId: string, target: string, action: string, before: Change['before'], after: Change['after']) =>
  recordChange(audited.tenancy.kernel.events, { action, tenantId, target, before, after })
const stateOf = async (id: string, time: Date, target: string) => {
  const found = (await at(id, time)).objects.find((one) => one.target === target)
  return found && { state: found.state, isComplete: found.isComplete }
}

describe('the tenant at a time', () => {
  test('the members are those of the time, and the plan is that of their metadata', async () => {
    const before = passed()
    const id = await newTenant()
    const first = passed()
    await audited.tenancy.tenants.update(id, { name: 'Acme Ltd', metadata: { seats: 2 } })
    const second = passed()
    await audited.tenancy.tenants.installation.install(id, { isLast: true })
    await audited.tenancy.tenants.suspend(id)
    const third = passed()

    expect(await at(id, before)).toMatchObject({ tenant: null, plan: null })
    const { tenant, plan } = await at(id, first)
    expect(tenant).toEqual({
      name: 'Acme',
      status: 'provisioning',
      metadata: { plan: 'free', seats: 1 },
      domains: [],
      isolation: expect.any(String),
      placement: 'main',
      maintenance: null,
    })
    expect(plan).toBe('free')
    const { metadata } = (await at(id, second)).tenant ?? {}
    expect(metadata).toEqual({ plan: 'free', seats: 2 })
    expect((await at(id, third)).tenant).toMatchObject({ name: 'Acme Ltd', status: 'suspended' })
  })

  test('the changes up to `until` have their authors, the newest first', async () => {
    const id = await newTenant()
    const time = passed()
    await audited.as({ type: 'cli', id: 'ann', name: 'Ann' }, () => audited.tenancy.tenants.update(id, { name: 'B' }))
    const until = passed()
    await audited.tenancy.tenants.update(id, { name: 'C' })
    const named = async (end?: Date) =>
      (await at(id, time, end)).changes.map(({ actor, before, after }) => [actor.name, before?.name, after?.name])
    expect(await named(until)).toEqual([['Ann', 'Acme', 'B']])
    expect(await named()).toEqual([
      ['host', 'B', 'C'],
      ['Ann', 'Acme', 'B'],
    ])
    expect(await named(time)).toEqual([])
    await log().sealer.seal()
    await audited.tenancy.tenants.update(id, { name: 'D' })
    const marks = (await at(id, time)).changes.map(({ isSealed, isEncrypted, isErased }) => [
      isSealed,
      isEncrypted,
      isErased,
    ])
    expect(marks).toEqual([
      [false, false, false],
      [true, false, false],
      [true, false, false],
    ])
  })

  test('a purged tenant is reconstructed from the log only', async () => {
    const id = await newTenant()
    const time = passed()
    await audited.tenancy.tenants.delete(id)
    audited.clock.advance(31 * 86_400_000)
    await audited.tenancy.tenants.installation.purge(id)
    expect((await at(id, time)).tenant).toMatchObject({ name: 'Acme', metadata: { seats: 1 } })
    await expect(at('unknown', time)).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
  })
})

describe('an object at a time', () => {
  test('an object exists from its creation to its deletion, with the members of the time', async () => {
    const id = await newTenant()
    const target = 'featureFlag:editor'
    const states: [Date, unknown][] = [[passed(), null]]
    const off = { enabled: false, rolloutPercent: null }
    const on = { enabled: true, rolloutPercent: 10 }
    await record(id, target, 'featureFlags.set', null, off)
    states.push([passed(), off])
    await record(id, target, 'featureFlags.edit', off, on)
    states.push([passed(), on])
    await record(id, target, 'featureFlags.delete', on, null)
    states.push([passed(), null])
    await record(id, target, 'featureFlags.set', null, off)
    states.push([passed(), off])
    for (const [time, state] of states) expect(await stateOf(id, time, target)).toEqual({ state, isComplete: true })
  })

  test('members that changed only later have the state before that change', async () => {
    const id = await newTenant()
    const target = 'webhook:1'
    const time = passed()
    await record(id, target, 'webhooks.update', { url: 'https://a.example' }, { url: 'https://b.example' })
    const later = passed()
    await record(id, target, 'webhooks.disable', { enabled: true }, { enabled: false })
    await record(id, target, 'webhooks.update', { url: 'https://b.example' }, { url: 'https://c.example' })
    expect(await stateOf(id, time, target)).toEqual({
      state: { url: 'https://a.example', enabled: true },
      isComplete: false,
    })
    expect(await stateOf(id, later, target)).toEqual({
      state: { url: 'https://b.example', enabled: true },
      isComplete: false,
    })
  })

  test('a deletion has the whole state of an object whose creation is not in the log', async () => {
    const id = await newTenant()
    const target = 'setting:color'
    const time = passed()
    await record(id, target, 'settings.delete', { value: 'red' }, null)
    expect(await stateOf(id, time, target)).toEqual({ state: { value: 'red' }, isComplete: true })
  })

  test('an action without a state changes no object and creates none', async () => {
    const id = await newTenant()
    await record(id, 'webhook:2', 'webhooks.create', null, { url: 'https://a.example' })
    const time = passed()
    await record(id, 'webhook:2', 'webhooks.rotateSecret', null, { graceSeconds: 60 })
    await record(id, 'webhook:3', 'webhooks.replayFailed', null, { count: 3 })
    await record(id, 'backup:1', 'backups.create', null, { kind: 'manual' })
    for (const when of [time, passed()]) {
      expect((await at(id, when)).objects).toMatchObject([{ target: 'webhook:2', state: { url: 'https://a.example' } }])
    }
  })

  test('the last change names its author, and an impersonation is no member', async () => {
    const id = await newTenant()
    const impersonation = { sessionId: 's', userId: 'u' }
    await record(id, `branding:${id}`, 'branding.update', { color: null }, { color: 'red', impersonation })
    const [branding] = (await at(id, passed())).objects
    expect(branding).toMatchObject({
      kind: 'branding',
      state: { color: 'red' },
      lastChange: { action: 'branding.update', actor: { name: 'host' }, after: { impersonation } },
    })
  })

  test('objects of other tenants are missing', async () => {
    const [one, other] = [await newTenant(), await newTenant()]
    await record(other, 'setting:color', 'settings.set', null, { value: 'red' })
    expect((await at(one, passed())).objects).toEqual([])
  })
})

test('a token without the list of entries may not read them as a tenant at a time', async () => {
  const id = await newTenant()
  const { token } = await audited.tenancy.tokens.create({ name: 'support', may: ['tenants.*', 'timeline.list'] })
  const get = (path: string) => audited.call('GET', `/tenants/${id}${path}`, { headers: { 'x-admin-token': token } })
  expect((await get(`/at?time=${passed().toISOString()}`)).status).toBe(403)
  expect(await (await get('/timeline')).json()).toMatchObject({ data: [] })
})
