/** The rules of fields agree with the schemas of operations: a browser rejects nothing that the service accepts, and the other way round. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { FieldRules, OperationName, Rules } from '../../../src/console/api/contract.ts'
import inputs from '../../../src/console/api/inputs.json' with { type: 'json' }
import queries from '../../../src/console/api/queries.json' with { type: 'json' }
import { validSearch } from '../../../src/console/routing/search.ts'
import { catalogueOf } from '../../../src/service/catalogue.ts'
import { satellites } from '../../../src/service/satellites.ts'
import { accepts, isChecked, NUMBER, textsFor } from './constraints.fixture.ts'

/** One seed: each run checks the same values. */
const RUNS = { numRuns: 150, seed: 20_260_101 }

type Field = readonly [name: string, rule: FieldRules, schema: z.ZodType]

const { operations } = catalogueOf(satellites)
const fieldsOf = (part: 'body' | 'query', rules: Readonly<Record<string, Rules>>): Field[] =>
  operations.flatMap((operation) => {
    const schema = operation[part]
    const shape: Record<string, z.ZodType> = schema instanceof z.ZodObject ? schema.shape : {}
    return Object.entries(rules[operation.name] ?? {})
      .filter(([name]) => shape[name] !== undefined)
      .map(([name, rule]): Field => [`${operation.name} ${name}`, rule, shape[name] as z.ZodType])
  })
const bodies = fieldsOf('body', inputs as unknown as Record<string, Rules>)
const searches = fieldsOf('query', queries as unknown as Record<string, Rules>)

test('each pattern compiles with the flag v', () => {
  const patterns = [...bodies, ...searches].flatMap(([, { pattern }]) => pattern ?? [])
  expect(patterns.length).toBeGreaterThan(30)
  for (const pattern of patterns) expect(() => new RegExp(pattern, 'v'), pattern).not.toThrow()
})

/** Rules that no attribute expresses: only the service checks them. */
const SERVICE_ONLY: Readonly<Record<string, string>> = {
  'billing.checkout successUrl': 'an address with https',
  'billing.checkout cancelUrl': 'an address with https',
  'billing.portal returnUrl': 'an address with https',
  'branding.update logoUrl': 'an address with https',
  'branding.update faviconUrl': 'an address with https',
  'branding.update supportUrl': 'an address with https',
  'branding.update customCss': 'no end of its style element',
  'tenants.planAdoption database': 'at most 63 bytes',
  'impersonations.start reason': 'at least ten characters besides spaces; the form says so itself',
  'sso.update issuer': 'an address with https',
  'sso.update redirectUri': 'an address with https',
  'webhooks.create secret': 'the form of a secret, with a checked length',
  'hostWebhooks.create secret': 'the form of a secret, with a checked length',
  'tenants.counts by': 'names of members, separated by commas',
  'tenants.explain host': 'a host name',
  'quotas.top above': 'a number above 0',
}

describe('fields of forms', () => {
  const checked = bodies.filter(([, rule]) => isChecked(rule))

  test('are those of many operations', () => {
    expect(checked.length).toBeGreaterThan(40)
    const names = [...checked, ...searches].map(([name]) => name)
    expect(Object.keys(SERVICE_ONLY).filter((name) => !names.includes(name))).toEqual([])
  })

  test.each(checked)('%s', (name, rule, schema) => {
    fc.assert(
      fc.property(textsFor(rule), (text) => {
        const value = rule.type === 'string' ? text : Number(text)
        const isValid = schema.safeParse(value).success
        if (text === '' || (rule.type !== 'string' && !NUMBER.test(text))) return // no browser sends it
        if (name in SERVICE_ONLY && !isValid) return
        expect([text, accepts(rule, text)]).toEqual([text, isValid])
      }),
      RUNS,
    )
  })
})

describe('members of addresses', () => {
  test.each(searches.filter(([, rule]) => isChecked(rule)))('%s', (name, rule, schema) => {
    const [operation = '', member = ''] = name.split(' ')
    fc.assert(
      fc.property(textsFor(rule), (text) => {
        const kept = member in validSearch(operation as OperationName, { [member]: text })
        const isValid = schema.safeParse(text).success
        if (name in SERVICE_ONLY && !isValid) return
        expect([text, kept]).toEqual([text, isValid])
      }),
      RUNS,
    )
  })
})
