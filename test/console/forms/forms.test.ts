/** The rules of fields agree with the schemas of operations: a browser rejects nothing that the service accepts, and the other way round. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { FieldRules, Rules } from '../../../src/console/api/contract.ts'
import inputs from '../../../src/console/api/inputs.json' with { type: 'json' }
import { catalogueOf } from '../../../src/service/catalogue.ts'
import { satellites } from '../../../src/service/satellites.ts'
import { accepts, isChecked, NUMBER, textsFor } from './constraints.fixture.ts'

/** One seed: each run checks the same values. */
const RUNS = { numRuns: 150, seed: 20_260_101 }

type Field = readonly [name: string, rule: FieldRules, schema: z.ZodType]

const { operations } = catalogueOf(satellites)
const bodies = operations.flatMap(({ name: operation, body }) => {
  const shape: Record<string, z.ZodType> = body instanceof z.ZodObject ? body.shape : {}
  return Object.entries((inputs as unknown as Record<string, Rules>)[operation] ?? {})
    .filter(([name]) => shape[name] !== undefined)
    .map(([name, rule]): Field => [`${operation} ${name}`, rule, shape[name] as z.ZodType])
})

test('each pattern compiles with the flag v', () => {
  const patterns = bodies.flatMap(([, { pattern }]) => pattern ?? [])
  expect(patterns.length).toBeGreaterThan(25)
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
}

describe('fields of forms', () => {
  const checked = bodies.filter(([, rule]) => isChecked(rule))

  test('are those of many operations', () => {
    expect(checked.length).toBeGreaterThan(40)
    const names = checked.map(([name]) => name)
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
