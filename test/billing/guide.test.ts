/** Checks facts of docs/billing.md: the API version and the error codes of failed events. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ERROR_CODES } from '../../src/satellites/billing/model/provider.ts'
import { API_VERSION } from '../../src/satellites/billing/stripe/provider.ts'

const guide = readFileSync(join(import.meta.dirname, '../../docs/billing.md'), 'utf8')

test('docs/billing.md names the API version that Tenantry is written for', () => {
  expect([...guide.matchAll(/API version `([^`]+)`/g)].map(([, version]) => version)).toEqual([API_VERSION])
})

test('docs/billing.md lists every error code, and explains codes that no event fails with outside of the table', () => {
  const rows = [...guide.matchAll(/^\| `([a-z]+_[a-z_]+|unhandled)` +\|/gm)].map(([, code]) => code)
  const others = ['subscription_not_found', 'plan_unmapped']
  expect(new Set([...rows, ...others])).toEqual(new Set(ERROR_CODES))
  expect(rows.filter((code) => others.includes(code as string))).toEqual([])
  for (const code of others) expect(guide).toContain(`\`${code}\``)
})
