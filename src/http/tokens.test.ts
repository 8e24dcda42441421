import { expect, test } from 'vitest'
import type { Grant } from '../kernel/base/context.ts'
import { type AdminToken, ConfiguredTokens } from './tokens.ts'

const grantOf = (may: readonly string[]): Grant => ({
  bounds: [may],
  operations: new Set(),
  tenants: null,
  expiresAt: null,
})
const TOKEN = 'token-of-an-operator-0123456789'

test.each<[AdminToken[], RegExp]>([
  [[{ name: 'ops', token: 'short' }], /adminTokens\.0\.token: .*16 characters/],
  [
    [
      { name: 'ops', token: TOKEN },
      { name: 'other', token: TOKEN },
    ],
    /two admin tokens have the same value/,
  ],
  [[{ name: 'ops', token: TOKEN, scope: 'read', may: ['tenants.*'] }], /"ops" has scope and may/],
  [[{ name: 'ops', token: TOKEN, may: ['!tenants.delete'] }], /must have a pattern that permits an operation/],
])('the configuration %j is rejected', (tokens, error) => {
  expect(() => new ConfiguredTokens(tokens, grantOf)).toThrow(error)
})

test('a configured token has the patterns of its scope, or its own', () => {
  const tokens = new ConfiguredTokens(
    [
      { name: 'ops', token: TOKEN },
      { name: 'support', token: `${TOKEN}-support`, may: ['tenants.*'] },
    ],
    grantOf,
  )
  expect(tokens.identify(TOKEN)?.grant.bounds).toEqual([['admin']])
  expect(tokens.identify(`${TOKEN}-support`)?.grant.bounds).toEqual([['tenants.*']])
  expect(tokens.identify(`${TOKEN}-other`)).toBeUndefined()
})
