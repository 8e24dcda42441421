/** A rule of isolation for the catalog of a server: one query, whose rows violate it. */
import type pg from 'pg'
import type { Severity } from '../../../kernel/doctor/doctor.ts'

export interface Broken {
  /** As `pg_describe_object` calls it: `table t1_acme.notes`. */
  readonly object: string
  /** Whatever else the query answers, for the words. */
  readonly other: string
  /** That of a tenant, when the object is in one. */
  readonly schema: string | null
  /** A second word of the query's, for a rule that needs it. */
  readonly detail: string
  /** The role of `url`, quoted, where the query answers it. */
  readonly owner: string
  /** Of a rule with `repair`: whether the role of `url` may do it. */
  readonly mayRepair?: boolean
}

export interface CatalogRule {
  readonly code: string
  readonly severity: Severity
  /** Answers `object`, and `other` and `schema` where it has them; the names of `PRELUDE` stand before it. */
  readonly query: string
  /** What is wrong, after the object's name. */
  readonly fault: (broken: Broken) => string
  readonly remedy: (broken: Broken) => string
  /** Does what `remedy` tells, in a transaction with the lock of `baseObjects`. It looks again, and is safe to repeat. */
  readonly repair?: (client: pg.ClientBase) => Promise<unknown>
}
