/** Secrets are in one response only: no stored response of an `Idempotency-Key` contains them. */
import { expect, inject, test } from 'vitest'
import { z } from 'zod'
import { impersonation } from '../../src/satellites/impersonation/index.ts'
import { catalogueOf } from '../../src/service/catalogue.ts'
import { satellites } from '../../src/service/main.ts'
import { openApi } from '../contract/api.ts'

const posts = catalogueOf(satellites).operations.filter(({ method }) => method === 'POST')
const stringsOf = (reply: z.ZodType) =>
  Object.entries(z.toJSONSchema(reply, { unrepresentable: 'any', io: 'input' }).properties ?? {})
    .filter(([, schema]) => typeof schema === 'object' && schema.type === 'string')
    .map(([name]) => name)
const withSecrets = posts.filter(({ reply }) => stringsOf(reply).some((name) => /secret|token/i.test(name)))

test('the list of operations with a secret in their response is complete', () => {
  expect(withSecrets.map(({ name }) => name)).toContain('impersonations.start')
})

test.each(withSecrets.map((operation) => [operation.name, operation] as const))(
  '%s returns its secrets once',
  (_, { reply, shownOnce = [] }) => {
    expect(stringsOf(reply).filter((name) => /secret|token/i.test(name))).toEqual(shownOnce)
  },
)

test('the token of an impersonation is not in the response to a repeated Idempotency-Key', async () => {
  const { tenancy, call, end } = await openApi(inject('postgresUrl'), { satellites: [impersonation()], role: 'api' })
  try {
    const { id } = await tenancy.tenants.create({ name: 'Acme' })
    await tenancy.tenants.installation.install(id, { isLast: true })
    const start = () =>
      call('POST', `/tenants/${id}/impersonations`, {
        body: { userId: 'user-42', reason: 'Ticket 4711' },
        headers: { 'idempotency-key': `key-${id}` },
      })
    const [first, second] = [await start(), await start()]
    const { token, ...shown } = first.json
    expect(token).toEqual(expect.any(String))
    expect(second.headers.get('idempotency-replayed')).toBe('true')
    expect(second.json).toEqual(shown)
  } finally {
    await end()
  }
})
