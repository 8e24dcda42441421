/**
 * The allow list of an import with tables: what happens to each statement of a plain dump.
 *
 *   run        definitions of tables, types, sequences, indexes, constraints, views, functions, triggers, and comments
 *   skipped    owners, grants, settings: they belong to the server of the dump, and are counted
 *   rows       INSERT, COPY, setval: as in an import of rows (rules.ts)
 *   rejected   all others, with line and kind
 */
import { InvalidRequest } from '../../../kernel/base/errors.ts'
import { lineAt, type SqlStatement } from '../splitter.ts'
import { forbiddenIn } from './forbidden.ts'
import { type Reject, routineEdits } from './routines.ts'
import { AMBIGUOUS, type SchemaNames } from './schema-names.ts'
import { assertActions } from './table-actions.ts'
import { edited, isSign, isWords, nameEnd, shownOpening, type Token, tokensOf } from './tokens.ts'

export type DumpStatement =
  | { readonly action: 'rows' }
  | { readonly action: 'skip'; readonly what: Skipped }
  /** @property text with the schema of the tenant; as many lines as in the file */
  | { readonly action: 'run'; readonly kind: string; readonly text: string }

export type Skipped = 'owners' | 'grants' | 'settings' | 'schemas' | 'statistics'

const ROWS = new Set(['insert', 'copy', 'set', 'select'])
const ACCEPTED =
  'an import with tables accepts definitions of tables, types, sequences, indexes, constraints, views, functions and triggers, comments, and rows'

/** Beginnings of accepted statements, by their words; the rest is parsed by `check`. */
interface Rule {
  readonly words: string
  readonly kind: string
  /** Index of the name of the created object; default: it is not created here. */
  readonly creates?: boolean
  readonly check?: 'actions' | 'no query' | 'type' | 'index'
}

const RULES: readonly Rule[] = [
  { words: 'create table', kind: 'CREATE TABLE', creates: true, check: 'no query' },
  { words: 'create unlogged table', kind: 'CREATE TABLE', creates: true, check: 'no query' },
  { words: 'create sequence', kind: 'CREATE SEQUENCE', creates: true },
  { words: 'create unlogged sequence', kind: 'CREATE SEQUENCE', creates: true },
  { words: 'create type', kind: 'CREATE TYPE', creates: true, check: 'type' },
  { words: 'create domain', kind: 'CREATE DOMAIN', creates: true },
  { words: 'create function|procedure', kind: 'CREATE FUNCTION', creates: true },
  { words: 'create or replace function|procedure', kind: 'CREATE FUNCTION', creates: true },
  { words: 'create view', kind: 'CREATE VIEW', creates: true },
  { words: 'create or replace view', kind: 'CREATE VIEW', creates: true },
  { words: 'create materialized view', kind: 'CREATE MATERIALIZED VIEW', creates: true },
  { words: 'create statistics', kind: 'CREATE STATISTICS', creates: true },
  { words: 'create index', kind: 'CREATE INDEX', check: 'index' },
  { words: 'create unique index', kind: 'CREATE INDEX', check: 'index' },
  { words: 'create trigger', kind: 'CREATE TRIGGER' },
  { words: 'create constraint trigger', kind: 'CREATE TRIGGER' },
  { words: 'refresh materialized view', kind: 'REFRESH MATERIALIZED VIEW' },
  { words: 'alter table|sequence|index|domain|statistics', kind: 'ALTER', check: 'actions' },
  {
    words:
      'comment on table|column|type|domain|function|procedure|sequence|index|constraint|view|materialized|trigger|statistics',
    kind: 'COMMENT',
  },
]

/** Kinds of objects whose owners are skipped. */
const OWNED = [
  'materialized view',
  'foreign table',
  'table|view|sequence|index|function|procedure|routine|aggregate|type|domain|schema|statistics',
]

const EXTENSIONS =
  'create the extension on the server, let `extensionsSchema` name its schema, and write the dump with pg_dump --extension=plpgsql'
/** Advice for rejected statements, by their first words. */
const HINTS: readonly (readonly [words: string, hint: string])[] = [
  ['create|comment extension', EXTENSIONS],
  ['create policy', 'row security of a dump is not imported: the isolation driver separates tenants; remove it'],
  ['create rule', 'rules run with the rights of their owner; use a trigger'],
  ['create or replace rule', 'rules run with the rights of their owner; use a trigger'],
  ['create event trigger', 'event triggers affect all tenants of a database'],
  ['create foreign', 'foreign tables and servers reach beyond the storage of the tenant'],
  ['create server', 'foreign tables and servers reach beyond the storage of the tenant'],
  ['create publication', 'write the dump with pg_dump --no-publications'],
  ['create subscription', 'write the dump with pg_dump --no-subscriptions'],
  ['create database', 'write the dump with pg_dump, without --create and not with pg_dumpall'],
  ['create role', 'write the dump with pg_dump, not with pg_dumpall'],
  ['drop', 'write the dump with pg_dump, without --clean'],
  ['security label', 'write the dump with pg_dump --no-security-labels'],
  [
    'begin|start|commit|end|rollback|savepoint|release|prepare',
    'the whole file is one transaction; remove this statement',
  ],
]

/** Throws `E_INVALID_REQUEST` with line and kind of a statement that is not accepted. */
export function dumpStatement(statement: SqlStatement, names: SchemaNames): DumpStatement {
  const [first = ''] = statement.opening
  if (ROWS.has(first) || statement.text.startsWith('\\', statement.start)) return rowsOrSetting(statement)
  const tokens = tokensOf(statement.text, statement.start)
  const skipped = skippedOf(tokens, names)
  if (skipped) return { action: 'skip', what: skipped }
  const rule = RULES.find(({ words }) => isWords(tokens, 0, words))
  const kind =
    rule?.kind === 'ALTER'
      ? shownOpening(tokens, 2)
      : (rule?.kind ?? (shownOpening(tokens, 2) || tokens[0]?.text || ''))
  const reject: Reject = (token, reason) => {
    throw InvalidRequest(`line ${lineAt(statement, token?.start ?? statement.start)}: ${kind}: ${reason}`)
  }
  if (!rule) {
    const hint = HINTS.find(([words]) => isWords(tokens, 0, words))?.[1] ?? ACCEPTED
    throw InvalidRequest(`line ${lineAt(statement, statement.start)}: ${kind} is not accepted: ${hint}`)
  }
  assertTokens(tokens, reject)
  if (rule.creates) assertCreatedName(tokens, rule, names, reject)
  assertRule(tokens, rule, reject)
  const alias = names.alias(withoutComment(tokens, rule))
  if (alias) reject(alias, AMBIGUOUS)
  const edits =
    rule.kind === 'CREATE FUNCTION' ? routineEdits(tokens, names, reject) : names.edits(withoutComment(tokens, rule))
  return { action: 'run', kind, text: edited(statement.text, edits).slice(statement.start) }
}

/** SET and SELECT may be settings; rules.ts reads all of them. */
function rowsOrSetting({ text, start }: SqlStatement): DumpStatement {
  const tokens = tokensOf(text.slice(start, start + LONGEST_SETTING))
  if (isWords(tokens, 0, 'set default_tablespace|default_table_access_method'))
    return { action: 'skip', what: 'settings' }
  if (isWords(tokens, 0, 'set session authorization')) return { action: 'skip', what: 'owners' }
  const isStatistics = tokens.some(({ word }) => /^pg_restore_(relation|attribute)_stats$/.test(word))
  if (isWords(tokens, 0, 'select') && isSign(tokens[1], '*') && isStatistics)
    return { action: 'skip', what: 'statistics' }
  return { action: 'rows' }
}

/** Characters that are enough to recognise a setting. */
const LONGEST_SETTING = 200

function skippedOf(tokens: readonly Token[], names: SchemaNames): Skipped | undefined {
  if (isWords(tokens, 0, 'grant|revoke') || isWords(tokens, 0, 'alter default privileges')) return 'grants'
  if (isWords(tokens, 0, 'reset session authorization')) return 'owners'
  const last = tokens.length - 1
  if (isOwnerChange(tokens)) return 'owners'
  if (isWords(tokens, 0, 'create schema')) {
    const named = isWords(tokens, 2, 'if not exists') ? tokens[5] : tokens[2]
    const isAll = named !== undefined && named === tokens[last] && named.name !== undefined
    return isAll && names.accept(named.name) ? 'schemas' : undefined
  }
  if (isWords(tokens, 0, 'comment on schema')) return 'schemas'
  // Part of each database; dumps of former versions contain it.
  if (
    isWords(tokens, 0, 'create extension if not exists plpgsql') ||
    isWords(tokens, 0, 'comment on extension plpgsql')
  )
    return 'settings'
  return undefined
}

/** `alter table only public.notes owner to app`; with other actions, the statement is not skipped. */
function isOwnerChange(tokens: readonly Token[]): boolean {
  if (!isWords(tokens, 0, 'alter')) return false
  const words = OWNED.find((kind) => isWords(tokens, 1, kind))
  if (words === undefined) return false
  let at = nameEnd(tokens, 1 + words.split(' ').length)
  if (isSign(tokens[at], '('))
    at = tokens.findIndex((token, index) => index > at && isSign(token, ')') && token.depth === 0) + 1
  return isWords(tokens, at, 'owner to') && tokens[at + 2]?.name !== undefined && tokens.length === at + 3
}

function assertTokens(tokens: readonly Token[], reject: Reject): void {
  const open = tokens.find(({ kind }) => kind === 'open')
  if (open) reject(open, 'an unclosed quote or comment')
  const found = forbiddenIn(tokens)
  if (found) reject(found.token, found.reason)
}

function assertCreatedName(tokens: readonly Token[], { words }: Rule, names: SchemaNames, reject: Reject): void {
  let at = words.split(' ').length
  if (isWords(tokens, at, 'if not exists')) at += 3
  const token = tokens[at]
  if (token?.name === undefined) reject(token, 'a name is expected here')
  if (!isSign(tokens[at + 1], '.')) return
  if (!names.accept(token.name)) {
    reject(
      token,
      `the file has objects of ${names.own ?? 'its schema'} and of ${token.name}; write the dump with pg_dump --schema=NAME for one schema`,
    )
  }
  if (tokens[at + 2]?.name === token.name) reject(token, AMBIGUOUS)
}

function assertRule(tokens: readonly Token[], { words, check }: Rule, reject: Reject): void {
  const outside = tokens.filter(({ depth }) => depth === 0)
  if (check === 'actions') assertActions(tokens, reject)
  if (check === 'index') {
    const concurrently = outside.find(({ word }) => word === 'concurrently')
    if (concurrently) reject(concurrently, 'an import is one transaction; remove CONCURRENTLY')
  }
  if (check === 'no query') {
    const query = outside.find(({ word }, at) => word === 'as' && at > words.split(' ').length)
    if (query) reject(query, 'CREATE TABLE .. AS is not accepted')
  }
  if (check !== 'type') return
  const as = outside.findIndex(({ word }) => word === 'as')
  const isAccepted = as > 0 && (isWords(outside, as + 1, 'enum|range') || isSign(outside[as + 1], '('))
  if (!isAccepted) reject(tokens[0], 'only enumerations, ranges and composite types are accepted')
}

/** The text of a comment is not a name. */
const withoutComment = (tokens: readonly Token[], { kind }: Rule): readonly Token[] =>
  kind === 'COMMENT' ? tokens.slice(0, -1) : tokens
