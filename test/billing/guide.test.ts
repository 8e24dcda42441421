/** What docs/billing.md says of this release is so: the API version that an endpoint is made with, and the codes that events come to. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ERROR_CODES } from '../../src/satellites/billing/model/provider.ts'
import { API_VERSION } from '../../src/satellites/billing/stripe/provider.ts'

const guide = readFileSync(join(import.meta.dirname, '../../docs/billing.md'), 'utf8')

test('the guide names the version of the API that Tenantry was written against', () => {
  expect([...guide.matchAll(/API version `([^`]+)`/g)].map(([, version]) => version)).toEqual([API_VERSION])
})

test('the guide tells of each code, of those that no event comes to beside the table', () => {
  const rows = [...guide.matchAll(/^\| `([a-z]+_[a-z_]+|unhandled)` +\|/gm)].map(([, code]) => code)
  const beside = ['subscription_not_found', 'plan_unmapped']
  expect(new Set([...rows, ...beside])).toEqual(new Set(ERROR_CODES))
  expect(rows.filter((code) => beside.includes(code as string))).toEqual([])
  for (const code of beside) expect(guide).toContain(`\`${code}\``)
})
