/** "Show the API call": the call of an action as curl. The token is `$TOKEN`. */
import type { Input, OperationName } from '../api/contract.ts'
import { requestOf } from '../data/call.ts'
import { isPermitted } from '../data/session.ts'
import { Code } from './base/code.tsx'
import { text } from './base/text.ts'

const quoted = (value: string): string => `'${value.replaceAll("'", `'\\''`)}'`

export function curlOf<Name extends OperationName>(name: Name, input: Input<Name>): string {
  const { method, url, body } = requestOf(name, input as object)
  return [
    `curl -X ${method} ${quoted(location.origin + url)}`,
    `-H "x-admin-token: $TOKEN"`,
    ...(body === undefined ? [] : [`-H 'content-type: application/json'`, `-d ${quoted(body)}`]),
  ].join(' \\\n  ')
}

export function ApiCall<Name extends OperationName>({ name, input }: { name: Name; input: Input<Name> }) {
  if (!isPermitted(name)) return null
  return (
    <details className="api-call">
      <summary>{text.showCall}</summary>
      <Code label={name}>{curlOf(name, input)}</Code>
    </details>
  )
}
