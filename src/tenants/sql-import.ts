/**
 * An SQL file, run in the scope of one tenant: each statement as soon as it is whole, all of them in one transaction. Only the
 * statement at hand is in memory, so a file may have any size. Whatever fails is told with its line, and nothing is kept then.
 *
 * What has a line is not committed yet: deferred constraints are checked as the last statement, so that all a file can do wrong is
 * told in the same way, and in a dry run too.
 */
import { CompiledQuery, type Kysely } from 'kysely'
import { DependencyUnavailable, InvalidRequest, TenancyError } from '../kernel/errors.ts'
import type { Capabilities, TenantHandle } from './isolation.ts'
import { verdictOn } from './sql-import-rules.ts'
import { asRejected } from './sql-rejected.ts'
import { lineAt, type SqlStatement, StatementReader } from './sql-statements.ts'
import { Utf8Text } from './utf8-text.ts'

const LONGEST_STATEMENT = 64 * 1024 * 1024

export interface ImportTotals {
  /** That were run. */
  readonly statements: number
  /** Inserted, changed or deleted, as the server counts them. */
  readonly rows: number
  /** Of the file. */
  readonly bytes: number
  /** Settings of a dump that were not run. */
  readonly passedOver: number
}

export interface ImportOptions {
  readonly engine: Capabilities['engine']
  /** Ends it before the next statement; then it throws the signal's reason, and nothing is kept. */
  readonly signal: AbortSignal
  /** Everything is run and checked, and taken back. */
  readonly isDryRun?: boolean | undefined
  readonly onProgress?: ((totals: ImportTotals) => void) | undefined
}

/** Whoever gives the file is told what the server says of it, as with any SQL of the host's own. */
export async function importSql(
  { transaction }: TenantHandle,
  file: AsyncIterable<Uint8Array>,
  options: ImportOptions,
): Promise<ImportTotals> {
  options.signal.throwIfAborted()
  const totals = { statements: 0, rows: 0, bytes: 0, passedOver: 0 }
  let failure: { readonly error: unknown } | undefined
  try {
    await transaction(async (db) => {
      try {
        await runFile(db, file, options, totals)
        if (options.isDryRun) throw DRY_RUN
      } catch (error) {
        failure = { error }
        throw error
      }
    })
  } catch (error) {
    if (!failure) throw error // it was not begun, or the commit failed
    if (failure.error === DRY_RUN) return totals
    options.signal.throwIfAborted()
    throw undone(failure.error)
  }
  return totals
}

type Counted = { -readonly [Name in keyof ImportTotals]: ImportTotals[Name] }

const DRY_RUN = new Error('a dry run')

async function runFile(
  db: Kysely<any>,
  file: AsyncIterable<Uint8Array>,
  { engine, signal, onProgress }: ImportOptions,
  totals: Counted,
): Promise<void> {
  const reader = new StatementReader({ engine, longest: LONGEST_STATEMENT })
  const text = new Utf8Text()
  const runAll = async (statements: Iterable<SqlStatement>) => {
    for (const statement of statements) {
      signal.throwIfAborted()
      await carryOut(db, statement, totals)
    }
  }
  for await (const chunk of file) {
    await runAll(reader.read(text.read(chunk)))
    totals.bytes += chunk.length
    onProgress?.(totals)
  }
  text.end()
  await runAll(reader.end())
  await checkDeferred(db, engine)
  signal.throwIfAborted()
}

async function carryOut(db: Kysely<any>, statement: SqlStatement, totals: Counted): Promise<void> {
  const { text, start } = statement
  const verdict = verdictOn(statement)
  if (verdict === 'pass over') {
    totals.passedOver++
    return
  }
  if (verdict !== 'run') throw InvalidRequest(`line ${lineAt(statement, start)}: ${verdict.refusal}`)
  try {
    const { numAffectedRows } = await db.executeQuery(CompiledQuery.raw(apart(text)))
    totals.rows += Number(numAffectedRows ?? 0)
    totals.statements++
  } catch (error) {
    throw told(`line ${lineAt(statement, offsetOf(error, text) ?? start)}`, error)
  }
}

/** A part of a text keeps all of that in memory: whoever remembers a statement would remember the piece it was read in. */
const apart = (text: string): string => Buffer.from(text).toString()

/** What a commit would check. */
const CHECKS = { postgres: 'set constraints all immediate', sqlite: 'pragma foreign_key_check' } as const

async function checkDeferred(db: Kysely<any>, engine: Capabilities['engine']): Promise<void> {
  try {
    const { rows } = await db.executeQuery(CompiledQuery.raw(CHECKS[engine]))
    if (rows.length > 0) throw new Error('FOREIGN KEY constraint failed')
  } catch (error) {
    throw told('at the end of the file', error)
  }
}

/** Where in the text the server points at; it counts characters from 1. */
function offsetOf(error: unknown, text: string): number | undefined {
  const position = Number((error as { position?: unknown }).position)
  if (!(position > 0)) return undefined
  let offset = 0
  for (let left = position - 1; left > 0 && offset < text.length; left--) {
    offset += (text.codePointAt(offset) ?? 0) > 0xffff ? 2 : 1
  }
  return offset
}

function told(where: string, error: unknown): unknown {
  if (DependencyUnavailable.matches(error)) return again(error, `${where}: the database of this tenant was lost`)
  if (error instanceof TenancyError) return again(error, `${where}: ${error.message}`)
  const rejected = asRejected(error, where)
  if (rejected !== error) return rejected
  return new Error(`${where}: ${error instanceof Error ? error.message : error}`, { cause: error })
}

function undone(error: unknown): unknown {
  const text = `${error instanceof Error ? error.message : error}\nEverything was rolled back; nothing was imported.`
  return error instanceof TenancyError ? again(error, text) : new Error(text, { cause: error })
}

const again = (error: TenancyError, text: string): TenancyError =>
  new TenancyError(error, text, {
    extras: error.extras,
    ...(error.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: error.retryAfterSeconds }),
    cause: error,
  })
