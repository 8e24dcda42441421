import { expect, test } from 'vitest'
import { type BesideRegistered, compared, type Registered } from './mismatches.ts'

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
  ['deleted after a suspension, and open', { ...deleted, statusBefore: 'suspended' }, open, 'open'],
  ['deleted before its activation', { ...deleted, statusBefore: 'provisioning' }, undefined, undefined],
  ['deleted during its installation', { ...deleted, statusBefore: 'provisioning' }, open, undefined],
  ['being purged, without storage', { ...deleted, isBeingPurged: true }, undefined, undefined],
  ['provisioning, with storage or without', { status: 'provisioning' }, open, undefined],
  ['failed', { status: 'failed' }, undefined, undefined],
  ['held by a transfer and closed', { isHeld: true }, fenced, undefined],
  ['held by a transfer and open', { isHeld: true }, open, 'open'],
])('%s', (_, row, stored, kind) => {
  const found = compared([tenant(row)], [], stored ? [stored] : [], { isSeparate: true })
  expect(found).toEqual(kind ? [{ kind, locator: 't1_acme', tenantId: 'acme' }] : [])
})

test('reports storage without a tenant as left over', () => {
  expect(compared([tenant({})], [], [open, { locator: 't1_gone', isFenced: true }], { isSeparate: true })).toEqual([
    { kind: 'left over', locator: 't1_gone' },
  ])
})

test.each<[string, Partial<Registered>, typeof open | undefined, string | undefined]>([
  ['an active tenant without a fence', {}, undefined, undefined],
  ['an active tenant with a fence', {}, fenced, 'closed'],
  ['a suspended tenant without a fence', { status: 'suspended' }, undefined, 'open'],
  ['a suspended tenant with a fence', { status: 'suspended' }, fenced, undefined],
])('compares fences in shared tables: %s', (_, row, stored, kind) => {
  const found = compared([tenant(row)], [], stored ? [stored] : [], { isSeparate: false })
  expect(found.map((one) => one.kind)).toEqual(kind ? [kind] : [])
})

test('ignores a fence without a tenant in shared tables', () => {
  expect(compared([], [], [fenced], { isSeparate: false })).toEqual([])
})

test.each<[string, BesideRegistered['state'], typeof open | undefined, string | undefined]>([
  ['in creation, with or without storage', 'making', open, undefined],
  ['former and closed', 'former', fenced, undefined],
  ['former and open', 'former', open, 'former open'],
  ['former and lost with its server', 'former', undefined, undefined],
  ['abandoned', 'abandoned', open, 'abandoned'],
  ['abandoned and dropped', 'abandoned', undefined, 'abandoned'],
])('compares storage other than that of the tenant: %s', (_, state, stored, kind) => {
  const beside = { tenantId: 'acme', locator: 't1_acme', state }
  const found = compared([], [beside], stored ? [stored] : [], { isSeparate: true })
  expect(found).toEqual(kind ? [{ kind, locator: 't1_acme', tenantId: 'acme' }] : [])
})

test('requires a fence for former rows in shared tables', () => {
  const beside = { tenantId: 'acme', locator: 'acme', state: 'former' } as const
  const kinds = (stored: Parameters<typeof compared>[2]) =>
    compared([], [beside], stored, { isSeparate: false }).map(({ kind }) => kind)
  expect(kinds([])).toEqual(['former open'])
  expect(kinds([{ locator: 'acme', isFenced: true }])).toEqual([])
})
