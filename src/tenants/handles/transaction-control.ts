/**
 * Parses statements that start, end or configure a transaction, which a client carries out itself, as the scope is part
 * of BEGIN. Rejects AND CHAIN, which would start a transaction without the scope, and LISTEN, which needs its own
 * session.
 */
import { invalid } from '../../kernel/base/errors.ts'
import type { TransactionModes } from '../isolation/driver.ts'
import { leadingTokens } from './leading-tokens.ts'

export type Control =
  | { readonly what: 'begin' | 'modes'; readonly modes: TransactionModes }
  | { readonly what: 'commit' | 'rollback' }

const FIRST_WORDS = new Set(['begin', 'start', 'set', 'commit', 'end', 'rollback', 'abort', 'listen'])

// The expressions match tokens separated by one space.
const BEGIN = /^(?:begin(?: work| transaction)?|start transaction)(?: (?<modes>.+))?$/
const MODES = /^set (?:local |session )?transaction (?<modes>.+)$/
const END = /^(?:(?<commit>commit|end)|rollback|abort)(?: work| transaction)?(?<chain> and chain| and no chain)?$/
const MODE =
  /(?:^|(?: ,)? )(?:isolation level (?<level>serializable|repeatable read|read committed|read uncommitted)|(?<access>read only|read write)|(?<deferral>(?:not )?deferrable))(?= |$)/y

/** The transaction control of a text; undefined for any other statement, and for several in one text. */
export function transactionControl(text: string): Control | undefined {
  const [first = ''] = leadingTokens(text, 1)
  if (!FIRST_WORDS.has(first)) return undefined
  if (first === 'listen') throw new Error('LISTEN is not available on a tenant client: it holds no session')
  if (first === 'set' && !leadingTokens(text, 3).includes('transaction')) return undefined
  const tokens = leadingTokens(text, Number.POSITIVE_INFINITY)
  if (tokens.at(-1) === ';') tokens.pop()
  if (tokens.includes(';')) return undefined
  const statement = tokens.join(' ')
  const begin = BEGIN.exec(statement)
  if (begin) return { what: 'begin', modes: modesOf(begin.groups?.modes ?? '') }
  const { modes } = MODES.exec(statement)?.groups ?? {}
  if (modes !== undefined) return { what: 'modes', modes: modesOf(modes) }
  const end = END.exec(statement)?.groups
  if (!end) return undefined
  if (end.chain === ' and chain')
    throw new Error('AND CHAIN is not available on a tenant client: start the next transaction with BEGIN')
  return { what: end.commit ? 'commit' : 'rollback' }
}

/** The last mode of a kind counts, as in PostgreSQL. */
function modesOf(text: string): TransactionModes {
  let modes: TransactionModes = {}
  for (let at = 0; at < text.length; at = MODE.lastIndex) {
    MODE.lastIndex = at
    const found = MODE.exec(text)?.groups
    if (!found) {
      const mode = text.slice(at, at + 100).replace(/^ ?,? /, '')
      const message = `"${mode}" is not available here; the modes are ISOLATION LEVEL, READ ONLY, READ WRITE and [NOT] DEFERRABLE`
      throw invalid([{ path: 'query', message }])
    }
    modes = {
      isolationLevel: found.level ?? modes.isolationLevel,
      accessMode: found.access ?? modes.accessMode,
      deferral: found.deferral ?? modes.deferral,
    }
  }
  return modes
}
