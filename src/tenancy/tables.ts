/** The type of the tables of tenants, as a value without content. */

/** Only a type: `DB` is given here, all other types of a definition are inferred. */
export interface Tables<DB = any> {
  /** Absent: only for the compiler. */
  readonly types?: DB
}

/**
 * Declares the tables of tenants' storage for Kysely: `tenant.db` is `Kysely<DB>`. It has no effect at run time.
 *
 * @example
 *   interface Database {
 *     notes: { id: Generated<number>; title: string }
 *   }
 *   export default defineTenancy({ tables: tables<Database>(), isolation: ['schema-pg'] }, import.meta)
 */
export const tables = <DB>(): Tables<DB> => NO_CONTENT

const NO_CONTENT = Object.freeze({})
