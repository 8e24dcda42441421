/**
 * Which statements of a file an import does not run. Those that would leave the tenant's scope or end its transaction are refused,
 * with what to do about them; so is what is no SQL, and what needs a connection of its own. The settings that `pg_dump` writes at
 * the head of a dump are passed over: they are meant for a session of psql, and in a scope some would do harm.
 */
import type { SqlStatement } from './sql-statements.ts'

export type Verdict = 'run' | 'pass over' | { readonly refusal: string }

const PLAIN_DUMP = 'write a dump with pg_dump --data-only --column-inserts'

/** What a dump begins and ends with, so that psql runs no other command in between. */
const AROUND_A_DUMP = /^\\(?:un)?restrict\b/

/** In the words of `pg_dump` and `pg_dumpall`: of others nobody says that they are not meant. */
const SETTINGS_OF_A_DUMP = [
  /^set (?:statement|lock|transaction|idle_in_transaction_session)_timeout = 0$/i,
  /^set client_encoding = '(?:UTF8|SQL_ASCII)'$/i,
  /^set standard_conforming_strings = on$/i,
  /^set check_function_bodies = false$/i,
  /^set xmloption = content$/i,
  /^set client_min_messages = warning$/i,
  /^set row_security = (?:on|off)$/i,
  /^set default_tablespace = ''$/i,
  /^set default_table_access_method = heap$/i,
  /^set default_with_oids = false$/i,
  /^set default_transaction_read_only = off$/i,
  /^select pg_catalog\.set_config\('search_path', '', false\)$/i,
]

/** What a scope is made of; `set schema` sets the search path. */
const OF_THE_SCOPE = new Set(['search_path', 'schema', 'role', 'authorization', 'session_authorization'])
const SETS_SCOPE =
  /^select\s+(?:pg_catalog\s*\.\s*)?set_config\s*\(\s*'(?:search_path|role|session_authorization|app\.tenant_id)'/i
const ENCODING = new Set(['client_encoding', 'names'])
const UTF_8 = /(?:=|\bto\b|\bnames\b)\s*'?utf-?8'?$/i

export function verdictOn({ text, start, opening }: SqlStatement): Verdict {
  const statement = text.slice(start)
  const [first = ''] = opening
  if (statement.startsWith('\\')) return onCommand(statement)
  if (first === 'copy') return { refusal: `COPY needs a connection of its own: ${PLAIN_DUMP}` }
  if (endsTransaction(opening)) {
    return {
      refusal: `${first.toUpperCase()}: all of the file is one transaction, which it cannot divide; take it out`,
    }
  }
  if (SETTINGS_OF_A_DUMP.some((setting) => setting.test(statement))) return 'pass over'
  if (first === 'select' && SETS_SCOPE.test(statement)) return LEAVES_SCOPE
  return first === 'set' || first === 'reset' ? onSetting(statement, opening) : 'run'
}

const LEAVES_SCOPE = { refusal: 'this would change where the statements after it find their tables; take it out' }

function onCommand(statement: string): Verdict {
  if (AROUND_A_DUMP.test(statement)) return 'pass over'
  const name = /^\\[a-z_!?.]*/i.exec(statement)?.[0]
  return { refusal: `${name} is a command of psql and no SQL; take it out, or ${PLAIN_DUMP}` }
}

function endsTransaction([first = '', second = '', third = '']: readonly string[]): boolean {
  if (first === 'rollback') return second !== 'to' && third !== 'to' // a savepoint
  if (first === 'start' || first === 'prepare') return second === 'transaction'
  return ['begin', 'commit', 'end', 'abort'].includes(first)
}

function onSetting(statement: string, opening: readonly string[]): Verdict {
  const [first, name = '', part] = opening.filter((word) => word !== 'session' && word !== 'local')
  const isAll = first === 'reset' && name === 'all'
  if (isAll || OF_THE_SCOPE.has(name) || (name === 'app' && part === 'tenant_id')) return LEAVES_SCOPE
  if (first === 'set' && ENCODING.has(name) && !UTF_8.test(statement)) {
    return { refusal: 'the file is read as UTF-8; write a dump with --encoding=UTF8' }
  }
  if (first === 'set' && name === 'standard_conforming_strings' && !/\bon$/i.test(statement)) {
    return { refusal: 'a backslash in a string means nothing here; take it out, and write E before such strings' }
  }
  return 'run'
}
