/** The rules of addresses agree with the schemas of queries: the console drops no value that the service accepts. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { FieldRules, OperationName, Rules } from '../../../src/console/api/contract.ts'
import queries from '../../../src/console/api/queries.json' with { type: 'json' }
import { registerRules } from '../../../src/console/api/rules.ts'
import { droppedFrom, PAGING, validSearch } from '../../../src/console/routing/search.ts'
import { hostOperations } from '../../../src/http/console/host-operations.ts'
import { openApiDocument } from '../../../src/http/openapi.ts'
import { type AnyOperation, operation } from '../../../src/kernel/api/operation.ts'
import { Moment, MomentOrDate, Page } from '../../../src/kernel/api/page.ts'
import { catalogueOf } from '../../../src/service/catalogue.ts'
import { satellites } from '../../../src/service/satellites.ts'
import { textsFor } from './constraints.fixture.ts'

/** One seed: each run checks the same values. */
const RUNS = { numRuns: 150, seed: 20_260_101 }

/** A satellite of a host, with queries that the operations of Tenantry do not have. Its rules are made at run time. */
const hostQuery = z.strictObject({
  trimmed: z.string().trim().min(2).max(5).optional(),
  lower: z
    .string()
    .toLowerCase()
    .regex(/^[a-z]+$/)
    .optional(),
  anyCase: z
    .string()
    .regex(/^[a-f]{1,4}$/i)
    .optional(),
  units: z
    .string()
    .regex(/^.{2}$/)
    .optional(),
  letters: z
    .string()
    .regex(/^\p{L}+$/u)
    .optional(),
  escaped: z
    .string()
    .regex(/^[(|)/-]+$/)
    .optional(),
  both: z.string().regex(/^a/).regex(/b$/).optional(),
  status: z.enum(['open', 'done']).default('open'),
  upper: z.preprocess((value) => String(value).toUpperCase(), z.enum(['OPEN', 'DONE'])).optional(),
  list: z.preprocess((value) => String(value).split(','), z.array(z.enum(['a', 'b']))).optional(),
  piped: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.string().max(2)).max(2))
    .optional(),
  duration: z.preprocess((value) => Number.parseInt(String(value), 10), z.number().min(1).max(60)).optional(),
  count: z.coerce.number().int().min(0).max(90).optional(),
  ratio: z.coerce.number().gt(0).lt(1).optional(),
  either: z.union([z.enum(['none', 'all']), z.coerce.number().int().min(1), z.uuid()]).optional(),
  flag: z.stringbool().optional(),
  coerced: z.coerce.boolean().optional(),
  date: z.coerce.date().optional(),
  fallback: z.string().max(3).catch('x'),
  five: z.literal('five').nullable().optional(),
  moment: Moment.optional(),
  momentOrDate: MomentOrDate.optional(),
  anything: z.any(),
  ...Page.shape,
})
const ofHost: AnyOperation = operation({
  name: 'hosted.list',
  method: 'GET',
  path: '/hosted',
  summary: 'List',
  query: hostQuery,
  reply: z.object({ data: z.array(z.string()) }),
  handle: async () => ({ data: [] }),
})
const [described] = hostOperations(
  new Map([['hosted', [ofHost]]]),
  JSON.stringify(openApiDocument([ofHost], '/admin')),
)({ bounds: [['*']], operations: new Set(['hosted.list']), tenants: null, expiresAt: null })
if (described) registerRules([described])

/** Checks that no rule expresses: only the service makes them. */
const SERVICE_ONLY: readonly string[] = [
  'search.find q', // without its spaces
  'tenants.counts by', // names of members, separated by commas
  'tenants.explain host', // a host name
  'quotas.top above', // a number above 0
]

type Member = readonly [name: string, operation: string, member: string, rule: FieldRules, schema: z.ZodType]

const membersOf = (name: string, query: z.ZodObject | undefined, rules: Rules = {}): Member[] =>
  Object.entries<z.ZodType>(query?.shape ?? {}).map(([member, schema]) => [
    `${name} ${member}`,
    name,
    member,
    rules[member] ?? {},
    schema,
  ])
const { operations } = catalogueOf(satellites)
const own = operations.flatMap(({ name, query }) =>
  membersOf(name, query, (queries as unknown as Record<string, Rules>)[name]),
)
const ofHosts = membersOf('hosted.list', hostQuery, described?.query)

const variantsOf = (rule: FieldRules): readonly FieldRules[] => rule.anyOf ?? [rule]

const TEXTS = [
  ...[
    '',
    ' ',
    'a',
    'A',
    ' a ',
    'ab',
    'OPEN',
    'open ',
    'a,b',
    'b,,',
    '0',
    '00',
    '-0',
    '-1',
    '1',
    '1.0',
    '1e1',
    '0x10',
    ' 5 ',
    '.5',
  ],
  ...[
    '5m',
    '90',
    '91',
    'Infinity',
    'NaN',
    'null',
    'true',
    'yes',
    '__proto__',
    '😀',
    '😀😀',
    'none',
    '5xx',
    '404',
    '600',
  ],
  ...['2026-01-01', '2026-02-30', '2026-01-01T10:00', '2026-01-01T10:00:00Z', '2026-01-01T10:00:00.123+02:00'],
  ...['2026-01-01T10:00:00', '2026', 'yesterday', '2f1e9c1a-3b5d-4c7e-8f90-a1b2c3d4e5f6', 'a'.repeat(300)],
]
const textsOf = (rule: FieldRules) =>
  fc.oneof(fc.constantFrom(...TEXTS), fc.string(), ...variantsOf(rule).map((variant) => textsFor(variant)))

const isAccepted = (schema: z.ZodType, value: unknown): boolean => schema.safeParse(value).success

test('each member of a query has rules, and its patterns compile with the flag v', () => {
  expect(own.length).toBeGreaterThan(100)
  expect(SERVICE_ONLY.filter((name) => !own.some(([one]) => one === name))).toEqual([])
  for (const [name, , , rule] of [...own, ...ofHosts]) {
    expect(name && Object.keys(rule), name).not.toEqual([])
    for (const { pattern = '' } of variantsOf(rule)) expect(() => new RegExp(pattern, 'v'), name).not.toThrow()
  }
})

describe('a value that the service accepts is kept, and no other', () => {
  const filters = own.filter(([, , member]) => !PAGING.includes(member))
  test.each([...filters, ...ofHosts])('%s', (name, operation, member, rule, schema) => {
    const isExact = operation !== 'hosted.list' && !SERVICE_ONLY.includes(name)
    fc.assert(
      fc.property(textsOf(rule), (text) => {
        const { [member]: kept } = validSearch(operation as OperationName, { [member]: text })
        if (isAccepted(schema, text)) expect([text, kept]).not.toEqual([text, undefined])
        else if (isExact && kept !== undefined) expect([text, isAccepted(schema, String(kept))]).toEqual([text, true])
      }),
      RUNS,
    )
  })
})

test.each([
  ['status', ['done'], ['Done', ' done', '']],
  ['count', ['0', '90', '1e1'], ['91', '-1', '1.5', 'a']],
  ['ratio', ['0.5'], ['0', '1', '2']],
  ['anyCase', ['AbC', 'anything'], []],
  ['both', ['a1b', 'x'], []],
  ['units', ['ab', '😀'], ['abc']],
  ['escaped', ['(|)/-'], ['a']],
  ['either', ['none', '7', '2f1e9c1a-3b5d-4c7e-8f90-a1b2c3d4e5f6'], ['some']],
  ['momentOrDate', ['2026-01-01', '2026-01-01T10:00:00Z'], ['yesterday', '2026-02-30']],
  ['unknown', [], ['a']],
])('an operation of a host: %s', (member, kept, dropped) => {
  const isKept = (text: string) =>
    Object.hasOwn(validSearch('hosted.list' as OperationName, { [member]: text }), member)
  expect(kept.filter((text) => !isKept(text))).toEqual([])
  expect(dropped.filter(isKept)).toEqual([])
})

test('pages of lists of Tenantry are not in addresses', () => {
  expect(droppedFrom('tenants.list', { limit: '20', cursor: 'x', q: 'acme' })).toEqual([
    ['limit', '20'],
    ['cursor', 'x'],
  ])
})

test('members with a declared prefix are kept, others are dropped', () => {
  const search = {
    'metadata.crmId': '4711',
    'metadata.': 'x',
    crmId: '4711',
    constructor: 'x',
    status: 'gone',
    open: 'new',
  }
  expect(validSearch('tenants.list', search)).toEqual({ 'metadata.crmId': '4711', open: 'new' })
  expect(droppedFrom('tenants.list', search)).toEqual([
    ['metadata.', 'x'],
    ['crmId', '4711'],
    ['constructor', 'x'],
    ['status', 'gone'],
  ])
})
