import { expect, test } from 'vitest'
import { runInContext } from '../../index.ts'
import { type Actor, currentContext, enterContext, HOST, impersonated, NO_TENANT } from './context.ts'

const ANN: Actor = { type: 'user', id: 'ann', name: 'Ann' }
const outer = { requestId: 'r-1', actor: HOST, ip: '198.51.100.7', tenantId: 'acme' }

test('runInContext changes the request, the actor and the address, and keeps the rest', () => {
  const changed = enterContext(outer, () => runInContext({ actor: ANN }, currentContext))
  expect(changed).toEqual({ ...outer, actor: ANN })
  const all = { requestId: 'r-2', actor: ANN, ip: '203.0.113.9' }
  expect(enterContext(outer, () => runInContext(all, currentContext))).toEqual({ ...outer, ...all })
  expect(enterContext(outer, () => runInContext({ actor: undefined, ip: null }, currentContext))).toEqual({
    ...outer,
    ip: null,
  })
  expect(runInContext({ actor: ANN }, currentContext)).toEqual({ requestId: null, actor: ANN, ip: null })
})

test.each([
  { tenantId: 'globex' },
  { tenantId: null },
  { tenantId: undefined },
  { impersonation: undefined },
  { more: 1 },
])('runInContext rejects %j', (changes) => {
  const entered = () => runInContext({ actor: ANN, ...changes } as object, () => 'entered')
  const [key = ''] = Object.keys(changes)
  for (const tenantId of [undefined, 'acme', NO_TENANT]) {
    expect(() => enterContext({ ...outer, tenantId }, entered)).toThrow(new RegExp(`not ${key}\\. tenancy\\.run`))
  }
})

test('an actor that is set inside an impersonation does not hide the impersonator', () => {
  const active = { sessionId: 's', userId: 'bob', actor: ANN, reason: 'a bug', expiresAt: '2030-01-01T00:00:00Z' }
  const inside = impersonated(outer, active)
  expect(enterContext(inside, () => runInContext({ actor: HOST, requestId: 'r-2' }, currentContext))).toEqual({
    ...inside,
    requestId: 'r-2',
  })
})
