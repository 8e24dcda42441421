/** Values and inputs of unknown form, without a browser. */
import { describe, expect, test } from 'vitest'
import type { FieldRules } from '../../../src/console/api/contract.ts'
import { jsonOf, shortened, textOf } from '../../../src/console/components/base/value-text.ts'
import { inputOf, kindOf, knownMembers, rulesOf } from '../../../src/console/generic/input.ts'
import { isTime, membersOf } from '../../../src/console/generic/members.ts'
import { type HostOperation, paramOf } from '../../../src/console/generic/operation.ts'

const nested = (levels: number): unknown => (levels === 0 ? 'end' : { a: nested(levels - 1) })

describe('the text of a value', () => {
  test.each([
    [{ toString: '' }, '{"toString":""}'],
    [JSON.parse('{ "__proto__": { "toJSON": 1 } }'), '{"__proto__":{"toJSON":1}}'],
    [[1, null], '[1,null]'],
    ['plain', 'plain'],
    [0, '0'],
    [null, ''],
    [undefined, ''],
  ])('of %j is %j', (value, text) => {
    expect(textOf(value)).toBe(text)
  })

  test('has at most 300 characters, and no half character at its end', () => {
    expect(textOf('x'.repeat(300))).toBe('x'.repeat(300))
    expect(textOf('x'.repeat(301))).toBe(`${'x'.repeat(299)}…`)
    expect(textOf(['x'.repeat(400)])).toHaveLength(300)
    expect(shortened('ab😀cd', 4)).toBe('ab…')
  })

  test('has at most 50 levels', () => {
    expect(jsonOf(nested(50))).toContain('"end"')
    expect(jsonOf(nested(51))).not.toContain('"end"')
    expect(jsonOf(nested(51))).toContain('"…"')
    expect(textOf(nested(2_000)).length).toBeLessThanOrEqual(300)
  })
})

describe('members', () => {
  test.each([
    ['2026-01-02T03:04:05Z', true],
    ['2026-01-02T03:04:05.678Z', true],
    ['2026-13-45T99:99:99Z', false],
    ['2026-01-02', false],
    [1, false],
  ])('%j is a time: %s', (value, expected) => {
    expect(isTime(value)).toBe(expected)
  })

  test('names with the same title are labels themselves', () => {
    const labels = membersOf({ noteId: 1, note_id: 2, text: 3 })?.map(({ label }) => label)
    expect(labels).toEqual(['noteId', 'note_id', 'Text'])
  })

  test('objects, arrays and long texts are not inline; a long name is shortened', () => {
    const members = membersOf({ a: null, b: 'x'.repeat(301), c: [], d: {}, e: true, ['f'.repeat(900)]: 1 })
    expect(members?.map(({ isInline }) => isInline)).toEqual([true, false, false, false, true, true])
    expect(members?.at(-1)?.label).toHaveLength(300)
  })

  test('a value with more than 500 members is JSON, as a value without members', () => {
    const withMembers = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`m${at}`, at]))
    expect(membersOf(withMembers(500))).toHaveLength(500)
    expect([withMembers(501), [1], 'text', null].map(membersOf)).toEqual([undefined, undefined, undefined, undefined])
  })

  test('a parameter of a path is a text, number or boolean', () => {
    expect(['a', 0, false, null, undefined, {}, { toString: '' }, ['a']].map(paramOf)).toEqual([
      'a',
      '0',
      'false',
      ...['', '', '', '', ''],
    ])
  })
})

describe('the input of a change', () => {
  const operation = (method: string): HostOperation => ({
    satellite: 'notes',
    name: 'notes.change',
    method,
    path: '/notes/{noteId}',
    summary: 'Change a note',
    params: { noteId: { type: 'string', required: true } },
    query: {},
    body: {
      text: { type: 'string' },
      labels: { type: 'array' },
      position: { type: 'json' },
      isUrgent: { type: 'boolean', default: false },
      version: { type: 'integer', required: true },
    },
    isPlainBody: false,
    result: 'value',
    columns: [],
    isSecret: false,
  })
  const start = { text: 'one\r\ntwo', labels: [' red', 'blue'], position: { page: 1 }, version: 3 }
  /** As the fields return them without a change. */
  const shown = { text: 'one\ntwo', labels: ['red', 'blue'], position: { page: 1 }, isUrgent: false, version: 3 }
  const bodyOf = (method: string, values: object) =>
    inputOf(operation(method), { noteId: 'n-1' }, { ...shown, ...values }, start).body

  test('PATCH has changed and required members only', () => {
    expect(bodyOf('PATCH', {})).toEqual({ version: 3 })
    expect(bodyOf('PATCH', { text: 'one', isUrgent: true })).toEqual({ version: 3, text: 'one', isUrgent: true })
    expect(bodyOf('PATCH', { labels: ['blue'], position: { page: 2 } })).toEqual({
      version: 3,
      labels: ['blue'],
      position: { page: 2 },
    })
  })

  test('PUT has all members', () => {
    expect(bodyOf('PUT', {})).toEqual(shown)
  })

  test('fields begin with the members of the body, and with null if the body allows it', () => {
    const state = { text: 'a', labels: null, due: null, id: 'n-1' }
    const { body, ...others } = operation('PATCH')
    const due = { type: 'string', nullable: true } as const
    expect(knownMembers(state, { ...others, body: { ...body, due } })).toEqual({ text: 'a', due: null })
  })

  describe('of an emptied field', () => {
    /** The rule, the first value, and the member that is sent: undefined for none. */
    type Case = [rule: FieldRules, start: unknown, sent: unknown]
    const cases: Case[] = [
      [{ type: 'string', nullable: true }, 'a', null],
      [{ type: 'integer', nullable: true }, 0, null],
      [{ type: 'array', nullable: true }, ['a'], null],
      [{ type: 'json', nullable: true }, { a: 1 }, null],
      [{ type: 'boolean', nullable: true }, false, null],
      [{ type: 'string', enum: ['a'], nullable: true }, 'a', null],
      [{ type: 'string' }, 'a', ''],
      [{ type: 'array' }, ['a'], []],
    ]
    const changeOf = (method: string, rule: FieldRules): HostOperation => ({ ...operation(method), body: { it: rule } })
    const sentBy = (method: string, rule: FieldRules, start: unknown) =>
      inputOf(changeOf(method, rule), {}, {}, start === undefined ? {} : { it: start }).body

    test.each(cases)('with the rule %j and the value %j is %j', (rule, start, sent) => {
      for (const method of ['PATCH', 'PUT']) expect(sentBy(method, rule, start)).toEqual({ it: sent })
    })

    test.each(cases.map(([rule]) => rule))('with the rule %j is not sent by PATCH if it was empty before', (rule) => {
      for (const start of [undefined, rule.nullable ? null : rule.type === 'array' ? [] : '']) {
        expect(sentBy('PATCH', rule, start)).toEqual({})
      }
      const kept = { type: 'json', nullable: true } as const
      for (const start of [{}, [], '']) expect(sentBy('PATCH', kept, start)).toEqual({})
    })

    test('is null in a new object if the member is required and nullable', () => {
      expect(sentBy('POST', { type: 'string', nullable: true, required: true }, undefined)).toEqual({ it: null })
      expect(sentBy('POST', { type: 'string', nullable: true }, undefined)).toEqual({})
    })

    test.each([
      { type: 'string', minLength: 1 },
      { type: 'string', format: 'email' },
      { type: 'array', minItems: 1 },
      { type: 'number' },
      { type: 'json' },
    ] satisfies FieldRules[])('with the rule %j is rejected by the form of a PATCH', (rule) => {
      const value = rule.type === 'array' ? ['a'] : 1
      expect(rulesOf(changeOf('PATCH', rule), {}, { it: value }).it?.required).toBe(true)
      expect(rulesOf(changeOf('PATCH', rule), {}, {}).it?.required).toBeUndefined()
      expect(rulesOf(changeOf('PUT', rule), {}, { it: value }).it?.required).toBeUndefined()
    })
  })

  test('a nullable field with a value has a button that empties it, and a nullable boolean a third choice', () => {
    expect(kindOf({ type: 'string', nullable: true })).not.toHaveProperty('isClearable')
    expect(kindOf({ type: 'string', nullable: true }, 'a')).toMatchObject({
      isClearable: true,
      hint: 'Empty: no value',
    })
    expect(kindOf({ type: 'boolean', nullable: true, required: true }).options).toHaveLength(2)
    expect(kindOf({ type: 'string', enum: ['a'], nullable: true }, 'a')).not.toHaveProperty('isClearable')
  })

  test('a password has a password field; a text with several lines has a text area', () => {
    expect(kindOf({ type: 'string', format: 'password' }, 'a\nb').as).toBe('password')
    expect(kindOf({ type: 'string', format: 'email' }).as).toBe('email')
    expect(kindOf({ type: 'string' }, 'a\nb').as).toBe('textarea')
    expect(kindOf({ type: 'string' }, 'a').as).toBeUndefined()
  })
})
