/**
 * Generates schemas and rows with fast-check: all kinds of columns, keys and names that every PostgreSQL driver
 * accepts.
 */
import fc from 'fast-check'
import pg from 'pg'

export interface GeneratedTable {
  readonly name: string
  /** Without `tenant_id`. */
  readonly columns: readonly { readonly name: string; readonly type: string }[]
  /** Texts, or null. */
  readonly rows: readonly (readonly (string | null)[])[]
}

export interface GeneratedSchema {
  /** In order. */
  readonly statements: readonly string[]
  readonly tables: readonly GeneratedTable[]
  readonly sequences: readonly string[]
}

export interface GeneratedOptions {
  /** Whether each table has `tenant_id` in every key. */
  readonly hasTenantId: boolean
  readonly hasTriggers: boolean
}

const quote = pg.escapeIdentifier

const text = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    '"',
    '""',
    ',',
    '\\',
    '\\.',
    '\\N',
    'NULL',
    'null',
    '\n',
    '\r',
    '\r\n',
    '\t',
    "'",
    ';',
    '--',
    '🦄',
    'é',
    '\u200b',
    'a"b,c\nd',
    '\\\n\\.\n',
    '{}',
    '(,)',
    '\u0001',
  ),
  fc.string({ unit: 'grapheme', maxLength: 12 }).map((one) => one.replaceAll('\0', '')),
  fc.string({ maxLength: 12 }).map((one) => one.replaceAll('\0', '')),
)
const constants = (...values: string[]) => fc.constantFrom(...values)
const integer = (bits: bigint) => fc.bigInt(-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n).map(String)
const two = (n: number) => String(n).padStart(2, '0')
const time = fc
  .tuple(fc.nat(23), fc.nat(59), fc.nat(59), fc.nat(999_999))
  .map(([h, m, s, us]) => `${two(h)}:${two(m)}:${two(s)}.${us}`)
const day = fc.tuple(
  fc.integer({ min: 1, max: 4712 }),
  fc.integer({ min: 1, max: 12 }),
  fc.integer({ min: 1, max: 28 }),
  fc.boolean(),
)
const date = day.map(
  ([y, m, d, isBefore]) => `${String(y).padStart(4, '0')}-${two(m)}-${two(d)}${isBefore ? ' BC' : ''}`,
)
const stamp = fc
  .tuple(day, time)
  .map(([[y, m, d, isBefore], t]) => `${String(y).padStart(4, '0')}-${two(m)}-${two(d)} ${t}${isBefore ? ' BC' : ''}`)
const zone = fc.constantFrom('', '+00', '-03:30', '+05:45', ' Europe/Berlin')
const array = (element: fc.Arbitrary<string>) => {
  const item = fc
    .option(element, { nil: null })
    .map((one) => (one === null ? 'NULL' : `"${one.replace(/["\\]/g, '\\$&')}"`))
  const flat = fc.array(item, { maxLength: 4 }).map((items) => `{${items.join(',')}}`)
  const square = fc.tuple(item, item, item, item).map(([a, b, c, d]) => `{{${a},${b}},{${c},${d}}}`)
  return fc.oneof(
    flat,
    square,
    fc.constant('{}'),
    item.map((one) => `[3:3]={${one}}`),
  )
}
const json = fc.json({ maxDepth: 2 }).filter((one) => !one.includes('\\u0000'))
const digits = fc.tuple(fc.bigInt(0n, 10n ** 60n), fc.nat(30)).map(([n, scale]) => {
  const all = n.toString().padStart(scale + 1, '0')
  return scale === 0 ? all : `${all.slice(0, -scale)}.${all.slice(-scale)}`
})

const range = (low: number, high: number, empty: boolean) =>
  empty ? 'empty' : `[${Math.min(low, high)},${Math.max(low, high)})`
const ints = fc.integer({ min: -1000, max: 1000 })

/** Values of each type, as texts. */
const TYPES: Readonly<Record<string, fc.Arbitrary<string>>> = {
  smallint: integer(16n),
  integer: integer(32n),
  bigint: integer(64n),
  numeric: fc.oneof(
    constants('NaN', 'Infinity', '-Infinity', '0.000', `-${'9'.repeat(200)}.${'1'.repeat(90)}`),
    digits,
  ),
  'numeric(20,5)': fc.bigInt(-(10n ** 14n), 10n ** 14n).map((n) => `${n}.12345`),
  real: fc.oneof(
    constants('NaN', '-0', 'Infinity', '-Infinity', '1e-45'),
    fc.float({ noNaN: true, noDefaultInfinity: true }).map(String),
  ),
  'double precision': fc.oneof(
    constants('NaN', '-0', 'Infinity', '-Infinity', '5e-324'),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  ),
  boolean: constants('t', 'f'),
  text,
  'text collate "C"': text,
  'character varying(20)': text.map((one) => [...one].slice(0, 20).join('')),
  'character(5)': text.map((one) => [...one].slice(0, 5).join('')),
  '"char"': constants('a', '"', ''),
  name: constants('a', 'select', '"'),
  bytea: fc.uint8Array({ maxLength: 20 }).map((bytes) => `\\x${Buffer.from(bytes).toString('hex')}`),
  json,
  jsonb: json,
  uuid: fc.uuid(),
  inet: fc.oneof(fc.ipV4(), fc.ipV6()),
  cidr: constants('10.0.0.0/8', '::/0'),
  macaddr: constants('08:00:2b:01:02:03'),
  date: fc.oneof(constants('infinity', '-infinity', '4713-01-01 BC'), date),
  time,
  'time with time zone': fc.tuple(time, fc.constantFrom('+00', '-03:30', '+05:45')).map((parts) => parts.join('')),
  timestamp: fc.oneof(constants('infinity', '-infinity', '294276-12-31 23:59:59.999999'), stamp),
  'timestamp with time zone': fc.oneof(
    constants('infinity', '-infinity'),
    fc
      .tuple(day, time, zone)
      .map(
        ([[y, m, d, isBefore], t, z]) =>
          `${String(y).padStart(4, '0')}-${two(m)}-${two(d)} ${t}${z}${isBefore ? ' BC' : ''}`,
      ),
  ),
  'timestamp(0)': stamp,
  interval: fc.oneof(
    constants('0', '-1 mons', '1 year -2 days +03:04:05.678', '-178000000 years'),
    fc.tuple(ints, ints, ints, time).map(([y, m, d, t]) => `${y} years ${m} mons ${d} days -${t}`),
  ),
  int4range: fc.tuple(ints, ints, fc.boolean()).map(([a, b, empty]) => range(a, b, empty)),
  numrange: constants('empty', '(,)', '[1.5,)', '(,"2"]'),
  tstzrange: constants('["2020-01-01 00:00:00+00","infinity")', '(,)', 'empty'),
  int8multirange: constants('{}', '{[1,2),[5,9)}', '{(,3)}'),
  'text[]': array(text.filter((one) => one !== '\0')),
  'integer[]': array(integer(32n)),
  'timestamp with time zone[]': array(stamp),
  'bit(3)': constants('101', '000'),
  'bit varying': constants('', '1', '0101'),
  money: constants('$1,234.56', '-$0.01'),
  point: constants('(1.5,-2)', '(NaN,Infinity)'),
  tsvector: constants("'a':1A 'b''c':2,3", ''),
  pg_lsn: constants('16/B374D848'),
  xid8: constants('18446744073709551615'),
  mood: constants('sad', 'ok "!"', 'ha,ppy', ''),
  'mood[]': array(constants('sad', 'ok "!"', 'ha,ppy', '')),
  positive: fc.integer({ min: 1, max: 9 }).map(String),
  '"sh.ort"': text.map((one) => [...one].slice(0, 3).join('')),
  '"sh.ort"[]': array(constants('', 'a', '"')),
  pair: fc.tuple(fc.integer(), text).map(([n, t]) => `(${n},"${t.replace(/["\\]/g, '$&$&')}")`),
  moods: constants('[sad,"ok ""!""")', 'empty'),
}

const OWN_TYPES = [
  `create type mood as enum ('sad', 'ok "!"', 'ha,ppy', '')`,
  'create domain positive as int check (value > 0)',
  `create domain "sh.ort" as text check (char_length(value) <= 3) default 'abc'`,
  'create type pair as (n int, "t ""x""" text)',
  'create type moods as range (subtype = mood)',
]

/** Names of 63 bytes, keywords and other unusual names. */
const TABLE_NAMES = [
  'notes',
  'select',
  'User',
  'a.b',
  'a b',
  'quo"ted',
  `${'é'.repeat(31)}x`,
  "it's",
  '$1',
  'a,b',
  '%s%I',
  'table\n2',
  '\\',
]
const COLUMN_NAMES = ['from', 'Name', 'c.d', 'c "d"', 'ü'.repeat(31), 'x y', '1', 'c,d', '\\.', 'r\nr', '%', 'order']

const KEYS = ['none', 'plain', 'always', 'default', 'serial', 'composite', 'partitioned'] as const

interface Plan {
  readonly name: string
  readonly key: (typeof KEYS)[number]
  readonly columns: readonly {
    readonly name: string
    readonly type: string
    readonly values: readonly (string | null)[]
  }[]
  /** For each row, the referenced row of the other table; null for none. */
  readonly references: readonly {
    readonly to: number
    readonly rows: readonly (number | null)[]
    readonly deferral: string
    readonly match: string
  }[]
  readonly index: number
  readonly count: number
}

const ROWS_AT_MOST = 6

const plan = (tables: number) =>
  fc.record({
    key: fc.constantFrom(...KEYS),
    columns: fc.uniqueArray(
      fc.constantFrom(...Object.keys(TYPES)).chain((type) =>
        fc.record({
          name: fc.constantFrom(...COLUMN_NAMES),
          type: fc.constant(type),
          values: fc.array(fc.option(TYPES[type] ?? text, { nil: null, freq: 6 }), {
            minLength: ROWS_AT_MOST,
            maxLength: ROWS_AT_MOST,
          }),
        }),
      ),
      { minLength: 1, maxLength: 6, selector: ({ name }) => name },
    ),
    references: fc.array(
      fc.record({
        to: fc.nat(tables - 1),
        rows: fc.array(fc.option(fc.nat(ROWS_AT_MOST - 1), { nil: null }), {
          minLength: ROWS_AT_MOST,
          maxLength: ROWS_AT_MOST,
        }),
        deferral: fc.constantFrom('', ' deferrable', ' deferrable initially deferred'),
        match: fc.constantFrom('', ' match full'),
      }),
      { maxLength: 2 },
    ),
    index: fc.nat(8),
    count: fc.nat(ROWS_AT_MOST),
  })

/** Schemas of a few tables that refer to each other and to themselves, with cycles. */
export function generatedSchema(options: GeneratedOptions): fc.Arbitrary<GeneratedSchema> {
  return fc
    .integer({ min: 1, max: 4 })
    .chain((count) =>
      fc.tuple(
        fc.uniqueArray(fc.constantFrom(...TABLE_NAMES), { minLength: count, maxLength: count }),
        fc.array(plan(count), { minLength: count, maxLength: count }),
      ),
    )
    .map(([names, plans]) =>
      schemaOf(
        plans.map((one, index) => ({ ...one, name: names[index] ?? '' })),
        options,
      ),
    )
}

function schemaOf(plans: readonly Plan[], { hasTenantId, hasTriggers }: GeneratedOptions): GeneratedSchema {
  const tenant = hasTenantId ? 'tenant_id, ' : ''
  const statements = [
    ...OWN_TYPES,
    'create sequence "free.seq" increment by 7 minvalue -50 start -50',
    'create sequence down increment by -2 cache 5',
  ]
  if (hasTriggers) {
    const tenantColumn = hasTenantId ? 'tenant_id text not null default tenantry.current_tenant(), ' : ''
    statements.push(
      `create table fired (${tenantColumn}what text)`,
      `create function fire() returns trigger language plpgsql as $$ begin insert into fired (what) values (tg_op); return null; end $$`,
    )
  }
  const sequences = ['free.seq', 'down']
  const tables = plans.map((one): GeneratedTable => {
    const id = {
      plain: 'bigint',
      always: 'bigint generated always as identity',
      default: 'int generated by default as identity (increment by 3)',
      serial: 'serial',
      composite: 'bigint',
      partitioned: 'bigint',
      none: 'bigint',
    }[one.key]
    const references = one.references.map((reference, index) => ({ ...reference, column: `ref ${index}` }))
    const keyed =
      one.key === 'none' ? [] : [`primary key (${tenant}${one.key === 'composite' ? '"part ""2""", ' : ''}id)`]
    // A referenced table needs a key of one column, regardless of its primary key.
    const unique = one.key === 'composite' || one.key === 'none' ? [`unique (${tenant}id)`] : []
    const partitioned = one.key === 'partitioned' ? ` partition by hash (${tenant}id)` : ''
    statements.push(
      `create table ${quote(one.name)} (${[
        ...(hasTenantId ? ['tenant_id text not null default tenantry.current_tenant()'] : []),
        `id ${id}`,
        ...(one.key === 'composite' ? [`"part ""2""" int not null default 5`] : []),
        `whose text`,
        ...references.map(({ column }) => `${quote(column)} bigint`),
        ...one.columns.map(({ name, type }) => `${quote(name)} ${type}`),
        `twice bigint generated always as (id * 2) stored`,
        ...keyed,
        ...unique,
      ].join(', ')})${partitioned}`,
    )
    if (partitioned) {
      for (const part of [0, 1]) {
        statements.push(
          `create table part_${part}_${plans.indexOf(one)} partition of ${quote(one.name)} for values with (modulus 2, remainder ${part})`,
        )
      }
    }
    const on = `on ${quote(one.name)}`
    const named = `"i ${plans.indexOf(one)}"`
    const extra = [
      '',
      `create index ${named} ${on} (whose desc nulls last, id)`,
      `create index ${named} ${on} (lower(whose)) where id > 2`,
      `create unique index ${named} ${on} (${tenant}id, whose) include (twice) nulls not distinct`,
      `create index ${named} ${on} using hash (whose)`,
      `create index ${named} ${on} ((id + 1)) with (fillfactor = 60)`,
      one.key === 'partitioned'
        ? ''
        : `alter table ${quote(one.name)} add exclude using btree (${hasTenantId ? 'tenant_id with =, ' : ''}twice with =)`,
      `alter table ${quote(one.name)} add constraint "a ""check""" check (id < 1000000)`,
      // Checked by triggers, so that triggers cannot be disabled.
      hasTriggers ? '' : `alter table ${quote(one.name)} add unique (${tenant}id, whose) deferrable initially deferred`,
    ][one.index]
    if (extra) statements.push(extra)
    if (one.key === 'always' || one.key === 'default' || one.key === 'serial') sequences.push(`${one.name}#id`)
    if (hasTriggers && one.index % 2 === 0) {
      statements.push(`create trigger fires after insert on ${quote(one.name)} for each row execute function fire()`)
    }
    const columns = [
      { name: 'id', type: 'bigint' },
      ...(one.key === 'composite' ? [{ name: 'part "2"', type: 'integer' }] : []),
      { name: 'whose', type: 'text' },
      ...references.map(({ column }) => ({ name: column, type: 'bigint' })),
      ...one.columns.map(({ name, type }) => ({ name, type: type.replace(' collate "C"', '') })),
    ]
    const rows = Array.from({ length: one.count }, (_, row) => [
      String(row + 1),
      ...(one.key === 'composite' ? [String(row * 3)] : []),
      'mine',
      ...references.map(({ to, rows }) => {
        const referred = rows[row]
        const there = plans[to]?.count ?? 0
        return referred === null || referred === undefined || referred >= there ? null : String(referred + 1)
      }),
      ...one.columns.map(({ values }) => values[row] ?? null),
    ])
    return { name: one.name, columns, rows }
  })
  for (const one of plans) {
    one.references.forEach(({ to, deferral, match }, index) => {
      const [there] = [plans[to]?.name ?? '']
      const matching = hasTenantId ? '' : match // With tenant_id, MATCH FULL could never be satisfied with nulls.
      statements.push(
        `alter table ${quote(one.name)} add foreign key (${tenant}${quote(`ref ${index}`)}) references ${quote(there)} (${tenant}id)${matching}${deferral}`,
      )
    })
  }
  return { statements, tables, sequences }
}
