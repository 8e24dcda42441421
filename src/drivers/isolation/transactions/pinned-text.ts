/**
 * Statements of one transaction as one text, in one round trip, which takes as long as several statements. Names without
 * a schema are those of `pg_catalog`, so all others are qualified, also in results.
 */
import type pg from 'pg'

/** A query of the catalog takes longer to compile than to run. */
const PIN = ['set local search_path = pg_catalog', 'set local jit = off']

export type Results = readonly pg.QueryResult[]

/** In a transaction. The settings stay until its end. */
export const pinnedText = (...statements: readonly string[]): string => [...PIN, ...statements].join(';\n')

/** Returns the result of each statement. */
export async function runPinned(client: pg.ClientBase, ...statements: readonly string[]): Promise<Results> {
  const results = await client.query(pinnedText(...statements))
  return (results as unknown as Results).slice(PIN.length)
}
