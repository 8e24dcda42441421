import { describe, expect, test } from 'vitest'
import { NamedStatements } from './named-statements.ts'

const nameOf = (statements: NamedStatements, key: string, generation = 1) => statements.nameOf(key, generation)
/** Uses a statement twice and returns its name. */
function named(statements: NamedStatements, key: string): string | undefined {
  nameOf(statements, key)
  return nameOf(statements, key)
}

describe('a statement', () => {
  test('is named at its second use, and keeps its name', () => {
    const statements = new NamedStatements()
    expect(nameOf(statements, 'select 1')).toBeUndefined()
    const name = nameOf(statements, 'select 1')
    expect(name).toMatch(/^tenantry_\d+$/)
    expect(nameOf(statements, 'select 1')).toBe(name)
    expect(named(statements, 'select 2')).not.toBe(name)
    expect(statements.takeUnneeded()).toEqual([])
  })

  test('has another name on another connection', () => {
    expect(named(new NamedStatements(), 'select 1')).not.toBe(named(new NamedStatements(), 'select 1'))
  })

  test('that is forgotten is closed once, and starts again without a name', () => {
    const statements = new NamedStatements()
    const name = named(statements, 'select 1')
    statements.forget('select 1')
    statements.forget('select 1')
    expect(statements.takeUnneeded()).toEqual([name])
    expect(statements.takeUnneeded()).toEqual([])
    expect(nameOf(statements, 'select 1')).toBeUndefined()
    expect(nameOf(statements, 'select 1')).not.toBe(name)
  })

  test('loses its name when the tables have changed', () => {
    const statements = new NamedStatements()
    const before = ['select 1', 'select 2'].map((key) => named(statements, key))
    nameOf(statements, 'used once')
    expect(nameOf(statements, 'select 1', 2)).toBeUndefined()
    expect(statements.takeUnneeded()).toEqual(before)
  })
})

test('the two hundred most recently used statements are kept', () => {
  const statements = new NamedStatements()
  const first = named(statements, 'select 0')
  const second = named(statements, 'select 1')
  for (let n = 2; n < 200; n++) named(statements, `select ${n}`)
  expect(nameOf(statements, 'select 0')).toBe(first)
  expect(statements.takeUnneeded()).toEqual([])
  nameOf(statements, 'one more')
  expect(statements.takeUnneeded()).toEqual([second])
  expect(nameOf(statements, 'select 0')).toBe(first)
})
