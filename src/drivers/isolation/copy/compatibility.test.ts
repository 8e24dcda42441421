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
  ['all of its columns are there', copy([ID, ['body', 'text']]), []],
  ['in whichever order', copy([['body', 'text'], ID]), []],
  ['some may be without values', copy([ID]), []],
  ['a column that is not there', copy([ID, ['title', 'text']]), ['there is no column "title" in the table "notes"']],
  ['of another type', copy([['id', 'bigint']]), ['the column "id" of the table "notes" is integer, not bigint']],
  ['that is generated', copy([ID, ['length', 'integer']]), ['the column "length" of the table "notes" is generated']],
  [
    'that says whose',
    copy([ID, ['tenant_id', 'text']]),
    ['the column "tenant_id" of the table "notes" says whose a row is, which no copy does'],
  ],
  [
    'that must have values',
    copy([['body', 'text']]),
    ['the column "id" of the table "notes" must have values, and it has none'],
  ],
  ['twice', copy([ID, ID]), ['the column "id" of the table "notes" is in it twice']],
  [
    'a name of every object',
    copy([ID, ['constructor', 'text']]),
    ['there is no column "constructor" in the table "notes"'],
  ],
  [
    'a table that is not there',
    copy([ID], { tables: [{ name: 'Notes', columns: [] }] }),
    ['there is no table "Notes"'],
  ],
  [
    'a table twice',
    copy([], { tables: [1, 2].map(() => ({ name: 'tags', columns: [] })) }),
    ['the table "tags" is in it twice'],
  ],
  [
    'a sequence that is not there',
    copy([ID], { sequences: [{ name: 'free', lastValue: '1', isCalled: true }] }),
    ['there is no sequence "free"'],
  ],
  [
    'a sequence at no number',
    copy([ID], { sequences: [{ name: 'notes_id_seq', lastValue: 'one', isCalled: true }] }),
    ['the sequence "notes_id_seq" is at no number'],
  ],
])('a copy with %s', (_, description, expected) => {
  expect(schemaMismatches(description, STORED)).toEqual(expected)
})

describe('what is told', () => {
  test('names what does not fit, and not without an end', () => {
    const columns = Array.from({ length: 9 }, (_, n) => [`c${n}`, 'text'] as const)
    expect(() => assertCompatible(copy([ID, ...columns]), STORED)).toThrow(
      /no column "c0" .* no column "c4" in the table "notes"; and 4 more/,
    )
    expect(() => assertCompatible(copy([ID]), STORED)).not.toThrow()
  })

  test('is that it cannot be restored', () => {
    const refused = () => assertCompatible(copy([]), STORED)
    expect(refused).toThrow(expect.objectContaining({ code: BackupIncompatible.code, status: 409 }))
  })
})
