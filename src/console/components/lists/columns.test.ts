/** Choice and order of columns. */
import { describe, expect, test } from 'vitest'
import { columnsInOrder, defaultColumns, movedColumn, namedColumns, textOfColumns } from './columns.ts'

const [name, status, plan, domains, created] = ['name', 'status', 'plan', 'domains', 'created'].map((key) => ({
  key,
  ...(key === 'domains' ? { isDefault: false } : {}),
})) as [Key, Key, Key, Key, Key]
type Key = { readonly key: string; readonly isDefault?: boolean }
const all = [name, status, plan, domains, created]
const keysOf = (columns: readonly Key[] | undefined) => columns?.map(({ key }) => key).join(',')

describe('the columns that an address names', () => {
  test.each([
    ['name,plan,status', 'name,plan,status'],
    ['domains', 'name,domains'],
    ['created,name', 'name,created'],
    ['plan,unknown,,plan,status', 'name,plan,status'],
    ['name', 'name'],
    ['unknown', undefined],
    ['', undefined],
    [undefined, undefined],
  ])('of %j are %j', (text, keys) => {
    expect(keysOf(namedColumns(all, text))).toBe(keys)
  })

  test('are the shown ones again, also with commas and percent signs in their keys', () => {
    const keys = ['a', 'b,c', 'b', '50%', '50%25', 'x%2Cy', 'x,y'].map((key) => ({ key }))
    expect(textOfColumns(keys)).toBe('a,b%2Cc,b,50%25,50%2525,x%252Cy,x%2Cy')
    expect(namedColumns(keys, textOfColumns(keys))).toEqual(keys)
  })

  test('the default ones include the first column, and no column that is not a default', () => {
    expect(keysOf(defaultColumns(all))).toBe('name,status,plan,created')
    expect(keysOf(defaultColumns([domains, status]))).toBe('domains,status')
    expect(defaultColumns([])).toEqual([])
  })
})

describe('the order of columns', () => {
  test('a hidden column follows its neighbour in the table, so that hiding a column keeps its place', () => {
    expect(keysOf(columnsInOrder(all, [name, status, created]))).toBe('name,status,plan,domains,created')
    expect(keysOf(columnsInOrder(all, [name, created, status]))).toBe('name,created,status,plan,domains')
    expect(keysOf(columnsInOrder(all, [name]))).toBe('name,status,plan,domains,created')
  })

  test('a column moves by one place, except over the first column and over the ends', () => {
    const shown = [name, status, plan]
    expect(keysOf(movedColumn(shown, plan, -1))).toBe('name,plan,status')
    expect(keysOf(movedColumn(shown, status, 1))).toBe('name,plan,status')
    expect(movedColumn(shown, status, -1)).toBe(shown)
    expect(movedColumn(shown, plan, 1)).toBe(shown)
  })
})
