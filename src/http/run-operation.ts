/**
 * Runs one request to one operation: scope, body, input, idempotency, service, checked response.
 *
 * - A change with `If-Match` runs in one transaction with the comparison (if-match.ts).
 * - A POST with an `Idempotency-Key` runs in one transaction with its stored response: after a crash either both exist or neither.
 * - `Prefer: wait` waits after that transaction. The finished resource, or the problem of a failed job, replaces the stored response. If
 *   the wait fails, the error is logged, and the first response is sent.
 * - At the deadline the response is sent, and the abandoned work can no longer commit (kernel/base/deadline.ts).
 */

import { entityTag } from '../kernel/api/entity-tags.ts'
import type { Idempotency, Lease, StoredResponse } from '../kernel/api/idempotency.ts'
import { preferredMediaType } from '../kernel/api/media-type.ts'
import type { AnyOperation } from '../kernel/api/operation.ts'
import { type Input, JobFailure, Reply, StreamReply } from '../kernel/api/operation.ts'
import { mayCallFor } from '../kernel/api/permissions.ts'
import { currentContext, type Grant } from '../kernel/base/context.ts'
import type { Deadline } from '../kernel/base/deadline.ts'
import { DependencyUnavailable, invalid, TenancyError } from '../kernel/base/errors.ts'
import type { Core, Wired } from '../tenancy/tenancy.ts'
import { TENANT_ID } from '../tenants/tenant/tenant.ts'
import { assertMatch } from './if-match.ts'
import { parseInput, readBody } from './input.ts'
import { Forbidden, PROBLEM_TYPE, problem, toTenancyError, withProblemResponse } from './problem.ts'
import { respond, respondStream, withoutBodyOfHead } from './respond.ts'
import { mayStream } from './sessions.ts'
import type { Identity } from './tokens.ts'

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/
const LONGEST_WAIT_SECONDS = 30
const JSON_TYPE = 'application/json'
const WAIT = /(?:^|[,;])\s*wait\s*=\s*"?(\d+)"?\s*(?:$|[,;])/i

const FOREIGN_STREAM =
  'A stream without the header x-admin-token must be read by a page of this origin (Sec-Fetch-Site: same-origin).'

type Input_ = Input<any, any, any>

export interface Running {
  readonly wired: Wired<AnyOperation>
  readonly request: Request
  readonly params: Readonly<Record<string, string>>
  readonly identity: Identity
  readonly deadline: Deadline
}

export interface OperationRunnerOptions {
  readonly prefix: string
  readonly streamIdleSeconds: number
  readonly currentGrant: (request: Request, identity: Identity) => Promise<Grant | undefined>
}

export class OperationRunner {
  readonly #core: Core
  readonly #idempotency: Idempotency
  readonly #prefix: string
  readonly #streamIdleMs: number
  readonly #currentGrant: OperationRunnerOptions['currentGrant']

  constructor(core: Core, idempotency: Idempotency, options: OperationRunnerOptions) {
    this.#core = core
    this.#idempotency = idempotency
    this.#prefix = options.prefix
    this.#streamIdleMs = options.streamIdleSeconds * 1_000
    this.#currentGrant = options.currentGrant
  }

  run(running: Running): Promise<Response> {
    return withProblemResponse(
      this.#core.kernel.log,
      () => running.deadline.run(() => this.#traced(running)),
      (error) => withMembers(error, running),
    )
  }

  #traced(running: Running): Promise<Response> {
    const { span } = this.#core.kernel.tracing
    const { name } = running.wired.what
    const run = () => this.#run(running).catch((error) => this.#recordRejection(running, error))
    return span ? span({ name, kind: 'internal' }, run) : run()
  }

  /** A denied call is recorded here, because the transaction of the operation has been rolled back. */
  async #recordRejection({ wired, params: { id = '' } }: Running, error: unknown): Promise<never> {
    if (Forbidden.matches(toTenancyError(error))) {
      await this.#core.tokens.recordDenial(wired.what.name, TENANT_ID.test(id) ? id : undefined)
    }
    throw error
  }

  async #run({ wired, request, params, identity, deadline }: Running): Promise<Response> {
    const { what: operation, service } = wired
    const waitSeconds = operation.settled && waitSecondsOf(request)
    const extraSeconds = (waitSeconds ?? 0) + (operation.extraSeconds ?? 0)
    if (extraSeconds > 0) deadline.extend(extraSeconds * 1_000)
    if (!mayCallFor(identity.grant, operation, params.id)) throw denied(operation, identity, params.id)
    const text = await readBody(request)
    if (prefersStream(operation, request) && !mayStream(request, identity)) throw Forbidden(FOREIGN_STREAM)
    const currentGrant = () => this.#currentGrant(request, identity)
    const input = parseInput(operation, params, request.url, text, { request, deadline, currentGrant })
    const call = { wired, operation, service, input, request, params, deadline, waitSeconds }
    const key = operation.method === 'POST' ? request.headers.get('idempotency-key') : null
    if (key === null) {
      const response = await this.#call(call)
      if (response instanceof StreamReply) return this.#stream(request, response)
      return send(await this.#wait(call, response))
    }
    if (!IDEMPOTENCY_KEY.test(key)) {
      throw invalid([{ path: 'Idempotency-Key', message: '1 to 255 visible ASCII characters' }])
    }
    const lease = await this.#idempotency.begin(
      [identity.fingerprint, operation.method, this.#prefix + pathOf(operation, input.params), key],
      text,
      deadline.remainingMs,
    )
    if (!('keep' in lease)) return send(again(lease), { 'idempotency-replayed': 'true' })
    return this.#once(call, lease)
  }

  /** Runs a request that holds the lease of its key. */
  async #once(call: Call, lease: Lease): Promise<Response> {
    try {
      const response = await this.#core.transaction(async () => {
        const handled = await this.#call(call)
        if (handled instanceof StreamReply) throw new Error(`${call.operation.name} is a POST that streams`)
        await lease.keep(withoutSecrets(call.operation, handled))
        return handled
      })
      return send(await this.#wait(call, response, lease))
    } catch (error) {
      const known = withMembers(toTenancyError(error), call)
      if (known.status >= 500 || known.code.startsWith('E_IDEMPOTENCY')) await this.#release(call, lease)
      else await lease.keep(withoutRequestId(toStoredResponse(known)))
      throw error
    }
  }

  /** Never throws, so that the error of the request is logged. A lease that is not released expires at the deadline. */
  async #release({ operation, deadline }: Call, lease: Lease): Promise<void> {
    if (deadline.isExpired) return
    await lease.release().catch((error) => {
      const { name } = operation
      this.#core.kernel.log.error({ err: error, operation: name }, 'the lease of an Idempotency-Key was not released')
    })
  }

  async #call(call: Call): Promise<StoredResponse | StreamReply> {
    const { operation, service, input, request, deadline } = call
    deadline.mayHaveCommitted = operation.changesOutside === true // before, it counted the lease of a key, and the sign-in
    const condition = operation.method === 'GET' ? null : request.headers.get('if-match')
    if (condition === null) return this.#handle(call)
    return this.#core.transaction(async () => {
      await assertMatch(condition, operation.resource, service, input.params)
      return this.#handle(call)
    })
  }

  async #handle({ operation, service, input }: Call): Promise<StoredResponse | StreamReply> {
    const handled = await operation.handle(service, input)
    if (handled instanceof StreamReply) return handled
    const reply = handled instanceof Reply ? handled : new Reply(operation.status ?? 200, handled)
    return this.#checked(operation, reply)
  }

  async #stream(request: Request, reply: StreamReply): Promise<Response> {
    return withoutBodyOfHead(request, await respondStream(reply, this.#streamIdleMs, this.#core.kernel.log))
  }

  /** Removes members that the operation does not declare. */
  #checked(operation: AnyOperation, reply: Reply): StoredResponse {
    const headers: Record<string, string> = { ...reply.headers }
    if (reply.status === 304) return { status: 304, headers, body: '' }
    const checked = operation.reply.parse(reply.body)
    if (headers.location) headers.location = this.#prefix + headers.location
    if (checked === undefined) return { status: reply.status === 200 ? 204 : reply.status, headers, body: '' }
    const body = JSON.stringify(checked)
    if (operation.resource) headers.etag = entityTag(JSON.stringify(operation.resource.state.parse(checked)))
    return { status: reply.status, headers: { ...headers, 'content-type': 'application/json' }, body }
  }

  /** Waits for the result and stores it with `lease`. Never throws, because the change is committed. */
  async #wait(call: Call, response: StoredResponse, lease?: Lease): Promise<StoredResponse> {
    const { operation, waitSeconds: seconds } = call
    if (seconds === undefined || (response.status !== 201 && response.status !== 202)) return response
    const applied = { 'preference-applied': `wait=${seconds}` }
    const first = { ...response, headers: { ...response.headers, ...applied } }
    call.deadline.fallback = () => send(first)
    try {
      const settled = await this.#settled(call, first, AbortSignal.timeout(seconds * 1_000))
      if (settled.status < 500) await lease?.keep(withoutSecrets(operation, withoutRequestId(settled)))
      return settled
    } catch (error) {
      this.#core.kernel.log.error({ err: error }, `waiting for ${operation.name} failed`)
      return first
    }
  }

  async #settled(
    { operation, service, request }: Call,
    first: StoredResponse,
    timeout: AbortSignal,
  ): Promise<StoredResponse> {
    const signal = AbortSignal.any([timeout, request.signal])
    const { location = '' } = first.headers
    const settled = await operation.settled?.(service, JSON.parse(first.body), signal, location)
    if (settled instanceof JobFailure) {
      const { status, headers, body } = toStoredResponse(errorOf(operation, settled))
      const { etag: _, ...kept } = first.headers
      return { status, headers: { ...kept, ...headers }, body }
    }
    const { headers, body } = this.#checked(operation, new Reply(first.status, settled))
    const status = first.status === 202 && !timeout.aborted ? 200 : first.status
    return { status, headers: { ...first.headers, ...headers }, body }
  }
}

interface Call extends Pick<Running, 'wired' | 'params' | 'deadline'> {
  readonly operation: AnyOperation
  readonly service: unknown
  readonly input: Input_
  readonly request: Request
  /** Undefined if the request does not wait for a job. */
  readonly waitSeconds: number | undefined
}

function denied({ name }: AnyOperation, { name: token, grant }: Identity, id = ''): TenancyError {
  const isLimited = grant.tenants !== null && TENANT_ID.test(id)
  return Forbidden(`Token "${token}" may not call ${name}${isLimited ? ` for tenant "${id}"` : ''}.`)
}

const prefersStream = ({ streams }: AnyOperation, { headers }: Request): boolean =>
  streams !== undefined && preferredMediaType(headers.get('accept'), [JSON_TYPE, ...streams]) !== JSON_TYPE

/** `N` of `Prefer: wait=N`. */
function waitSecondsOf({ headers }: Request): number | undefined {
  const preferred = WAIT.exec(headers.get('prefer') ?? '')?.[1]
  return preferred === undefined ? undefined : Math.min(Number(preferred), LONGEST_WAIT_SECONDS)
}

/** The canonical form of a path, independent of escapes and a trailing slash. */
const pathOf = ({ path }: AnyOperation, params: Readonly<Record<string, unknown>>): string =>
  path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(params[name])))

const send = ({ status, headers, body }: StoredResponse, more: Readonly<Record<string, string>> = {}): Response =>
  respond(status, status === 204 || status === 304 ? null : body, { ...headers, ...more })

/** The problem members that the protocol of the operation requires. */
function withMembers(error: TenancyError, { wired, params }: Pick<Running, 'wired' | 'params'>): TenancyError {
  const { problemMembers } = wired.what
  if (!problemMembers) return error
  const { message, extras, retryAfterSeconds, headers, cause } = error
  return new TenancyError(error, message, {
    extras: { ...problemMembers(error, params), ...extras },
    retryAfterSeconds,
    headers,
    cause,
  })
}

/** The part of a response that may be stored. */
function withoutSecrets({ shownOnce }: AnyOperation, response: StoredResponse): StoredResponse {
  if (!shownOnce) return response
  const members = Object.entries(JSON.parse(response.body)).filter(([name]) => !shownOnce.includes(name))
  return { ...response, body: JSON.stringify(Object.fromEntries(members)) }
}

/** The failure of a job as an error that the OpenAPI document declares for the operation. */
function errorOf({ name, errors = [], jobErrors }: AnyOperation, { code, message }: JobFailure): TenancyError {
  if (!jobErrors) throw new Error(`${name} declares no errors of its job`)
  const type = [...jobErrors, ...errors, DependencyUnavailable].find((one) => one.code === code) ?? jobErrors[0]
  return type(message)
}

function toStoredResponse(error: TenancyError): StoredResponse {
  const { status, headers, body } = problem(error)
  return { status, headers, body: JSON.stringify(body) }
}

const isProblem = ({ headers }: StoredResponse): boolean => headers['content-type'] === PROBLEM_TYPE

/** A stored problem has no request id: each caller receives its own. */
const withoutRequestId = (response: StoredResponse): StoredResponse =>
  isProblem(response) ? withRequestId(response) : response

const again = (response: StoredResponse): StoredResponse =>
  isProblem(response) ? withRequestId(response, currentContext().requestId) : response

const withRequestId = (response: StoredResponse, requestId?: string | null): StoredResponse => ({
  ...response,
  body: JSON.stringify({ ...JSON.parse(response.body), requestId }),
})
