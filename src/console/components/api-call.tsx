/** "Show the API call": the call of an action as curl, as a command, and in TypeScript. The token is `$TOKEN`. */
import { useState } from 'react'
import type { Input, OperationName } from '../api/contract.ts'
import { requestOf } from '../data/call.ts'
import { isPermitted } from '../data/session.ts'
import { Code } from './base/code.tsx'
import { text } from './base/text.ts'

type Values = Readonly<Record<string, unknown>>

interface AnyInput {
  readonly params?: Values
  readonly query?: Values
  readonly body?: Values
}

const quoted = (value: unknown): string => {
  const plain = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return /^[\w.:/@-]+$/.test(plain) ? plain : `'${plain.replaceAll("'", `'\\''`)}'`
}

const kebab = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

export function curlOf(name: OperationName, input: AnyInput): string {
  const { method, url, body } = requestOf(name, input)
  return [
    `curl -X ${method} ${quoted(location.origin + url)}`,
    `-H "x-admin-token: $TOKEN"`,
    ...(body === undefined ? [] : [`-H 'content-type: application/json'`, `-d ${quoted(body)}`]),
  ].join(' \\\n  ')
}

/** @param form `tenant:suspend <id>` */
export function commandOf(form: string, { params, query, body }: AnyInput): string {
  const values = new Map(Object.entries({ ...query, ...body, ...params }).filter(([, value]) => value !== undefined))
  const command = form.replaceAll(/<(\w+)>/g, (whole, name) => {
    if (!values.has(name)) return whole
    const value = values.get(name)
    values.delete(name)
    return quoted(value)
  })
  const options = [...values].flatMap(([name, value]) => {
    if (typeof value === 'boolean') return value ? [`--${kebab(name)}`] : []
    const all = Array.isArray(value) ? value : [value]
    return all.map((one) => `--${kebab(name)} ${quoted(one)}`)
  })
  return ['tenantry', command, ...options].join(' ')
}

export function typeScriptOf(name: OperationName, input: AnyInput): string {
  const { method, url, body } = requestOf(name, input)
  const headers = [
    `'x-admin-token': process.env.TOKEN ?? ''`,
    ...(body === undefined ? [] : [`'content-type': 'application/json'`]),
  ]
  const lines = [
    `  method: '${method}',`,
    `  headers: { ${headers.join(', ')} },`,
    ...(body === undefined ? [] : [`  body: JSON.stringify(${body}),`]),
  ]
  return `await fetch('${location.origin}${url}', {\n${lines.join('\n')}\n})`
}

export function ApiCall<Name extends OperationName>({ name, input }: { name: Name; input: Input<Name> }) {
  const [commands, setCommands] = useState<Readonly<Record<string, string>>>()
  if (!isPermitted(name)) return null
  const given = input as AnyInput
  const form = commands?.[name]
  const load = () => import('../api/commands.json').then((loaded) => setCommands(loaded.default))
  return (
    <details className="api-call" onToggle={() => void load()}>
      <summary>{text.showCall}</summary>
      <Code label="curl">{curlOf(name, given)}</Code>
      {form && <Code label={text.command}>{commandOf(form, given)}</Code>}
      <Code label="TypeScript">{typeScriptOf(name, given)}</Code>
    </details>
  )
}
