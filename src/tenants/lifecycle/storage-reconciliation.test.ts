import { expect, test } from 'vitest'
import { type BesideRegistered, compared, type Registered } from './storage-reconciliation.ts'

const tenant = (more: Partial<Registered>): Registered => ({
  id: 'acme',
  locator: 't1_acme',
  status: 'active',
  statusBefore: null,
  isBeingPurged: false,
  isHeld: false,
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
  ['held by a transfer and closed', { isHeld: true }, fenced, undefined],
  ['held by a transfer and open', { isHeld: true }, open, 'open'],
])('%s', (_, row, stored, kind) => {
  const found = compared([tenant(row)], [], stored ? [stored] : [], { isSeparate: true })
  expect(found).toEqual(kind ? [{ kind, locator: 't1_acme', tenantId: 'acme' }] : [])
})

test('storage that no tenant has is left over', () => {
  expect(compared([tenant({})], [], [open, { locator: 't1_gone', isFenced: true }], { isSeparate: true })).toEqual([
    { kind: 'left over', locator: 't1_gone' },
  ])
})

test.each<[string, Partial<Registered>, typeof open | undefined, string | undefined]>([
  ['active, without a fence', {}, undefined, undefined],
  ['active, with one', {}, fenced, 'closed'],
  ['suspended, without one', { status: 'suspended' }, undefined, 'open'],
  ['suspended, with one', { status: 'suspended' }, fenced, undefined],
])('where tenants share tables: %s', (_, row, stored, kind) => {
  const found = compared([tenant(row)], [], stored ? [stored] : [], { isSeparate: false })
  expect(found.map((one) => one.kind)).toEqual(kind ? [kind] : [])
})

test('where tenants share tables, a fence without a tenant is nobody’s storage', () => {
  expect(compared([], [], [fenced], { isSeparate: false })).toEqual([])
})

test.each<[string, BesideRegistered['state'], typeof open | undefined, string | undefined]>([
  ['in the making, with storage or without', 'making', open, undefined],
  ['left, and closed', 'former', fenced, undefined],
  ['left, and open', 'former', open, 'former open'],
  ['left, and gone with its server', 'former', undefined, undefined],
  ['given up', 'abandoned', open, 'abandoned'],
  ['given up, and gone', 'abandoned', undefined, 'abandoned'],
])('beside what a tenant has: %s', (_, state, stored, kind) => {
  const beside = { tenantId: 'acme', locator: 't1_acme', state }
  const found = compared([], [beside], stored ? [stored] : [], { isSeparate: true })
  expect(found).toEqual(kind ? [{ kind, locator: 't1_acme', tenantId: 'acme' }] : [])
})

test('rows that a tenant has left in shared tables are closed to it', () => {
  const beside = { tenantId: 'acme', locator: 'acme', state: 'former' } as const
  const kinds = (stored: Parameters<typeof compared>[2]) =>
    compared([], [beside], stored, { isSeparate: false }).map(({ kind }) => kind)
  expect(kinds([])).toEqual(['former open'])
  expect(kinds([{ locator: 'acme', isFenced: true }])).toEqual([])
})
