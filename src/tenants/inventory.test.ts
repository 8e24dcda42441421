import { expect, test } from 'vitest'
import { compared, type Registered } from './inventory.ts'

const tenant = (more: Partial<Registered>): Registered => ({
  id: 'acme',
  locator: 't1_acme',
  status: 'active',
  statusBefore: null,
  isBeingPurged: false,
  ...more,
})
const open = { locator: 't1_acme', isFenced: false }
const fenced = { locator: 't1_acme', isFenced: true }
const deleted = { status: 'deleted', statusBefore: 'active' } as const

test.each<[string, Partial<Registered>, typeof open | undefined, string | undefined]>([
  ['active and open', {}, open, undefined],
  ['active and closed', {}, fenced, 'closed'],
  ['active without storage', {}, undefined, 'missing'],
  ['suspended and closed', { status: 'suspended' }, fenced, undefined],
  ['suspended and open', { status: 'suspended' }, open, 'open'],
  ['suspended without storage', { status: 'suspended' }, undefined, 'missing'],
  ['deleted and closed', deleted, fenced, undefined],
  ['deleted and open', deleted, open, 'open'],
  ['deleted without storage', deleted, undefined, 'missing'],
  ['deleted, having been suspended, and open', { ...deleted, statusBefore: 'suspended' }, open, 'open'],
  ['deleted before it was ever active', { ...deleted, statusBefore: 'provisioning' }, undefined, undefined],
  ['deleted while its storage was made', { ...deleted, statusBefore: 'provisioning' }, open, undefined],
  ['being purged, its storage gone', { ...deleted, isBeingPurged: true }, undefined, undefined],
  ['provisioning, with storage or without', { status: 'provisioning' }, open, undefined],
  ['failed', { status: 'failed' }, undefined, undefined],
])('%s', (_, row, stored, kind) => {
  const found = compared([tenant(row)], stored ? [stored] : [], { isSeparate: true })
  expect(found).toEqual(kind ? [{ kind, locator: 't1_acme', tenantId: 'acme' }] : [])
})

test('storage that no tenant has is left over', () => {
  expect(compared([tenant({})], [open, { locator: 't1_gone', isFenced: true }], { isSeparate: true })).toEqual([
    { kind: 'left over', locator: 't1_gone' },
  ])
})

test.each<[string, Partial<Registered>, typeof open | undefined, string | undefined]>([
  ['active, without a fence', {}, undefined, undefined],
  ['active, with one', {}, fenced, 'closed'],
  ['suspended, without one', { status: 'suspended' }, undefined, 'open'],
  ['suspended, with one', { status: 'suspended' }, fenced, undefined],
])('where tenants share tables: %s', (_, row, stored, kind) => {
  const found = compared([tenant(row)], stored ? [stored] : [], { isSeparate: false })
  expect(found.map((one) => one.kind)).toEqual(kind ? [kind] : [])
})

test('where tenants share tables, a fence without a tenant is nobody’s storage', () => {
  expect(compared([], [fenced], { isSeparate: false })).toEqual([])
})
