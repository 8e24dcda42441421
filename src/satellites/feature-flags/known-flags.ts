/** What a process knows of flags, and what it says of them: the nouns of flag-cache.ts. */
import type { TenancyError } from '../../kernel/errors.ts'
import type { PreparedRule } from './rollout.ts'

/** What is said of a flag. */
export interface Found {
  readonly rule: PreparedRule | undefined
  /** Why the database could not be asked; then `rule` is the last known one. */
  readonly failure?: TenancyError
  /** False when nothing was known either. */
  readonly isKnown: boolean
}

export interface Entry extends Found {
  /** Which load it is from, in the order in which they began. */
  readonly load: number
  readonly at: number
  /** The time without a gap in what is heard that it was loaded in. */
  readonly period: number
  /** From when on it is loaded again while it is served. */
  dueAt: number
  isDoubtful: boolean
}

/** All of a tenant. */
export interface Whole {
  readonly found: readonly Found[]
  readonly failure?: TenancyError
}

export interface KnownWhole extends Whole {
  readonly begun: Begun
}

export interface TenantFlags {
  readonly entries: Map<string, Entry>
  whole?: KnownWhole
  loadingWhole?: Promise<Whole> | undefined
  readonly loading: Map<string, Promise<Found>>
  /** Rises with every change that is heard of. */
  generation: number
  wasAsked: boolean
}

/** Where a load began. */
export interface Begun {
  readonly load: number
  readonly at: number
  readonly generation: number
  readonly period: number
}

export const lastKnown = (entry: Entry | undefined, failure: TenancyError): Found => ({
  rule: entry?.rule,
  isKnown: entry !== undefined,
  failure,
})
