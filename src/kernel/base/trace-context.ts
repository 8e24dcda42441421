/** Reads the header `traceparent` of W3C Trace Context: version, trace id, parent id and flags. */

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/

/** Returns a valid value as version 00, and undefined for any other value. */
export function parseTraceparent(header: unknown): string | undefined {
  const [, version, traceId = '', parentId = '', flags = '', more] =
    (typeof header === 'string' && TRACEPARENT.exec(header)) || []
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined
  if (ZEROS.test(traceId) || ZEROS.test(parentId)) return undefined
  return traceparentOf({ traceId, spanId: parentId, traceFlags: Number.parseInt(flags, 16) })
}

export interface TraceIds {
  readonly traceId: string
  readonly spanId: string
  readonly traceFlags: number
}

export const traceparentOf = ({ traceId, spanId, traceFlags }: TraceIds): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`

/** @param traceparent of `parseTraceparent` */
export function traceIdsOf(traceparent: string): TraceIds {
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-')
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) }
}
