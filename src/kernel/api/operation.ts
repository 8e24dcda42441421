/**
 * The shape of an operation of the admin API: route, schemas of input and reply, errors, and a function of the service. HTTP serves it,
 * OpenAPI describes it, the audit log names it, and a command projects it. Paths are in OpenAPI's form (`/tenants/{id}`), relative to the
 * prefix.
 */
import type { z } from 'zod'
import type { Grant } from '../base/context.ts'
import type { ErrorExtras, ErrorType, TenancyError } from '../base/errors.ts'
import type { Argument, Option } from './commands.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** Parsed input of a handler. */
export interface Input<Params, Query, Body> {
  readonly params: Params
  readonly query: Query
  readonly body: Body
  readonly headers: Headers
  readonly signal: AbortSignal
  /** Of a command in this process. */
  readonly onProgress?: Progress | undefined
  /** Of a request: its permissions at present, for a long response. Undefined: its token or session has ended. */
  readonly currentGrant?: () => Promise<Grant | undefined>
}

export type Progress = (done: number, total: number) => void

/** A response with another status or other headers than the operation's usual ones. */
export class Reply<T = unknown> {
  readonly body: T
  readonly status: number
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, body: T, headers: Readonly<Record<string, string>> = {}) {
    this.status = status
    this.body = body
    this.headers = headers
  }
}

/** A streamed response in another media type: an export, or without a file name an endless stream of events. */
export class StreamReply {
  readonly contentType: string
  readonly chunks: AsyncIterable<string>
  readonly fileName: string | undefined

  constructor(contentType: string, fileName: string | undefined, chunks: AsyncIterable<string>) {
    this.contentType = contentType
    this.fileName = fileName
    this.chunks = chunks
  }
}

/** Failure of the job of a request. */
export class JobFailure {
  readonly code: string
  readonly message: string

  constructor({ code, message }: { readonly code: string; readonly message: string }) {
    this.code = code
    this.message = message
  }
}

type Handled<T> = T | Reply<T> | StreamReply

/**
 * State that GET reads at a path, and PUT, PATCH or DELETE change. Its responses have an `ETag`. A change with `If-Match` runs in one
 * transaction with `lock`, so nothing changes between comparison and change.
 */
export interface Resource<Service = any, Params = any, State extends z.ZodType = z.ZodType> {
  /** Schema of the responses that show it. */
  readonly state: State
  /** Locks it until the present transaction ends. Resolves to its present state; undefined if it does not exist. */
  readonly lock: (service: Service, params: Params) => Promise<z.input<State> | undefined>
}

export const resource = <Service, Params, State extends z.ZodType>(
  definition: Resource<Service, Params, State>,
): Resource<Service, Params, State> => definition

/** Input of a call as JSON, before the operation's schemas parse it. */
export interface CallInput {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: any
}

/** Calls an operation: in this process, or at a remote service. Resolves to the body of the reply. */
export type Call = (operation: AnyOperation, input: CallInput) => Promise<any>

/** The wait of a command for the job of its call. */
export interface Waiting<State = any> {
  /** The time limit in seconds, or a switch to start the job only. */
  readonly option: Option
  /** The first state of the job; default: the body of the reply. */
  readonly started?: (reply: Reply<any>, call: Call) => Promise<State>
  readonly isPending: (state: State) => boolean
  readonly progress: (state: State) => string
  /** Reads the present state. */
  readonly read: (state: State, call: Call) => Promise<State>
  /** The result that the command prints; default: the state. */
  readonly result?: (state: State, call: Call) => Promise<unknown>
  /** The error of the command, after it has printed the result. */
  readonly failure: (state: State) => TenancyError | undefined
  /** On the database: does the job in this process, and waits for its end. Default: a worker does it. */
  readonly work?: (service: any, state: State, options: WorkOptions<State>) => Promise<unknown>
  /** A message after an interruption, and after a state that could not be read. */
  readonly interrupted?: (state: State) => string
}

export interface WorkOptions<State> {
  readonly signal: AbortSignal
  readonly show: (state: State) => void
}

/**
 * The command of an operation, where it differs from the operation. An absent member is derived: arguments from the parameters of
 * the path, options from query and body, a table from a page, a record from another reply, the parameters where there is no reply.
 */
export interface CommandForm<Body = any> {
  readonly name: string
  readonly summary?: string
  /** By parameter, or by member of query or body that is an argument instead of an option. A text is a summary. */
  readonly arguments?: Readonly<Record<string, string | Partial<Argument>>>
  /** By member of query or body, or of what `query` or `body` takes, in this order; other members follow. A text is a summary. */
  readonly options?: Readonly<Record<string, string | Partial<Option>>>
  /** Makes the query of the request from the given members. */
  readonly query?: (given: Readonly<Record<string, any>>) => Readonly<Record<string, string>>
  /** Makes the body of the request from the given members. */
  readonly body?: (given: Readonly<Record<string, any>>) => unknown
  /** The command calls the operation only if the answer is yes, or if there is no question. */
  readonly question?: (input: Required<CallInput>, call: Call) => string | undefined | Promise<string | undefined>
  /** The plan of the operation: the command prints it, and calls the operation only with `--yes`. */
  readonly plan?: PlanForm
  /** With this switch, the command calls the other operation, which has the same path and reply. */
  readonly instead?: { readonly option: Option; readonly operation: AnyOperation }
  /** What `onProgress` counts: `entries verified`. */
  readonly progress?: string
  /** Reads all pages. The result is the list of their items. */
  readonly readsAllPages?: true
  readonly wait?: Waiting
  /** The list of the objects of its path, all of which it accepts by `--filter` with a query of the list. */
  readonly filter?: AnyOperation
  /** Prints a table of these rows, with `--json` the reply. */
  readonly rows?: (reply: Body) => readonly Readonly<Record<string, unknown>>[]
  /** Prints this record in place of the reply. */
  readonly record?: (reply: Body, input: Required<CallInput>) => Readonly<Record<string, unknown>>
  /** A message on standard error, after the result. */
  readonly message?: (reply: Body) => string | undefined
  /** The error of the command, after it has printed the result: a check has found problems. */
  readonly failure?: (reply: Body) => TenancyError | undefined
}

export interface PlanForm<Plan = any> {
  /** Returns the plan, and changes nothing. */
  readonly operation: AnyOperation
  /** Makes its body from that of the operation. */
  readonly request: (body: any) => unknown
  /** Lines for a terminal; with `--json` it is the plan itself. */
  readonly text: (plan: Plan) => string
  /** Why the plan cannot be executed. */
  readonly failure: (plan: Plan) => TenancyError | undefined
  /** Makes the body of the operation, so that it executes this plan only. */
  readonly body: (plan: Plan, body: any) => unknown
}

export interface Operation<
  Service = any,
  Params extends z.ZodObject = z.ZodObject,
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodType = z.ZodType,
  ReplySchema extends z.ZodType = z.ZodType,
> {
  /** Dotted: `tenants.create`. OpenAPI's operationId and the audit action. */
  readonly name: string
  readonly method: Method
  readonly path: string
  readonly summary: string
  readonly description?: string
  readonly params?: Params
  readonly query?: Query
  readonly body?: Body
  /** Whether the body may be absent; it is parsed as `{}` then. */
  readonly bodyOptional?: boolean
  readonly reply: ReplySchema
  /** The resource that it reads or changes; the reply is the state or empty. */
  readonly resource?: Resource<Service>
  /** Secret members of `reply`. A repeated `Idempotency-Key` returns the response without them, so they are optional in `reply`. */
  readonly shownOnce?: readonly string[]
  /** Default: 200, or 204 if `reply` is `z.void()`. */
  readonly status?: number
  /** Other successful statuses of `new Reply(status, …)`; a 304 has no body. */
  readonly alsoStatus?: readonly number[]
  /** Other media types that it can stream, by `Accept`. */
  readonly streams?: readonly string[]
  /** Added to the deadline of a request. */
  readonly extraSeconds?: number
  /** Whether it changes something outside of its transaction: then it is unknown after the deadline whether the change was made. */
  readonly changesOutside?: boolean
  /**
   * Whether it creates, fills, migrates, copies, moves or deletes storage of tenants, except by statements in the scope of a tenant. Its
   * command then requires the settings of running processes. Each changing operation of tenants declares it.
   */
  readonly changesStorage?: boolean
  readonly errors?: readonly ErrorType[]
  /**
   * Failures of its job, in addition to `errors`: `Prefer: wait` responds with the problem of the failure. The first one is used for
   * undeclared codes. Requires `settled`.
   */
  readonly jobErrors?: readonly [ErrorType, ...ErrorType[]]
  /** Headers of successful responses, with their descriptions. */
  readonly replyHeaders?: Readonly<Record<string, string>>
  /** Additional members of its problems, for protocols with their own errors. @param params unparsed */
  readonly problemMembers?: (error: TenancyError, params: Readonly<Record<string, string>>) => ErrorExtras
  /** Its command: a name, or a name with differences. */
  readonly command?: string | CommandForm<z.output<ReplySchema>>
  /**
   * Named pattern of tokens that permits it in addition to `admin`, and `read` for a GET: `runtime` for a host's servers, `reveal` for
   * secrets of tenants, which `read` does not permit, `erase` for their erasure. `any`: every token, also one with a tenant limit.
   */
  readonly scope?: 'runtime' | 'reveal' | 'erase' | 'any'
  /** Whether it creates a tenant that its path does not name: tokens with a tenant limit may not call it. */
  readonly createsTenant?: boolean
  readonly handle: (
    service: Service,
    input: Input<z.output<Params>, z.output<Query>, z.output<Body>>,
  ) => Promise<Handled<z.input<ReplySchema>>>
  /**
   * For `Prefer: wait`: resolves with the resource when its job has ended or `signal` aborts, or with a `JobFailure` if the job has
   * failed.
   */
  readonly settled?: (
    service: Service,
    reply: z.input<ReplySchema>,
    signal: AbortSignal,
    location: string,
  ) => Promise<z.input<ReplySchema> | JobFailure>
}

export type AnyOperation<Service = any> = Operation<Service, any, any, any, any>

export const operation = <
  Service,
  Params extends z.ZodObject = z.ZodObject<{}>,
  Query extends z.ZodObject = z.ZodObject<{}>,
  Body extends z.ZodType = z.ZodVoid,
  ReplySchema extends z.ZodType = z.ZodVoid,
>(
  definition: Operation<Service, Params, Query, Body, ReplySchema>,
): AnyOperation<Service> => definition
