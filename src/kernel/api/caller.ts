/** Calls operations for commands. */
import { z } from 'zod'
import { parsed } from '../base/validate.ts'
import { type AnyOperation, type CallInput, type Progress, Reply, StreamReply, type Waiting } from './operation.ts'

/** Calls operations for a command: in this process, or at a remote service. */
export interface Caller {
  readonly call: (operation: AnyOperation, input: CallInput) => Promise<Reply>
  /** Waits until the job of a call has ended or the signal aborts. */
  readonly settle: (job: StartedJob) => Promise<void>
}

export interface StartedJob extends Pick<Waiting, 'work'> {
  readonly operation: AnyOperation
  readonly reply: Reply
  readonly signal: AbortSignal
  readonly state: unknown
  /** Shows the progress. */
  readonly show: (state: unknown) => void
  /** Reads and shows whether it has ended. */
  readonly isSettled: () => Promise<boolean>
}

const NO_QUERY = z.strictObject({})

/**
 * Calls operations of a service in this process. Parameters reach the service as given: an id that matches no pattern is not found. The
 * reply is checked, and keeps the order of its members.
 */
export const callerIn = (service: unknown, signal: AbortSignal, onProgress?: Progress): Caller => ({
  async call(operation, input) {
    const request = { ...checked(operation, input), headers: new Headers(), signal, onProgress }
    const handled = await operation.handle(service, request)
    if (handled instanceof StreamReply) throw new Error(`${operation.name} streams`)
    const { status, body, headers } = handled instanceof Reply ? handled : new Reply(operation.status ?? 200, handled)
    operation.reply.parse(body)
    return new Reply(status, body, headers)
  },
  async settle({ operation, reply, signal, state, show, work }) {
    if (work) await work(service, state, { signal, show })
    else await operation.settled?.(service, reply.body, signal, reply.headers.location ?? '')
  },
})

/** Throws E_INVALID_REQUEST for an invalid query or body. */
export const checked = ({ query = NO_QUERY, body }: AnyOperation, input: CallInput) => ({
  params: input.params ?? {},
  query: parsed(query, input.query ?? {}),
  body: body ? parsed(body, input.body ?? {}) : undefined,
})
