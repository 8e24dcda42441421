/**
 * Statements that begin, end or shape a transaction: a client carries them out itself, as the scope is part of BEGIN. LISTEN needs a
 * session of its own.
 */
import { invalid } from '../kernel/errors.ts'
import type { TransactionModes } from './isolation.ts'

export type Control =
  | { readonly what: 'begin' | 'modes'; readonly modes: TransactionModes }
  | { readonly what: 'commit' | 'rollback' | 'listen' }

/** Comments before a statement, as tracing tools write them. */
const COMMENTS = /^(?:\s+|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)+/
const BEGIN = /^(?:begin|start\s+transaction)(?:\s+(?:work|transaction))?\b(?<modes>[^;]*);?\s*$/i
const MODES = /^set\s+(?:local\s+)?transaction\s(?<modes>[^;]*);?\s*$/i
const END = /^(?<word>commit|end|rollback|abort)(?:\s+(?:work|transaction))?\s*;?\s*$/i
const MODE =
  /^(?:isolation\s+level\s+(?<level>serializable|repeatable\s+read|read\s+committed|read\s+uncommitted)|(?<access>read\s+(?:only|write)))$/i

/** What a text does to the transaction; undefined for any other statement. */
export function transactionControl(text: string): Control | undefined {
  const bare = text.replace(COMMENTS, '')
  const { modes } = BEGIN.exec(bare)?.groups ?? {}
  if (modes !== undefined) return { what: 'begin', modes: modesOf(modes) }
  const { modes: later } = MODES.exec(bare)?.groups ?? {}
  if (later !== undefined) return { what: 'modes', modes: modesOf(later) }
  if (/^listen\s/i.test(bare)) return { what: 'listen' }
  const { word } = END.exec(bare)?.groups ?? {}
  if (word === undefined) return undefined
  return { what: /^(commit|end)$/i.test(word) ? 'commit' : 'rollback' }
}

function modesOf(text: string): TransactionModes {
  const parts = text.trim() === '' ? [] : text.trim().split(/\s*,\s*|\s+(?=read\s+(?:only|write)$)/i)
  let isolationLevel: string | undefined
  let accessMode: string | undefined
  for (const part of parts) {
    const { level, access } = MODE.exec(part)?.groups ?? {}
    if (!level && !access)
      throw invalid([{ path: 'query', message: `"${part}" is not a mode that a transaction can have here` }])
    isolationLevel = level ?? isolationLevel
    accessMode = access ?? accessMode
  }
  return { isolationLevel, accessMode }
}
