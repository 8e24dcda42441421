/** Texts that a client carries out itself, in every form that PostgreSQL accepts. */
import { describe, expect, test } from 'vitest'
import { endsTransaction } from '../../drivers/isolation/scope/session-state.ts'
import { type Control, transactionControl } from './transaction-control.ts'

const BLANKS = ' '.repeat(100_000)
const commit: Control = { what: 'commit' }
const rollback: Control = { what: 'rollback' }
const begin = (isolationLevel?: string, accessMode?: string, deferral?: string): Control => ({
  what: 'begin',
  modes: { isolationLevel, accessMode, deferral },
})

describe('transactionControl', () => {
  test.each<[string, Control]>([
    ['COMMIT', commit],
    ['end work ;', commit],
    ['/* /* x */ */ commit', commit],
    ['-- a\r\n;; commit/**/;; -- b', commit],
    ['commit and no chain', commit],
    ['abort transaction', rollback],
    ['rollback/**/and no chain;', rollback],
    ['begin', begin()],
    ['Start/**/Transaction;', begin()],
    ['begin isolation level\n repeatable  read', begin('repeatable read')],
    ['begin work read only, isolation level serializable', begin('serializable', 'read only')],
    ['begin isolation level serializable read write;', begin('serializable', 'read write')],
    ['begin isolation level read committed, isolation level serializable', begin('serializable')],
    ['begin isolation level serializable read only deferrable', begin('serializable', 'read only', 'deferrable')],
    ['begin deferrable, not/**/deferrable', begin(undefined, undefined, 'not deferrable')],
    ['set transaction deferrable', { ...begin(undefined, undefined, 'deferrable'), what: 'modes' } as Control],
    ['set local transaction read/**/only', { ...begin(undefined, 'read only'), what: 'modes' } as Control],
    ['set session transaction read only', { ...begin(undefined, 'read only'), what: 'modes' } as Control],
  ])('parses %j', (text, control) => {
    expect(transactionControl(text)).toEqual(control)
  })

  test.each([
    'select 1',
    'rollback to savepoint a',
    'rollback work to a',
    'commit prepared $$x$$',
    'commit; select 1',
    'begin; select 1',
    'commit_x',
    'commit"x"',
    'set transaction_isolation = serializable',
    'set session characteristics as transaction read only',
    '/* /* x */ commit',
    '-- commit',
    '',
  ])('returns undefined for %j', (text) => {
    expect(transactionControl(text)).toBeUndefined()
  })

  test.each([
    ['commit and chain', 'AND CHAIN'],
    ['/**/ROLLBACK work AND/**/CHAIN;', 'AND CHAIN'],
    ['listen"x"', 'LISTEN'],
    ['LISTEN/**/x', 'LISTEN'],
    [';listen x', 'LISTEN'],
    ['begin immediate', 'immediate'],
    ['begin read only,', '"," is not available'],
    ['begin not read only', '"not read only" is not available'],
    ['begin read only serializable', 'serializable'],
    [`set transaction snapshot '1-1'`, 'snapshot'],
  ])('rejects %j', (text, reason) => {
    expect(() => transactionControl(text)).toThrow(
      expect.objectContaining({ message: expect.stringContaining(reason) }),
    )
  })

  test.each([
    `begin${BLANKS}x;y`,
    `set transaction${BLANKS}`,
    `commit${BLANKS}x`,
    `${BLANKS};${BLANKS}x`,
    `begin ${'read only, '.repeat(10_000)};y`,
    `${'/*'.repeat(210_000)}commit`,
    `${'--\n'.repeat(210_000)}commit x`,
    `end ${';'.repeat(100_000)} x`,
  ])('reads a text of 100,000 characters in linear time (case %#)', (text) => {
    const began = performance.now()
    expect(transactionControl(text)).toBeUndefined()
    expect(performance.now() - began).toBeLessThan(2_000)
  })
})

test('a session detects the end of a transaction with the same parser', () => {
  for (const text of [';commit', '/* /* x */ */ commit', '--\rrollback', 'abort', 'prepare/**/transaction $$x$$'])
    expect(endsTransaction(text), text).toBe(true)
  for (const text of ['rollback to a', 'rollback work to a', 'select 1', '-- commit', '/* /* */ commit'])
    expect(endsTransaction(text), text).toBe(false)
})
