import { expect, test } from 'vitest'
import { keyOf, pathOf } from './resource-names.ts'

test('a key and a path begin with the id of the tenant', () => {
  expect(keyOf('acme', 'user:1')).toBe('acme:user:1')
  expect(pathOf('acme', 'a.png')).toBe('tenants/acme/a.png')
  expect(pathOf('acme', 'invoices/2026/..a.pdf')).toBe('tenants/acme/invoices/2026/..a.pdf')
})

test.each([
  '',
  '/',
  '/a',
  'a/',
  'a//b',
  '.',
  '..',
  '../globex/a',
  'a/../../globex',
  'a/./b',
  'a\\..\\b',
  'a\0b',
  'a\nb',
])('rejects the path %j', (name) => {
  expect(() => pathOf('acme', name)).toThrow(expect.objectContaining({ code: 'E_INVALID_REQUEST' }))
})
