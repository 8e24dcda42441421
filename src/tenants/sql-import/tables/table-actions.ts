/** Checks the actions of ALTER TABLE, ALTER SEQUENCE and other ALTER statements of a dump. */
import type { Reject } from './routines.ts'
import { isSign, isWords, nameEnd, type Token } from './tokens.ts'

/** By the kind of object: the words that an action may start with. */
const ACTIONS: Readonly<Record<string, readonly string[]>> = {
  table: [
    'add',
    'alter',
    'attach partition',
    'inherit',
    'replica identity',
    'cluster on',
    'validate constraint',
    'disable trigger',
    'enable trigger',
    'set logged|unlogged',
  ],
  sequence: [
    'owned by',
    'set logged|unlogged',
    'start',
    'increment',
    'minvalue',
    'maxvalue',
    'no',
    'cache',
    'cycle',
    'as',
  ],
  index: ['attach partition', 'alter'],
  domain: ['add constraint', 'validate constraint'],
  statistics: ['set statistics'],
}

const ROW_SECURITY = 'row security of a dump is not imported: the isolation driver separates tenants; remove it'

/** @param tokens `alter table only public.notes add ..` */
export function assertActions(tokens: readonly Token[], reject: Reject): void {
  const accepted = ACTIONS[tokens[1]?.word ?? ''] ?? []
  for (const at of actionsOf(tokens)) {
    if (accepted.some((words) => isWords(tokens, at, words))) continue
    if (tokens[1]?.word === 'table' && isWords(tokens, at, 'set') && isSign(tokens[at + 1], '(')) continue
    const shown = [tokens[at], tokens[at + 1]]
      .map((token) => token?.word.toUpperCase())
      .join(' ')
      .trim()
    reject(tokens[at], isRowSecurity(tokens, at) ? ROW_SECURITY : `${shown || tokens[at]?.text} is not accepted`)
  }
}

const isRowSecurity = (tokens: readonly Token[], at: number): boolean =>
  isWords(tokens, at, 'enable|disable|force row level security') || isWords(tokens, at, 'no force row level security')

/** Indexes of the first tokens of the actions. */
function actionsOf(tokens: readonly Token[]): number[] {
  const at = nameEnd(tokens, 2)
  const found = [at]
  const isTable = tokens[1]?.word === 'table'
  for (let next = at; isTable && next < tokens.length; next++) {
    if (isSign(tokens[next], ',') && tokens[next]?.depth === 0) found.push(next + 1)
  }
  return found
}
