/**
 * The cases of a part for contract/coverage.ts, as data: for each operation a request that succeeds, one that is wrong, and one for
 * every other answer that the document promises; for each command and job, how it is asked for.
 *
 * `{id}` stands for the tenant of the case, made for it alone, and `{webhookId}`, say, for a member of that name in the answer
 * to a request that was given before; its `id` is `{given}`. `{receiver}` is the URL of a receiver of webhooks, which answers 200,
 * and `{receiver}/410` what its path says. A satellite's part is `coverage.fixture.ts` in its folder, so that
 * it comes and goes with it.
 */
import type { Satellite } from '../../src/tenancy/satellite.ts'
import type { Api } from './calls.ts'

/** A request, whose path has the names of its case where `params` has none. */
interface CaseRequest {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** A tenant whose id holds this cannot be installed: its migration fails. */
export const FAILING = 'broken'

/** Given: from now on a listener of the host refuses what happens to the tenant of the case. */
export const REFUSED = 'the host refuses'

export interface Case extends CaseRequest {
  /** Default `active`. */
  readonly tenant?: 'active' | 'provisioning' | 'failed' | 'none'
  /** Of the tenant: where its storage is said to be. */
  readonly placement?: string
  /** Of the tenant: the driver that is said to have its storage. */
  readonly isolation?: string
  /** Comes before: requests of an admin (`PUT /tenants/{id}/suspend`, or with a body `POST /tenants {"name":"Acme"}`), or a happening. */
  readonly given?: readonly string[]
  /** Of the tenant, before what is given: a backup, `{backupId}`, that is complete, that failed, or of which only the file is known. */
  readonly backup?: 'completed' | 'failed' | 'forgotten'
  /** Asked of a process with workers, with `Prefer: wait`; `cancelled`: of one without, and the transfer is cancelled meanwhile. */
  readonly waits?: true | 'cancelled'
  /** Where the plans are decided by the host, whose `getPlan` fails, and where there is no place for backups. */
  readonly plansOfHost?: boolean
}

export interface Row {
  /** Answered with the first success that the document names. */
  readonly success: Case
  /** Answered with E_INVALID_REQUEST, with the names of `success`. */
  readonly wrong: CaseRequest
  /** By status or code: what else the document promises of this operation in particular. */
  readonly also?: Readonly<Record<string, Case>>
  /** Whether the operation succeeds while the database is unavailable. */
  readonly needsNoDatabase?: boolean
}

export interface CommandCase extends Case {
  readonly line: readonly string[]
  /** It goes on until it is interrupted, as it is here when it has said something. */
  readonly isEndless?: boolean
  /** What is otherwise where its result, as JSON, is held against its golden file. */
  readonly json?: Case & {
    readonly line?: readonly string[]
    /** Requests of an admin once it has said something. */
    readonly meanwhile?: readonly string[]
  }
}

/** What stands for what, once the tenant of a case is made and what is given has happened; `receiver` is a URL that answers. */
export type Names = Readonly<Record<string, string>>

export interface Runner {
  readonly api: Api
  /** The same tenants, but the plans are decided by a host whose `getPlan` fails, and there is no place for backups. */
  plansOfHost(): Promise<Api>
  prepare(one: Case): Promise<Names>
}

/** What a satellite is configured with where nothing can be made up, and what it talks to then. */
export interface Configured {
  readonly satellite: Satellite
  end(): Promise<void>
}

export interface Part {
  readonly operations: Readonly<Record<string, Row>>
  /** As words of a command line. */
  readonly commands?: Readonly<Record<string, CommandCase>>
  readonly jobs?: Readonly<Record<string, Case & { readonly data: Readonly<Record<string, unknown>> }>>
  /** Of a satellite that is on only where it is configured. */
  readonly configured?: () => Promise<Configured>
  /** What may be given before a case, and is no request; by the line that asks for it. Answers names. */
  readonly happenings?: Readonly<Record<string, (runner: Runner, names: Names) => Promise<Names>>>
  /** What publishes the events that no request and no command does. */
  readonly scenes?: Readonly<Record<string, (runner: Runner) => Promise<unknown>>>
  /** Names of the events that the cases publish; of a satellite, by default those that it declares. */
  readonly events?: readonly string[]
  /** Runs on the runner of every part, before its cases. */
  readonly prepare?: (runner: Runner) => Promise<unknown>
  /**
   * Runs on the runner of every part, after its cases.
   *
   * @param isCovered whether the cases of this stage have published the event of that name
   */
  readonly ending?: (runner: Runner, isCovered: (event: string) => boolean) => Promise<unknown>
}
