/** Patterns of operation names: named patterns, prefixes, denials, tenant limits. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Grant } from '../base/context.ts'
import type { AnyOperation } from './operation.ts'
import { isUnlimited, May, mayCallFor, permits, permittedOperations, unknownPatterns } from './permissions.ts'

type Subject = Pick<AnyOperation, 'name' | 'method' | 'path' | 'scope' | 'createsTenant'>

const OPERATIONS: readonly Subject[] = [
  { name: 'tenants.list', method: 'GET', path: '/tenants' },
  { name: 'tenants.get', method: 'GET', path: '/tenants/{id}' },
  { name: 'tenants.delete', method: 'DELETE', path: '/tenants/{id}' },
  { name: 'tenants.erase', method: 'POST', path: '/tenants/{id}/erase', scope: 'erase' },
  { name: 'tenants.clone', method: 'POST', path: '/tenants/{id}/clone', createsTenant: true },
  { name: 'quotas.check', method: 'GET', path: '/tenants/{id}/quotas/{quota}/check', scope: 'runtime' },
  { name: 'quotas.consume', method: 'POST', path: '/tenants/{id}/quotas/{quota}/consume', scope: 'runtime' },
  { name: 'settings.reveal', method: 'POST', path: '/tenants/{id}/settings/{name}/reveal', scope: 'reveal' },
  { name: 'notes.reveal', method: 'GET', path: '/tenants/{id}/notes/{noteId}/secret', scope: 'reveal' },
  { name: 'webhooks.list', method: 'GET', path: '/tenants/{id}/webhooks' },
  { name: 'webhookDeliveries.list', method: 'GET', path: '/tenants/{id}/webhooks/{webhookId}/deliveries' },
  { name: 'hostWebhooks.list', method: 'GET', path: '/webhooks' },
  { name: 'ofrep.evaluate', method: 'POST', path: '/ofrep/v1/evaluate/flags/{key}', scope: 'runtime' },
  { name: 'tokens.delete', method: 'DELETE', path: '/tokens/{id}' },
  { name: 'session.get', method: 'GET', path: '/session', scope: 'any' },
]
const NAMES = OPERATIONS.map(({ name }) => name)
const ALWAYS = 'session.get'

const permitted = (...may: string[]) => [...permittedOperations([may], OPERATIONS)].filter((name) => name !== ALWAYS)

describe('permits', () => {
  test.each<[string[], string[]]>([
    [['admin'], NAMES.filter((name) => name !== ALWAYS)],
    [['*'], NAMES.filter((name) => name !== ALWAYS)],
    [
      ['read'],
      ['tenants.list', 'tenants.get', 'quotas.check', 'webhooks.list', 'webhookDeliveries.list', 'hostWebhooks.list'],
    ],
    [['runtime'], ['quotas.check', 'quotas.consume', 'ofrep.evaluate']],
    [['reveal'], ['quotas.check', 'quotas.consume', 'settings.reveal', 'notes.reveal', 'ofrep.evaluate']],
    [
      ['tenants.*', '!tenants.delete'],
      ['tenants.list', 'tenants.get', 'tenants.clone'],
    ],
    [
      ['!tenants.delete', 'tenants.*'],
      ['tenants.list', 'tenants.get', 'tenants.clone'],
    ],
    [['webhook*'], ['webhooks.list', 'webhookDeliveries.list']],
    [['tenants.get'], ['tenants.get']],
    [['tenants.e*'], []],
    [['tenants.e*', 'tenants.erase'], ['tenants.erase']],
    [['erase'], ['tenants.erase']],
    [['erase', '!tenants.*'], []],
    [['tenants'], []],
    [['tenants.get', '!read'], []],
    [['admin', '!*'], []],
    [['admin', '!session.get', '!admin'], []],
    [['!tenants.delete'], []],
  ])('%j permits %j', (may, names) => {
    expect(permitted(...may)).toEqual(names)
  })

  test('an operation of the scope any is permitted for every list', () => {
    expect(permittedOperations([['tenants.get', '!session.get'], ['!admin']], OPERATIONS)).toEqual(new Set([ALWAYS]))
  })
})

describe('laws of patterns', () => {
  const plain = fc.oneof(
    fc.constantFrom(...NAMES, 'admin', 'read', 'runtime', 'reveal', 'erase', '*'),
    fc.tuple(fc.constantFrom(...NAMES), fc.nat(12)).map(([name, length]) => `${name.slice(0, Math.max(1, length))}*`),
  )
  const pattern = fc.tuple(fc.boolean(), plain).map(([isDenial, text]) => (isDenial ? `!${text}` : text))
  const patterns = fc.array(pattern, { maxLength: 8 })

  /** An independent reading of the rules. */
  function matchesByRule(text: string, { name, method, scope }: Subject, isDenial = false): boolean {
    if (text === 'admin') return true
    if (text === 'read') return method === 'GET' && scope !== 'reveal'
    if (text === 'runtime') return scope === 'runtime'
    if (text === 'reveal') return scope === 'runtime' || scope === 'reveal'
    if (text === 'erase') return scope === 'erase'
    if (/.\*$/.test(text) && scope === 'erase' && !isDenial) return false
    return new RegExp(`^${text.replaceAll('.', String.raw`\.`).replaceAll('*', '.*')}$`).test(name)
  }

  test('an operation is permitted if a pattern permits it and none denies it', () => {
    fc.assert(
      fc.property(patterns, fc.constantFrom(...OPERATIONS), (all, operation) => {
        const isPermitted = all.some((one) => !one.startsWith('!') && matchesByRule(one, operation))
        const isDenied = all.some((one) => one.startsWith('!') && matchesByRule(one.slice(1), operation, true))
        expect(permits(all, operation)).toBe(operation.scope === 'any' || (isPermitted && !isDenied))
      }),
    )
  })

  test('the order of patterns has no effect, and a denial never permits more', () => {
    fc.assert(
      fc.property(patterns, plain, (all, text) => {
        const before = permittedOperations([all], OPERATIONS)
        expect(permittedOperations([all.toReversed()], OPERATIONS)).toEqual(before)
        expect(
          [...permittedOperations([[...all, `!${text}`]], OPERATIONS)].filter((name) => !before.has(name)),
        ).toEqual([])
      }),
    )
  })

  test('several lists permit the operations that each of them permits', () => {
    fc.assert(
      fc.property(patterns, patterns, (one, other) => {
        const ofOther = permittedOperations([other], OPERATIONS)
        const both = [...permittedOperations([one], OPERATIONS)].filter((name) => ofOther.has(name))
        expect([...permittedOperations([one, other], OPERATIONS)]).toEqual(both)
      }),
    )
  })

  test('a list that permits everything also permits operations of later versions', () => {
    const later = { name: 'zebras.release', method: 'POST' } as const
    fc.assert(
      fc.property(patterns, (all) => {
        if (isUnlimited(all))
          expect(permittedOperations([all], [...OPERATIONS, later]).size).toBe(OPERATIONS.length + 1)
      }),
    )
    expect(isUnlimited(['admin'])).toBe(true)
    expect(isUnlimited(['admin', '!tenants.delete'])).toBe(false)
  })
})

test('patterns that match no operation are reported, denials included', () => {
  const may = [
    'tenants.*',
    '!tenants.remove',
    'tenant.get',
    'quota*',
    'reveal',
    '!admin',
    'x*',
    'tenants.e*',
    '!tenants.e*',
  ]
  expect(unknownPatterns(may, OPERATIONS)).toEqual(['!tenants.remove', 'tenant.get', 'x*', 'tenants.e*'])
  expect(unknownPatterns(['runtime', 'reveal'], [])).toEqual([])
})

test.each([
  [[]],
  [['!tenants.delete']],
  [['tenants.*.get']],
  [['*.get']],
  [['!!tenants.get']],
  [['']],
  [['tenants get']],
  [['a'.repeat(101)]],
  [Array.from({ length: 101 }, () => 'tenants.get')],
])('the patterns %j are invalid', (patterns) => {
  expect(May.safeParse(patterns).success).toBe(false)
})

describe('a grant with a tenant limit', () => {
  const grant: Grant = {
    bounds: [['admin']],
    operations: permittedOperations([['admin']], OPERATIONS),
    tenants: ['acme'],
    expiresAt: null,
  }
  const callable = (id: string | undefined) =>
    OPERATIONS.filter((operation) => mayCallFor(grant, operation, id)).map(({ name }) => name)

  test('permits operations of its tenants that create no other tenant, and those of every token', () => {
    expect(callable('acme')).toEqual([
      'tenants.get',
      'tenants.delete',
      'tenants.erase',
      'quotas.check',
      'quotas.consume',
      'settings.reveal',
      'notes.reveal',
      'webhooks.list',
      'webhookDeliveries.list',
      'session.get',
    ])
  })

  test.each(['globex', 'ACME', 'acme ', 'acme\0', '', undefined])('permits only those of every token for %j', (id) => {
    expect(callable(id)).toEqual(['session.get'])
  })
})
