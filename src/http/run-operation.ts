/**
 * One request to one operation: scope, body, input, idempotency, the service, the checked answer.
 *
 * A POST with an `Idempotency-Key` runs in one transaction with its kept answer: after a crash either both exist or neither.
 * `Prefer: wait` waits afterwards, outside of it, and what it finds replaces the kept answer.
 */
import { invalid } from '../kernel/errors.ts'
import type { Idempotency, KeptAnswer, Lease } from '../kernel/idempotency.ts'
import { type Input, Reply, StreamReply } from '../kernel/operation.ts'
import type { AnyOperation } from '../satellite.ts'
import type { Bound, Core } from '../tenancy.ts'
import { parseInput, readBody } from './input.ts'
import { asTenancyError, Forbidden, problemResponse } from './problem.ts'
import { respond, respondStream } from './respond.ts'
import { type Identity, mayCall } from './tokens.ts'

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/
const LONGEST_WAIT_SECONDS = 30
const WAIT = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:$|[,;])/i

type Input_ = Input<any, any, any>

export interface Running {
  readonly bound: Bound<AnyOperation>
  readonly request: Request
  readonly params: Readonly<Record<string, string>>
  readonly identity: Identity
}

export class OperationRunner {
  readonly #core: Core
  readonly #idempotency: Idempotency
  readonly #prefix: string

  constructor(core: Core, idempotency: Idempotency, prefix: string) {
    this.#core = core
    this.#idempotency = idempotency
    this.#prefix = prefix
  }

  async run({ bound, request, params, identity }: Running): Promise<Response> {
    const { what: operation, service } = bound
    if (!mayCall(identity.scope, operation.method, operation.scope)) {
      throw Forbidden(`A token of scope "${identity.scope}" may not call ${operation.name}.`)
    }
    const text = await readBody(request)
    const input = parseInput(operation, params, request.url, text, request)
    const call = { operation, service, input, request }
    const key = operation.method === 'POST' ? request.headers.get('idempotency-key') : null
    if (key === null) {
      const answer = await this.#call(call)
      if (answer instanceof StreamReply) return this.#stream(request, answer)
      return send(await this.#wait(call, answer))
    }
    if (!IDEMPOTENCY_KEY.test(key)) {
      throw invalid([{ path: 'Idempotency-Key', message: '1 to 255 visible ASCII characters' }])
    }
    const lease = await this.#idempotency.begin(
      [identity.fingerprint, operation.method, new URL(request.url).pathname, key],
      text,
    )
    if (!('keep' in lease)) return send(lease, { 'idempotency-replayed': 'true' })
    return this.#once(call, lease)
  }

  /** Runs a request that holds the lease of its key. */
  async #once(call: Call, lease: Lease): Promise<Response> {
    try {
      const answer = await this.#core.transaction(async () => {
        const answer = await this.#call(call)
        if (answer instanceof StreamReply) throw new Error(`${call.operation.name} is a POST that streams`)
        await lease.keep(answer)
        return answer
      })
      const final = await this.#wait(call, answer)
      if (final !== answer) await lease.keep(final)
      return send(final)
    } catch (error) {
      const known = asTenancyError(error, this.#core.kernel.log)
      const response = problemResponse(known)
      if (known.status >= 500 || known.code.startsWith('E_IDEMPOTENCY')) await lease.release()
      else await lease.keep(await kept(response.clone()))
      return response
    } finally {
      lease.end()
    }
  }

  async #call({ operation, service, input }: Call): Promise<KeptAnswer | StreamReply> {
    const handled = await operation.handle(service, input)
    if (handled instanceof StreamReply) return handled
    const reply = handled instanceof Reply ? handled : new Reply(operation.status ?? 200, handled)
    return this.#checked(operation, reply)
  }

  async #stream({ method }: Request, answer: StreamReply): Promise<Response> {
    const response = await respondStream(answer, this.#core.kernel.log)
    // Nobody will read it, so its source is ended here.
    if (method === 'HEAD') await response.body?.cancel()
    return response
  }

  /** Only what the operation declares leaves the house. */
  #checked(operation: AnyOperation, reply: Reply): KeptAnswer {
    const checked = operation.reply.parse(reply.body)
    const headers: Record<string, string> = { ...reply.headers }
    if (headers.location) headers.location = this.#prefix + headers.location
    if (checked === undefined) return { status: reply.status === 200 ? 204 : reply.status, headers, body: '' }
    return {
      status: reply.status,
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(checked),
    }
  }

  async #wait({ operation, service, request }: Call, answer: KeptAnswer): Promise<KeptAnswer> {
    const wished = WAIT.exec(request.headers.get('prefer') ?? '')?.[1]
    if (wished === undefined || !operation.settled || (answer.status !== 201 && answer.status !== 202)) return answer
    const seconds = Math.min(Number(wished), LONGEST_WAIT_SECONDS)
    const deadline = AbortSignal.timeout(seconds * 1_000)
    const settled = await operation.settled(
      service,
      JSON.parse(answer.body),
      AbortSignal.any([deadline, request.signal]),
    )
    const { headers, body } = this.#checked(operation, new Reply(answer.status, settled))
    const status = answer.status === 202 && !deadline.aborted ? 200 : answer.status
    return { status, headers: { ...answer.headers, ...headers, 'preference-applied': `wait=${seconds}` }, body }
  }
}

interface Call {
  readonly operation: AnyOperation
  readonly service: unknown
  readonly input: Input_
  readonly request: Request
}

const send = ({ status, headers, body }: KeptAnswer, more: Readonly<Record<string, string>> = {}): Response =>
  respond(status, status === 204 ? null : body, { ...headers, ...more })

/** What of a problem is kept; the request id of the repeat is its own. */
async function kept(response: Response): Promise<KeptAnswer> {
  return {
    status: response.status,
    headers: { 'content-type': 'application/problem+json' },
    body: await response.text(),
  }
}
