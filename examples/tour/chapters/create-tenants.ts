import { customers } from '../customers.ts'
import { expectThat } from '../expectations.ts'
import { heading, say } from '../print.ts'
import type { Tour } from './chapter.ts'

const key = (index: number) => ({ 'idempotency-key': `tour-${index}` })

export async function createTenants({ api }: Tour): Promise<void> {
  heading('Create a tenant for each of twelve customers')
  const [first, ...others] = customers.map(({ tenant }) => tenant)
  const created = await api.call('POST', '/tenants', { body: first, headers: key(0), expect: '201 provisioning' })

  say(
    'If a response is lost, repeat the request with the same Idempotency-Key: it returns the first response and creates nothing.',
  )
  const replayed = await api.call('POST', '/tenants', {
    body: first,
    headers: key(0),
    expect: '201 provisioning',
    also: ({ headers }) => `Idempotency-Replayed: ${headers.get('idempotency-replayed')}`,
  })
  expectThat(replayed.headers.get('idempotency-replayed') === 'true', 'the repeated request is a replay')
  expectThat(replayed.body.createdAt === created.body.createdAt, 'the replay is the first response')
  await api.call('POST', '/tenants', { body: others[0], headers: key(0), expect: '409 E_IDEMPOTENCY_MISMATCH' })

  say('A job creates the storage; Prefer: wait waits for it.')
  const wait = { prefer: 'wait=20' }
  for (const [index, body] of others.entries()) {
    await api.call('POST', '/tenants', { body, headers: { ...key(index + 1), ...wait }, expect: '201 active' })
  }
  await api.call('GET', `/tenants/${first?.id}`, { expect: '200 active' })

  say('Errors have a message for people and a code for programs.')
  await api.call('POST', '/tenants', {
    body: { name: 'Copycat Ltd', domains: ['nordlicht-optik.example.com'] },
    expect: '409 E_DOMAIN_TAKEN',
  })
  await api.call('POST', '/tenants', {
    body: { name: 'Copycat Ltd', metadata: { plan: 'platinum' } },
    expect: '400 E_INVALID_REQUEST',
    also: ({ body }) => body.detail,
  })
  const list = await api.call('GET', '/tenants?status=active', {
    expect: '200',
    also: ({ body }) => `${body.data.length} tenants`,
  })
  expectThat(list.body.data.length === customers.length, 'every customer is an active tenant')
}
