/**
 * Checks `If-Match` (RFC 9110, 13.1.1): rejects a change of a resource with 412 and its current state, if the caller has not seen this
 * state. The tag is computed from the JSON text, so it is the same in every process.
 */
import { entityTag, matchesAny } from '../kernel/api/entity-tags.ts'
import type { Resource } from '../kernel/api/operation.ts'
import { invalid } from '../kernel/base/errors.ts'
import { ChangedMeanwhile } from './problem.ts'

/** Locks the resource until the transaction of the change ends. Throws `E_CHANGED_MEANWHILE` or an error of `lock`. */
export async function assertMatch(
  condition: string,
  resource: Resource | undefined,
  service: unknown,
  params: unknown,
): Promise<void> {
  if (!resource) throw invalid([{ path: 'If-Match', message: 'this operation has no ETag; omit the header' }])
  const locked = await resource.lock(service, params)
  const current = locked === undefined ? null : (resource.state.parse(locked) as Record<string, unknown>)
  const etag = current === null ? undefined : entityTag(JSON.stringify(current))
  if (matchesAny(condition, etag)) return
  const detail =
    etag === undefined
      ? 'The resource does not exist, so no ETag in If-Match matches. Omit If-Match to create the resource.'
      : 'No ETag in If-Match matches the present state. Read `current`, then repeat the request with the new ETag.'
  throw ChangedMeanwhile(detail, { extras: { current }, headers: etag === undefined ? {} : { etag } })
}
