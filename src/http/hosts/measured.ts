/**
 * Measures the status and bytes of guarded responses for the traffic listeners.
 *
 * It patches node's own response, below every framework, so it includes streams and aborted responses, and the output of compression.
 * All functions are shared, because this code runs for every request; one object on the response contains the values.
 */
import type { ServerResponse } from 'node:http'
import type { Traffic } from '../../kernel/api/traffic.ts'
import type { Tenant } from '../../tenants/handles/handle.ts'

const MEASUREMENT = Symbol('measurement')

type Measured = ServerResponse & { [MEASUREMENT]?: Measurement }
type Write = (this: Measured, chunk: unknown, encoding?: unknown, callback?: unknown) => boolean
type End = (this: Measured, chunk?: unknown, encoding?: unknown, callback?: unknown) => Measured

/** A traffic listener and its tenant. `next` is the listener of another tenancy with a later guard. */
interface Recipient {
  readonly traffic: Traffic
  readonly tenantId: string
  next: Recipient | undefined
}

interface Measurement extends Recipient {
  bytes: number
  /** `end` may call `write`, as in HTTP/2. */
  isEnding: boolean
  /** The original functions of the response. */
  readonly write: Write
  readonly end: End
}

/** Starts the measurement, if there are a tenant and a listener. A second guard of the same tenancy has no effect. */
export function measure(
  traffic: Traffic | undefined,
  tenant: Tenant | undefined,
  outgoing: ServerResponse | undefined,
): void {
  if (traffic === undefined || tenant === undefined || outgoing === undefined) return
  const measured: Measured = outgoing
  const before = measured[MEASUREMENT]
  if (before) addRecipient(before, traffic, tenant.id)
  else begin(measured, traffic, tenant.id)
}

function begin(measured: Measured, traffic: Traffic, tenantId: string): void {
  measured[MEASUREMENT] = {
    traffic,
    tenantId,
    next: undefined,
    bytes: 0,
    isEnding: false,
    write: measured.write as Write,
    end: measured.end as End,
  }
  measured.write = write as typeof measured.write
  measured.end = end as typeof measured.end
  measured.on('close', report)
}

function addRecipient(first: Recipient, traffic: Traffic, tenantId: string): void {
  let last = first
  while (last.traffic !== traffic && last.next) last = last.next
  if (last.traffic !== traffic) last.next = { traffic, tenantId, next: undefined }
}

function write(this: Measured, chunk: unknown, encoding?: unknown, callback?: unknown): boolean {
  const measurement = this[MEASUREMENT] as Measurement
  if (isSending(this, measurement)) measurement.bytes += lengthOf(chunk, encoding)
  return measurement.write.call(this, chunk, encoding, callback)
}

function end(this: Measured, chunk?: unknown, encoding?: unknown, callback?: unknown): Measured {
  const measurement = this[MEASUREMENT] as Measurement
  if (isSending(this, measurement)) measurement.bytes += lengthOf(chunk, encoding)
  measurement.isEnding = true
  return measurement.end.call(this, chunk, encoding, callback)
}

/** Node drops writes after the response was destroyed; a framework may still write its error page then. */
const isSending = ({ destroyed }: Measured, { isEnding }: Measurement): boolean => !isEnding && !destroyed

/** Reports once, after the response was sent or the client has disconnected. */
function report(this: Measured): void {
  const measurement = this[MEASUREMENT] as Measurement
  const status = this.headersSent ? this.statusCode : 0
  const bytes = hasBody(this) ? measurement.bytes : 0
  let recipient: Recipient | undefined = measurement
  while (recipient) {
    recipient.traffic.requestEnded(recipient.tenantId, status, bytes)
    recipient = recipient.next
  }
}

function lengthOf(chunk: unknown, encoding: unknown): number {
  if (typeof chunk === 'string') {
    return Buffer.byteLength(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
  }
  return chunk instanceof Uint8Array ? chunk.byteLength : 0
}

/** Node sends no body for these responses. */
const hasBody = ({ req, statusCode }: Measured): boolean =>
  req.method !== 'HEAD' && statusCode !== 204 && statusCode !== 304
