/**
 * Types of mutants. A mutant is a plausible mistake that breaks isolation, in a source line or in a database; the proof
 * must detect it.
 */

export const DRIVERS = ['schema-pg', 'rowscope-pg', 'database-pg'] as const
export type DriverName = (typeof DRIVERS)[number]

interface Common {
  readonly name: string
  /** Visible effect of the mistake. */
  readonly story: string
  /** Kinds of drivers (subject.fixture.ts) on which it is tested; default: all drivers with the scope in a batch. */
  readonly on?: readonly string[]
}

export interface SourceMutant extends Common {
  /** Path within src. */
  readonly file: string
  /** Must occur exactly once. */
  readonly replace: string
  readonly by: string
  /** Test files that run instead of the proof of each kind, for code that all drivers share. */
  readonly tests?: readonly string[]
}

/** Values for the statements of a mutant. Names are quoted. */
export interface Environment {
  readonly schema: string
  readonly login: string
  readonly scopeRole: string
  readonly database: string
}

export interface SqlMutant extends Common {
  /** Run by the superuser in the database of a tenant that has just been provisioned. */
  readonly sql: (environment: Environment) => string
}

export type Mutant = SourceMutant | SqlMutant

export const isSql = (mutant: Mutant): mutant is SqlMutant => 'sql' in mutant

const BATCH = DRIVERS.map((driver) => `${driver}, batch`)

/** Kinds on which it is tested; empty if the mutant names its own tests. */
export const kindsOf = (mutant: Mutant): readonly string[] => mutant.on ?? (isSql(mutant) || !mutant.tests ? BATCH : [])

/** Drivers in whose score it counts: code that all drivers share counts for each. */
export const driversOf = (mutant: Mutant): readonly DriverName[] => {
  const kinds = mutant.on ?? BATCH
  return DRIVERS.filter((driver) => kinds.some((kind) => kind.startsWith(driver)))
}
