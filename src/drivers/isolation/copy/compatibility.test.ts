import { describe, expect, test } from 'vitest'
import { BackupIncompatible, type CopyDescription } from '../../../tenants/isolation/copy.ts'
import type { StoredColumn, StoredSchema } from '../catalog/tables.ts'
import { assertCompatible, schemaMismatches } from './compatibility.ts'

const column = (name: string, type: string, more: Partial<StoredColumn> = {}): StoredColumn => ({
  name,
  type,
  isGenerated: false,
  isFilled: false,
  isRequired: false,
  ...more,
})

const STORED: StoredSchema = {
  tables: [
    {
      name: 'notes',
      isPartitioned: false,
      hasForeignRows: false,
      columns: [
        column('tenant_id', 'text', { isFilled: true }),
        column('id', 'integer', { isRequired: true }),
        column('body', 'text'),
        column('length', 'integer', { isGenerated: true }),
      ],
    },
    { name: 'tags', isPartitioned: false, hasForeignRows: false, columns: [column('tag', 'text')] },
  ],
  sequences: [{ name: 'notes_id_seq', increment: '1', cache: '1', column: null }],
}

const copy = (
  columns: readonly (readonly [string, string])[],
  more: Partial<CopyDescription> = {},
): CopyDescription => ({
  engine: 'postgres',
  isolation: 'schema-pg',
  migrations: [],
  tables: [{ name: 'notes', columns: columns.map(([name, type]) => ({ name, type })) }],
  sequences: [],
  ...more,
})

const ID = ['id', 'integer'] as const

test.each<[why: string, description: CopyDescription, expected: string[]]>([
  ['all columns of the table', copy([ID, ['body', 'text']]), []],
  ['the columns in another order', copy([['body', 'text'], ID]), []],
  ['no values for an optional column', copy([ID]), []],
  ['an unknown column', copy([ID, ['title', 'text']]), ['there is no column "title" in the table "notes"']],
  [
    'a column of another type',
    copy([['id', 'bigint']]),
    ['the column "id" of the table "notes" is integer, not bigint'],
  ],
  ['a generated column', copy([ID, ['length', 'integer']]), ['the column "length" of the table "notes" is generated']],
  [
    'a column that names the tenant',
    copy([ID, ['tenant_id', 'text']]),
    ['the column "tenant_id" of the table "notes" names the tenant of a row, which copies do not contain'],
  ],
  [
    'no values for a required column',
    copy([['body', 'text']]),
    ['the column "id" of the table "notes" is required, and the copy has no values for it'],
  ],
  ['twice', copy([ID, ID]), ['the copy contains the column "id" of the table "notes" twice']],
  [
    'a column with a name of Object.prototype',
    copy([ID, ['constructor', 'text']]),
    ['there is no column "constructor" in the table "notes"'],
  ],
  ['an unknown table', copy([ID], { tables: [{ name: 'Notes', columns: [] }] }), ['there is no table "Notes"']],
  [
    'the same table twice',
    copy([], { tables: [1, 2].map(() => ({ name: 'tags', columns: [] })) }),
    ['the copy contains the table "tags" twice'],
  ],
  [
    'an unknown sequence',
    copy([ID], { sequences: [{ name: 'free', lastValue: '1', isCalled: true }] }),
    ['there is no sequence "free"'],
  ],
  [
    'a sequence whose value is not a number',
    copy([ID], { sequences: [{ name: 'notes_id_seq', lastValue: 'one', isCalled: true }] }),
    ['the value of the sequence "notes_id_seq" is not a number'],
  ],
])('schemaMismatches returns the differences of a copy with %s', (_, description, expected) => {
  expect(schemaMismatches(description, STORED)).toEqual(expected)
})

describe('message of an incompatible copy', () => {
  test('the message of an incompatible copy names a limited number of differences', () => {
    const columns = Array.from({ length: 9 }, (_, n) => [`c${n}`, 'text'] as const)
    expect(() => assertCompatible(copy([ID, ...columns]), STORED)).toThrow(
      /no column "c0" .* no column "c4" in the table "notes"; and 4 more/,
    )
    expect(() => assertCompatible(copy([ID]), STORED)).not.toThrow()
  })

  test('an incompatible copy is reported as E_BACKUP_INCOMPATIBLE', () => {
    const rejected = () => assertCompatible(copy([]), STORED)
    expect(rejected).toThrow(expect.objectContaining({ code: BackupIncompatible.code, status: 409 }))
  })
})
