/**
 * Types of contract cases: for each operation a successful request, an invalid one, and one for every other documented
 * response; for each command and job, its invocation. A satellite has its cases in `coverage.fixture.ts`.
 *
 * - `{id}` is the tenant of the case. `{webhookId}` and the like are members of earlier responses; their `id` is
 *   `{given}`.
 * - `{receiver}` is the URL of a webhook receiver, which responds with 200; `{receiver}/410` with the status in its
 *   path.
 */
import type { Satellite } from '../../src/tenancy/satellite.ts'
import type { Api } from './calls.ts'

/** A request; its path has the names of the case if `params` lacks them. */
interface CaseRequest {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** Installation fails for a tenant whose id contains this text, because its migration fails. */
export const FAILING = 'broken'

/** Happening: a listener of the host rejects all later events of the tenant. */
export const REFUSED = 'the host rejects events'

export interface Case extends CaseRequest {
  /** Default `active`. */
  readonly tenant?: 'active' | 'provisioning' | 'failed' | 'none'
  /** Recorded placement of the tenant's storage. */
  readonly placement?: string
  /** Recorded driver of the tenant's storage. */
  readonly isolation?: string
  /**
   * Preparation: requests of an admin (`PUT /tenants/{id}/suspend`, or with a body `POST /tenants {"name":"Acme"}`), or
   * a happening.
   */
  readonly given?: readonly string[]
  /** Backup of the tenant before `given`, `{backupId}`: complete, failed, or with only its file known. */
  readonly backup?: 'completed' | 'failed' | 'forgotten'
  /**
   * Whether to call a process with workers with `Prefer: wait`; `cancelled`: a process without workers, while the
   * transfer is cancelled.
   */
  readonly waits?: true | 'cancelled'
  /** Whether the host decides plans, with a failing `getPlan`, and there is no backup storage. */
  readonly plansOfHost?: boolean
}

export interface Row {
  /** Returns the first documented success. */
  readonly success: Case
  /** Returns E_INVALID_REQUEST, with the names of `success`. */
  readonly wrong: CaseRequest
  /** Other documented responses of the operation, by status or code. */
  readonly also?: Readonly<Record<string, Case>>
  /** Whether the operation succeeds while the database is unavailable. */
  readonly needsNoDatabase?: boolean
}

export interface CommandCase extends Case {
  readonly line: readonly string[]
  /** Whether the command runs until it is interrupted; here after its first output. */
  readonly isEndless?: boolean
  /** Differences for the comparison of its JSON with the golden file. */
  readonly json?: Case & {
    readonly line?: readonly string[]
    /** Requests of an admin after the first output. */
    readonly meanwhile?: readonly string[]
  }
}

/** Replacements of names after the preparation of a case; `receiver` is the URL of a receiver. */
export type Names = Readonly<Record<string, string>>

export interface Runner {
  readonly api: Api
  /** The same tenants in a host with a failing `getPlan` and without backup storage. */
  plansOfHost(): Promise<Api>
  prepare(one: Case): Promise<Names>
}

/** Configuration of a satellite that has no defaults, and the external system that it uses. */
export interface Configured {
  readonly satellite: Satellite
  end(): Promise<void>
}

export interface Part {
  readonly operations: Readonly<Record<string, Row>>
  /** As words of a command line. */
  readonly commands?: Readonly<Record<string, CommandCase>>
  readonly jobs?: Readonly<Record<string, Case & { readonly data: Readonly<Record<string, unknown>> }>>
  /** For a satellite that is enabled only by its configuration. */
  readonly configured?: () => Promise<Configured>
  /** Preparations of a case that are not requests, by the line that requests them. Returns names. */
  readonly happenings?: Readonly<Record<string, (runner: Runner, names: Names) => Promise<Names>>>
  /** Publish the events that no request and no command publishes. */
  readonly scenes?: Readonly<Record<string, (runner: Runner) => Promise<unknown>>>
  /** Names of the events that the cases publish; default: those that the satellite declares. */
  readonly events?: readonly string[]
  /** Runs on the runner of every part, before its cases. */
  readonly prepare?: (runner: Runner) => Promise<unknown>
  /**
   * Runs on the runner of every part, after its cases.
   *
   * @param isCovered whether the cases of this runner have published the event
   */
  readonly ending?: (runner: Runner, isCovered: (event: string) => boolean) => Promise<unknown>
}
