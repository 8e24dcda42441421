/** Settings whose definition becomes a secret, or is a secret no longer. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { secret, settings } from './index.ts'

const SECRET = 'hunter2-and-more'

const before = settings({ define: { 'mail.from': z.email(), 'mail.password': secret(z.string()) } })
let opened: TestTenancy<[typeof before]>
const recorded: any[] = []

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { satellites: [before], role: 'api' })
  for (const id of ['replaced', 'deleted', 'plain']) await opened.tenancy.tenants.create({ id, name: id })
})
afterAll(() => opened.end())

async function openWith(define: Record<string, any>) {
  const later = await opened.open({ satellites: [settings({ define })] as any })
  later.on(ChangeRecorded, (event) => void recorded.push(event))
  return later.settings as any
}

const changesOf = async (tenantId: string) => {
  const own = () => recorded.filter((event) => event.tenantId === tenantId)
  await eventually(() => expect(own()).toHaveLength(1))
  return own()
}

test('the plain value of a present secret is in no audit entry of the next changes', async () => {
  const { settings: service } = opened.tenancy
  for (const id of ['replaced', 'deleted']) await service.set(id, 'mail.from', 'old@acme.example')
  const later = await openWith({ 'mail.from': secret(z.string()) })
  await later.set('replaced', 'mail.from', 'new@acme.example')
  await later.delete('deleted', 'mail.from')
  const changes = [...(await changesOf('replaced')), ...(await changesOf('deleted'))]
  expect(changes).toMatchObject([
    { action: 'settings.set', before: { isSet: true }, after: { isSet: true, isReplaced: true } },
    { action: 'settings.delete', before: { isSet: true }, after: null },
  ])
  expect(JSON.stringify(changes)).not.toContain('acme.example')
})

test('a process with another definition has the difference in the list of processes', async () => {
  const later = await opened.open({
    satellites: [settings({ define: { 'mail.from': z.email(), 'mail.password': z.string(), port: z.int() } })] as any,
  })
  const [differences] = (await later.kernel.processes.list()).flatMap(({ id, differences }) =>
    id === opened.tenancy.kernel.processes.id ? [differences] : [],
  )
  expect(differences).toEqual([
    { setting: 'satellites.settings.define.mail.password', here: 'plain', there: 'secret', isConflict: false },
    { setting: 'satellites.settings.define.port', here: 'plain', there: null, isConflict: false },
  ])
})

test('a former secret is listed as set, without a value', async () => {
  await opened.tenancy.settings.set('plain', 'mail.password', SECRET)
  const later = await openWith({ 'mail.password': z.string().nullable().default(null) })
  const updatedAt = expect.stringMatching(/Z$/)
  expect(await later.list('plain')).toEqual([
    { name: 'mail.password', isSecret: false, isSet: true, source: 'tenant', updatedAt },
  ])
  await later.set('plain', 'mail.password', 'plain text')
  expect(await changesOf('plain')).toMatchObject([{ before: { isSet: true }, after: { value: 'plain text' } }])
})
