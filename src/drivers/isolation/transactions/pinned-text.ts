/**
 * Statements of one transaction as one text, in one round trip, which takes as long as several statements. Names without
 * a schema are those of `pg_catalog`, so all others are qualified, also in results.
 */
import type pg from 'pg'

export const PINNED_PATH = 'set local search_path = pg_catalog'
/** Queries of the catalog take longer to compile, and to plan with merge joins, than to run. */
const PIN = [PINNED_PATH, 'set local jit = off', 'set local enable_mergejoin = off']

export type Results = readonly pg.QueryResult[]

/** In a transaction. The settings stay until its end. */
export const pinnedText = (...statements: readonly string[]): string => [...PIN, ...statements].join(';\n')

/** Returns the result of each statement. */
export async function runPinned(client: pg.ClientBase, ...statements: readonly string[]): Promise<Results> {
  const results = await client.query(pinnedText(...statements))
  return (results as unknown as Results).slice(PIN.length)
}

/** The same for groups of statements: returns the results of each group. */
export async function runGroups(client: pg.ClientBase, groups: readonly (readonly string[])[]): Promise<Results[]> {
  const results = [...(await runPinned(client, ...groups.flat()))]
  return groups.map(({ length }) => results.splice(0, length))
}
