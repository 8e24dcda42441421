/** A form for an operation of a host: parameters that the page lacks, then query and body. Deletions are confirmed. */
import { useState } from 'react'
import type { FieldRules, Input, OperationName, Rules } from '../api/contract.ts'
import { ApiCall } from '../components/api-call.tsx'
import { Button } from '../components/base/button.tsx'
import { Confirm } from '../components/confirm.tsx'
import { Field, Form } from '../components/forms/form.tsx'
import { Panel } from '../components/panel.tsx'
import { client } from '../data/client.ts'
import { etagOf } from '../data/etags.ts'
import { useAction } from '../data/queries.ts'
import { BASE, linkTo } from '../routing/links.ts'
import { go } from '../routing/router.tsx'
import { type HostOperation, paramsOf } from './operation.ts'
import { type GenericPage, titleOf } from './pages.ts'
import { text } from './text.ts'
import { isObject, Value } from './value.tsx'

type Values = Readonly<Record<string, unknown>>
type Params = Readonly<Record<string, string>>

interface PanelProps {
  readonly page: GenericPage
  readonly operation: HostOperation
  /** Parameters of the page and of the row. */
  readonly given: Params
  /** Whether the page shows what the operation deletes. */
  readonly isGone: boolean
  /** Address to go to then. */
  readonly after: string | undefined
  readonly onClose: () => void
}

export function OperationPanel({ page, operation, given, isGone, after, onClose }: PanelProps) {
  const { summary, method, description } = operation
  const name = operation.name as OperationName
  const isDelete = method === 'DELETE'
  const [start] = useState(() => startOf(page, operation, given))
  const [result, setResult] = useState<{ readonly value: unknown }>()
  const [confirmed, setConfirmed] = useState<Input<OperationName>>()
  const action = useAction(name, {
    done: text.done(summary),
    showsProblem: true,
    isSecret: true,
    onDone: (value: unknown) => {
      setConfirmed(undefined)
      if (isGone && after) go(after.slice(BASE.length))
      else if (value === undefined) onClose()
      else setResult({ value })
    },
  })
  const rules = rulesOf(operation, given)
  const fields = Object.entries(rules)
  const submit = (values: Values) => {
    const input = inputOf(operation, given, values)
    if (method === 'GET') go((linkTo(name, input.params, input.query) ?? BASE).slice(BASE.length))
    else if (isDelete) setConfirmed(input as Input<OperationName>)
    else void action.run(input as never, start.tag ? { ifMatch: start.tag } : {})
  }
  if (result) {
    return (
      <Panel title={summary} onClose={onClose}>
        <h3>{text.result}</h3>
        <Value value={result.value} />
        <p>
          <Button onClick={onClose}>{text.close}</Button>
        </p>
      </Panel>
    )
  }
  const word = Object.values(paramsIn(operation, confirmed)).at(-1)
  return (
    <Panel title={summary} onClose={onClose}>
      {description && <p className="lead">{description}</p>}
      <Form
        operation={name}
        rules={rules}
        omitsEmpty
        initial={start.values as never}
        submit={method === 'GET' ? text.open : isDelete ? text.delete : text.send}
        isDestructive={isDelete}
        isRunning={action.isRunning}
        problem={confirmed ? null : action.problem}
        onSubmit={(values) => submit(values as Values)}
        onCancel={onClose}
      >
        {fields.map(([key, rule]) => (
          <Field key={key} name={key} label={labelOf(key)} {...kindOf(rule)} />
        ))}
      </Form>
      {fields.length === 0 && <ApiCall name={name} input={inputOf(operation, given, {}) as never} />}
      {confirmed && (
        <Confirm
          title={summary}
          confirm={text.delete}
          {...(word ? { word } : {})}
          isRunning={action.isRunning}
          problem={action.problem}
          call={{ name, input: confirmed as never }}
          onConfirm={() => void action.run(confirmed as never)}
          onClose={() => setConfirmed(undefined)}
        >
          {text.confirm}
        </Confirm>
      )}
    </Panel>
  )
}

const paramsIn = (operation: HostOperation, input: { readonly params?: object | undefined } = {}): Params =>
  Object.fromEntries(
    paramsOf(operation).map((name) => [name, String((input.params as Params | undefined)?.[name] ?? '')]),
  )

const prefixed = (place: string, rules: Rules): Rules =>
  Object.fromEntries(Object.entries(rules).map(([name, rule]) => [`${place}.${name}`, rule]))

/** Rules by the names of fields: `params.noteId`, `query.limit`, `title`. */
function rulesOf({ params, query, body }: HostOperation, given: Params): Rules {
  const missing = Object.fromEntries(Object.entries(params).filter(([name]) => given[name] === undefined))
  return { ...prefixed('params', missing), ...prefixed('query', query), ...body }
}

const labelOf = (field: string): string => titleOf(field.replace(/^(params|query)\./, ''))

/** An optional boolean has a third choice: it is left out. */
function kindOf({ type, format, required, default: initial, description }: FieldRules) {
  const isOpen = type === 'boolean' && !required && initial === undefined
  const as = format === 'email' ? ('email' as const) : undefined
  return {
    hint: description,
    ...(isOpen ? { options: [['true', text.yes] as const, ['false', text.no] as const] } : {}),
    ...(as ? { as } : {}),
  }
}

function inputOf(operation: HostOperation, given: Params, values: Values) {
  const { query, body, isPlainBody } = operation
  const of = (place: string, names: readonly string[]) =>
    Object.fromEntries(
      names.flatMap((name) => (`${place}.${name}` in values ? [[name, values[`${place}.${name}`]]] : [])),
    )
  const members = Object.fromEntries(
    Object.keys(body).flatMap((name) => (name in values ? [[name, values[name]]] : [])),
  )
  const params = paramsOf(operation).flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]]))
  return {
    params: { ...Object.fromEntries(params), ...of('params', paramsOf(operation)) } as Params,
    query: of('query', Object.keys(query)),
    ...(Object.keys(body).length === 0 ? {} : { body: isPlainBody ? members.body : members }),
  }
}

/** A change of the shown object begins with its present values, and is made only if they are still the present ones. */
function startOf(page: GenericPage, operation: HostOperation, given: Params) {
  const { read, rowForms } = page
  const isChange = operation.method === 'PUT' || operation.method === 'PATCH'
  if (!isChange || !read) return { values: {}, tag: undefined }
  const ofPage = operation.path === read.path && read.result === 'value'
  const cached = client.getQueriesData<unknown>({ queryKey: [read.name] })
  if (ofPage) {
    const params = Object.fromEntries(paramsOf(read).map((name) => [name, given[name] ?? '']))
    const [key, state] = cached.find(([[, input]]) => isObject(input) && equal(input.params, params)) ?? []
    const tag = key ? etagOf(read.name as OperationName, key[1] as never) : undefined
    return { values: isObject(state) ? known(state, operation) : {}, tag }
  }
  const form = rowForms.find((one) => one.operation === operation && operation.path === `${read.path}/{${one.param}}`)
  const rows = cached.flatMap(([, value]) => (value as { pages?: { data: unknown[] }[] } | undefined)?.pages ?? [])
  const row = rows
    .flatMap(({ data }) => data)
    .find((one) => form && isObject(one) && String(one[form.member]) === given[form.param])
  return { values: isObject(row) ? known(row, operation) : {}, tag: undefined }
}

const equal = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

const known = (state: Values, { body }: HostOperation): Values =>
  Object.fromEntries(Object.entries(state).filter(([name, value]) => name in body && value !== null))
