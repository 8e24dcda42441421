/**
 * What SQL of a host may do in a tenant's database: everything with its own tables, nothing with a file, with another database,
 * or with what outlives the transaction. What is not listed is refused. SQLite asks before it runs anything.
 */
import type { constants } from 'node:sqlite'

/** Where the driver keeps what has been run. */
export const MIGRATIONS_TABLE = 'tenantry_migrations'

/** Returns why not; undefined: it may. */
export type Authorizer = (action: number, first: string | null, second: string | null) => string | undefined

type Codes = typeof constants

/** Reading what the schema is, and what is reset or kept with the transaction. */
const PRAGMAS = new Set([
  'application_id',
  'collation_list',
  'compile_options',
  'database_list',
  'defer_foreign_keys',
  'foreign_key_check',
  'foreign_key_list',
  'function_list',
  'index_info',
  'index_list',
  'index_xinfo',
  'integrity_check',
  'module_list',
  'pragma_list',
  'quick_check',
  'table_info',
  'table_list',
  'table_xinfo',
  'user_version',
])
/** To be read, not set. The last two are what full-text and spatial tables ask. */
const READ_ONLY_PRAGMAS = new Set(['encoding', 'foreign_keys', 'data_version', 'page_size'])
const MODULES = new Set(['fts3', 'fts4', 'fts5', 'fts5vocab', 'geopoly', 'rtree', 'rtree_i32'])
/** The first reaches files, as the next three would; the last takes an address in memory. */
const FUNCTIONS = new Set(['load_extension', 'readfile', 'writefile', 'edit', 'fts3_tokenizer'])

export function hostAuthorizer(codes: Codes): Authorizer {
  const always = new Set<number>([
    codes.SQLITE_CREATE_INDEX,
    codes.SQLITE_CREATE_TABLE,
    codes.SQLITE_CREATE_TEMP_INDEX,
    codes.SQLITE_CREATE_TEMP_TABLE,
    codes.SQLITE_CREATE_TEMP_TRIGGER,
    codes.SQLITE_CREATE_TEMP_VIEW,
    codes.SQLITE_CREATE_TRIGGER,
    codes.SQLITE_CREATE_VIEW,
    codes.SQLITE_DELETE,
    codes.SQLITE_DROP_INDEX,
    codes.SQLITE_DROP_TABLE,
    codes.SQLITE_DROP_TEMP_INDEX,
    codes.SQLITE_DROP_TEMP_TABLE,
    codes.SQLITE_DROP_TEMP_TRIGGER,
    codes.SQLITE_DROP_TEMP_VIEW,
    codes.SQLITE_DROP_TRIGGER,
    codes.SQLITE_DROP_VIEW,
    codes.SQLITE_DROP_VTABLE,
    codes.SQLITE_INSERT,
    codes.SQLITE_READ,
    codes.SQLITE_SELECT,
    codes.SQLITE_UPDATE,
    codes.SQLITE_ALTER_TABLE,
    codes.SQLITE_ANALYZE,
    codes.SQLITE_RECURSIVE,
    codes.SQLITE_REINDEX,
    codes.SQLITE_SAVEPOINT, // no statement is outside of a transaction
  ])
  return (action, first, second) => {
    if (action === codes.SQLITE_PRAGMA) return pragma(first, second)
    if (isOurs(first) || isOurs(second)) return `the table ${MIGRATIONS_TABLE} belongs to the driver`
    if (always.has(action)) return undefined
    if (action === codes.SQLITE_FUNCTION)
      return listed(FUNCTIONS, second) ? `the function ${second} is not available` : undefined
    if (action === codes.SQLITE_CREATE_VTABLE) {
      return listed(MODULES, second) ? undefined : `virtual tables of ${second} are not available`
    }
    if (action === codes.SQLITE_ATTACH || action === codes.SQLITE_DETACH) {
      return 'a tenant has one database, and it is in memory: ATTACH, DETACH and VACUUM are not available'
    }
    if (action === codes.SQLITE_TRANSACTION) {
      return 'a statement would have begun or ended the transaction it runs in; that is for the handle to do'
    }
    return 'the statement is not available'
  }
}

function pragma(name: string | null, value: string | null): string | undefined {
  if (listed(PRAGMAS, name)) return undefined
  if (listed(READ_ONLY_PRAGMAS, name) && value === null) return undefined
  return `PRAGMA ${name} is not available${listed(READ_ONLY_PRAGMAS, name) ? ' for writing' : ''}`
}

const listed = (list: ReadonlySet<string>, name: string | null): boolean => list.has(name?.toLowerCase() ?? '')

const isOurs = (name: string | null): boolean => name?.toLowerCase() === MIGRATIONS_TABLE
