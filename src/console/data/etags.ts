/** ETags of read states, for `If-Match`: the service rejects a change of a state that has changed since the read. */
import type { Input, OperationName } from '../api/contract.ts'

const tags = new Map<string, string>()
const MAX = 200

const keyOf = (name: OperationName, input: unknown): string => `${name} ${JSON.stringify(input)}`

export function keepETag<Name extends OperationName>(name: Name, input: Input<Name>, response: Response): void {
  const tag = response.headers.get('etag')
  if (!tag) return
  tags.delete(keyOf(name, input))
  tags.set(keyOf(name, input), tag)
  const [oldest] = tags.keys()
  if (tags.size > MAX && oldest !== undefined) tags.delete(oldest)
}

/** The ETag of the last response. @example etagOf('tenants.get', { params: { id } }) */
export const etagOf = <Name extends OperationName>(name: Name, input: Input<Name>): string | undefined =>
  tags.get(keyOf(name, input))
