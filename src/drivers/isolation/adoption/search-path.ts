/**
 * Reads the text of the setting `search_path` and writes it with quoted names. The owner of a database determines this
 * text: it never becomes part of a statement unchanged.
 */
import pg from 'pg'

export interface SearchPath {
  /** Names of schemas, and `$user`. */
  readonly names: readonly string[]
  /** Names without quotes that are no identifiers. PostgreSQL accepts them as the value of the setting. */
  readonly irregular: readonly string[]
}

/** A quoted name, or any text without a space. */
const ITEM = /\s*(?:"((?:[^"]|"")*)"|([^\s,"][^\s,]*))\s*(?:,|$)/y
const PLAIN = /^[a-z_][a-z0-9_$]*$/i

/** Without empty names. Throws on text that PostgreSQL does not accept either. */
export function parseSearchPath(text: string): SearchPath {
  const names: string[] = []
  const irregular: string[] = []
  ITEM.lastIndex = 0
  for (let end = 0; text.slice(end).trim() !== ''; end = ITEM.lastIndex) {
    const [found, quoted, bare = ''] = ITEM.exec(text) ?? []
    if (found === undefined) throw new Error('The search path of the database is not a list of names')
    const name = quoted === undefined ? bare.toLowerCase() : quoted.replaceAll('""', '"')
    if (quoted === undefined && !PLAIN.test(bare)) irregular.push(bare)
    if (name !== '') names.push(name)
  }
  return { names, irregular }
}

/** The value for `set search_path = …`. */
export const searchPathValue = (names: readonly string[]): string =>
  names.length === 0 ? "''" : names.map((name) => pg.escapeIdentifier(name)).join(', ')
