/**
 * A mutant is one way to break isolation, as somebody might by mistake: in a line of the source, or in a database that is in use.
 * The proof has to notice each of them. They live here, outside of the source, and are put into a copy of it.
 */

export const DRIVERS = ['schema-pg', 'rowscope-pg', 'database-pg'] as const
export type DriverName = (typeof DRIVERS)[number]

interface Common {
  readonly name: string
  /** What somebody would see who has such a bug. */
  readonly story: string
  /** Kinds of drivers (subject.fixture.ts) that it is tried on; default those of all drivers with the scope in a batch. */
  readonly on?: readonly string[]
}

export interface SourceMutant extends Common {
  /** Within src. */
  readonly file: string
  /** Must be there exactly once. */
  readonly replace: string
  readonly by: string
  /** Files of tests that are run instead of the proof of each kind: for what all drivers stand on. */
  readonly tests?: readonly string[]
}

/** What the statements of a mutant are told. Names are quoted. */
export interface Environment {
  readonly schema: string
  readonly login: string
  readonly scopeRole: string
  readonly database: string
}

export interface SqlMutant extends Common {
  /** Run by the superuser, in the database of a tenant, when that has just been provisioned. */
  readonly sql: (environment: Environment) => string
}

export type Mutant = SourceMutant | SqlMutant

export const isSql = (mutant: Mutant): mutant is SqlMutant => 'sql' in mutant

const BATCH = DRIVERS.map((driver) => `${driver}, batch`)

/** Kinds that it is tried on; none for one that tests of its own decide. */
export const kindsOf = (mutant: Mutant): readonly string[] => mutant.on ?? (isSql(mutant) || !mutant.tests ? BATCH : [])

/** Whose score it counts in: what all drivers stand on counts for each. */
export const driversOf = (mutant: Mutant): readonly DriverName[] => {
  const kinds = mutant.on ?? BATCH
  return DRIVERS.filter((driver) => kinds.some((kind) => kind.startsWith(driver)))
}
