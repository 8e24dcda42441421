/**
 * Rules of an import: it accepts only data, and no statement that selects its tenant.
 *
 *   insert   INSERT INTO name [(column, ..)] [OVERRIDING .. VALUE] VALUES (literal, ..), .. [ON CONFLICT .. DO NOTHING], or DEFAULT VALUES
 *   copy     COPY name (column, ..) FROM stdin, and its rows
 *   setval   SELECT [pg_catalog.]setval('name', number [, true | false])
 *   setting  settings that `pg_dump` writes around its rows: they are skipped
 *
 * Each statement is parsed completely, token by token, and rejected with its line if no rule accepts it. No statement
 * can call a function, read a row, or name an object of another tenant. import.ts checks whether a name belongs to the
 * tenant.
 */
import type { Capabilities } from '../isolation/driver.ts'
import { lowerCase, TokenCursor } from './cursor.ts'
import { type SqlName, StatementParser } from './parser.ts'
import type { SqlStatement } from './splitter.ts'

export type ImportStatement =
  | { readonly kind: 'setting' }
  | { readonly kind: 'insert'; readonly table: SqlName }
  | { readonly kind: 'copy'; readonly table: SqlName; readonly columns: readonly string[] }
  /** Decimal digits. */
  | { readonly kind: 'setval'; readonly sequence: SqlName; readonly lastValue: string; readonly isCalled: boolean }

const PLAIN_DUMP = 'write the dump with pg_dump --data-only'
const ACCEPTED =
  'an import accepts INSERT with literal values, COPY .. FROM stdin, setval and the settings of pg_dump; run other SQL with tenant:exec or tenant:seed'
const LITERALS =
  'values are strings, numbers, NULL, TRUE, FALSE, DEFAULT, CURRENT_DATE, CURRENT_TIME and CURRENT_TIMESTAMP'

/** The first and last line of a dump, which prevent other commands of psql in between. */
const AROUND_A_DUMP = /^\\(?:un)?restrict\b/

/** Settings of `pg_dump` and `pg_dumpall`, token by token. They are meant for a session of psql and are not run. */
const SETTINGS = new Set([
  'set statement_timeout = 0',
  'set lock_timeout = 0',
  'set transaction_timeout = 0',
  'set idle_in_transaction_session_timeout = 0',
  "set client_encoding = 'utf8'",
  "set client_encoding = 'sql_ascii'",
  'set standard_conforming_strings = on',
  'set check_function_bodies = false',
  'set xmloption = content',
  'set client_min_messages = warning',
  'set row_security = on',
  'set row_security = off',
  "set default_tablespace = ''",
  'set default_table_access_method = heap',
  'set default_with_oids = false',
  'set default_transaction_read_only = off',
  "select pg_catalog . set_config ( 'search_path' , '' , false )",
])
const LONGEST_SETTING = 12

const NOT_UTF8 = 'the file must be UTF-8; write the dump with --encoding=UTF8'
const SETTING_HINTS: Readonly<Record<string, string>> = {
  client_encoding: NOT_UTF8,
  names: NOT_UTF8,
  standard_conforming_strings:
    'a backslash in a string has no special meaning here; remove this statement, and write E before such strings',
}

const ENDS_TRANSACTION = new Set([
  'begin',
  'start',
  'commit',
  'end',
  'abort',
  'rollback',
  'prepare',
  'savepoint',
  'release',
])
const LITERAL_WORDS = new Set([
  ...['null', 'true', 'false', 'default'],
  ...['current_date', 'current_time', 'current_timestamp'],
])
const LARGE_OBJECTS = 'large objects are not imported; write the dump with pg_dump --data-only --no-blobs'
const NAMES = 'columns must be names'
const SETVAL = `SELECT is accepted only as setval('sequence', number, true or false): ${ACCEPTED}`
const ON_CONFLICT = 'an import accepts ON CONFLICT .. DO NOTHING only'
const BITS = new Set(['b', 'x'])
const BIT_STRING = /^[bx]'[0-9a-f]*'$/i
const DIGITS = /^[0-9]{1,19}$/

/** Throws `E_INVALID_REQUEST` with the line of a token that is not accepted. */
export function parseStatement(statement: SqlStatement, engine: Capabilities['engine']): ImportStatement {
  const parser = new StatementParser(statement, engine)
  if (parser.at.isSign('\\')) return psqlCommand(parser)
  const first = parser.at.word
  if (first === 'insert') return insert(parser)
  if (first === 'copy') return copy(parser)
  if (first === 'set' || first === 'select') return settingOrSetval(parser, first)
  if (ENDS_TRANSACTION.has(first)) {
    throw parser.rejected(`${first.toUpperCase()}: the whole file is one transaction; remove this statement`)
  }
  throw parser.rejected(`${first.toUpperCase() || parser.shown} is not accepted: ${ACCEPTED}`)
}

function psqlCommand(parser: StatementParser): ImportStatement {
  if (AROUND_A_DUMP.test(parser.text)) return { kind: 'setting' }
  const name = /^\\[a-z_!?.]*/i.exec(parser.text)?.[0]
  throw parser.rejected(`${name} is a command of psql, not SQL; remove it, or ${PLAIN_DUMP}`)
}

function settingOrSetval(parser: StatementParser, first: 'set' | 'select'): ImportStatement {
  const tokens: string[] = []
  for (const { at } = parser; !at.is('end') && tokens.length <= LONGEST_SETTING; at.next()) {
    tokens.push(lowerCase(at.text))
  }
  if (SETTINGS.has(tokens.join(' '))) return { kind: 'setting' }
  parser.restart()
  if (/^select (pg_catalog \. )?lo_/.test(tokens.join(' '))) throw parser.rejected(LARGE_OBJECTS)
  if (first === 'select') return setval(parser)
  const [, name = ''] = tokens
  throw parser.rejected(SETTING_HINTS[name] ?? 'this is not a setting of pg_dump; remove it')
}

function setval(parser: StatementParser): ImportStatement {
  const { at } = parser
  at.next()
  if (parser.isWordTaken('pg_catalog')) parser.sign('.', SETVAL)
  parser.word('setval', SETVAL)
  parser.sign('(', SETVAL)
  const sequence = nameInString(parser) ?? parser.unexpected(SETVAL)
  at.next()
  parser.sign(',', SETVAL)
  const minus = parser.isTaken('-') ? '-' : ''
  const { text: digits, kind } = at
  if (kind !== 'number' || !DIGITS.test(digits)) parser.unexpected(SETVAL)
  at.next()
  const isGiven = parser.isTaken(',')
  const isCalled = !isGiven || at.word === 'true'
  if (isGiven && !parser.isWordTaken('true')) parser.word('false', SETVAL)
  parser.sign(')', SETVAL)
  parser.end(SETVAL)
  return { kind: 'setval', sequence, lastValue: minus + digits, isCalled }
}

/** Undefined if the token is not a string with a name. */
function nameInString(parser: StatementParser): SqlName | undefined {
  const { kind, text, start, end } = parser.at
  if (kind !== 'string' || !text.startsWith("'")) return undefined
  const inner = new TokenCursor(text.slice(1, -1).replaceAll("''", "'"), parser.engine)
  const { schema, name } = parser.name(inner)
  return inner.kind === 'end' ? { schema, name, start, end } : undefined
}

function insert(parser: StatementParser): ImportStatement {
  parser.at.next()
  parser.word('into', ACCEPTED)
  const table = parser.name()
  if (parser.at.isSign('(')) parser.names(NAMES)
  if (parser.isWordTaken('overriding')) {
    if (!parser.isWordTaken('system')) parser.word('user', ACCEPTED)
    parser.word('value', ACCEPTED)
  }
  if (parser.isWordTaken('default')) parser.word('values', ACCEPTED)
  else {
    parser.word('values', ACCEPTED)
    do row(parser)
    while (parser.isTaken(','))
  }
  if (parser.isWordTaken('on')) onConflict(parser)
  parser.end(ACCEPTED)
  return { kind: 'insert', table }
}

function row(parser: StatementParser): void {
  parser.sign('(', LITERALS)
  do value(parser)
  while (parser.isTaken(','))
  parser.sign(')', LITERALS)
}

function value(parser: StatementParser): void {
  const { at } = parser
  if (at.is('sign')) {
    if (!at.isSign('-') && !at.isSign('+')) parser.unexpected(LITERALS)
    at.next()
    if (!at.is('number')) parser.unexpected(LITERALS)
  } else if (BITS.has(at.word)) {
    const { start, end } = at
    at.next()
    const isBits = at.is('string') && at.start === end && BIT_STRING.test(parser.between(start, at.end))
    if (!isBits) parser.unexpected(LITERALS)
  } else if (!at.is('string') && !at.is('number') && !LITERAL_WORDS.has(at.word)) {
    parser.unexpected(LITERALS)
  }
  at.next()
}

function onConflict(parser: StatementParser): void {
  parser.word('conflict', ACCEPTED)
  if (parser.at.isSign('(')) parser.names(NAMES)
  else if (parser.isWordTaken('on')) {
    parser.word('constraint', ACCEPTED)
    if (parser.at.name === undefined) parser.unexpected(ACCEPTED)
    parser.at.next()
  }
  parser.word('do', ACCEPTED)
  parser.word('nothing', ON_CONFLICT)
}

function copy(parser: StatementParser): ImportStatement {
  if (parser.engine === 'sqlite') {
    throw parser.rejected('COPY is for PostgreSQL only; write the dump with pg_dump --data-only --inserts')
  }
  parser.at.next()
  const table = parser.name()
  const columns = parser.names('COPY names its columns, as pg_dump writes them')
  parser.word('from', ACCEPTED)
  parser.word('stdin', ACCEPTED)
  parser.end(`COPY takes no options here; ${PLAIN_DUMP}`)
  return { kind: 'copy', table, columns }
}
