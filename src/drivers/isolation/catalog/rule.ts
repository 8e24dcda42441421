/** Describes a rule of isolation for the catalog of a server: one query, whose rows violate the rule. */
import type pg from 'pg'
import type { Severity } from '../../../kernel/doctor/doctor.ts'

export interface Broken {
  /** Name of the object in the form of `pg_describe_object`: `table t1_acme.notes`. */
  readonly object: string
  /** Second result of the query, for the message. */
  readonly other: string
  /** Schema of a tenant, if the object is in one. */
  readonly schema: string | null
  /** Third result of the query, for rules that need it. */
  readonly detail: string
  /** The role of `url`, quoted, if the query returns it. */
  readonly owner: string
  /** For a rule with `repair`: whether the role of `url` has the right to repair. */
  readonly mayRepair?: boolean
}

export interface CatalogRule {
  readonly code: string
  readonly severity: Severity
  /**
   * Returns `object`, and `other` and `schema` if the rule has them. It is prefixed by `PRELUDE` and may use its names.
   */
  readonly query: string
  /** Description of the problem, to follow the object's name. */
  readonly fault: (broken: Broken) => string
  readonly remedy: (broken: Broken) => string
  /** Executes the remedy in a transaction with the lock of `baseObjects`. It checks again and is idempotent. */
  readonly repair?: (client: pg.ClientBase) => Promise<unknown>
}
