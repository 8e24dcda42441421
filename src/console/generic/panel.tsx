/** A form for an operation of a host: parameters that the page lacks, then query and body. Deletions are confirmed. */
import { useState } from 'react'
import type { FieldRules, Input, OperationName, Rules } from '../api/contract.ts'
import { ApiCall } from '../components/api-call.tsx'
import { Button } from '../components/base/button.tsx'
import { ProblemView } from '../components/base/problem.tsx'
import { Confirm } from '../components/confirm.tsx'
import { Field, Form } from '../components/forms/form.tsx'
import { Skeleton } from '../components/lists/table.tsx'
import { Panel } from '../components/panel.tsx'
import { client } from '../data/client.ts'
import { etagOf } from '../data/etags.ts'
import { useAction, useOperation } from '../data/queries.ts'
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
  /** Address to go to when the object of the page is deleted. */
  readonly after: string | undefined
  readonly onClose: () => void
}

/** Values of the fields before the first change, and the ETag of the state that has them. */
interface Start {
  readonly values: Values
  readonly tag: string | undefined
}

const EMPTY: Start = { values: {}, tag: undefined }

export function OperationPanel(props: PanelProps) {
  const { page, operation, given, onClose } = props
  const { read } = page
  const isChange = operation.method === 'PUT' || operation.method === 'PATCH'
  const isOfPage = isChange && read?.result === 'value' && operation.path === read.path
  return (
    <Panel title={operation.summary} onClose={onClose}>
      {isOfPage ? (
        <ChangeForm {...props} read={read} />
      ) : (
        <OperationForm {...props} start={isChange ? startOfRow(page, operation, given) : EMPTY} />
      )}
    </Panel>
  )
}

/** A change of the object of the page begins with its present values, and is made only if they are still the present ones. */
function ChangeForm(props: PanelProps & { readonly read: HostOperation }) {
  const { read, given, operation } = props
  const params = Object.fromEntries(paramsOf(read).map((name) => [name, given[name] ?? '']))
  const name = read.name as OperationName
  const input = { params, query: {} } as never
  const { data, error, refetch } = useOperation(name, input)
  if (data === undefined) return error ? <ProblemView error={error} onRetry={refetch} /> : <Skeleton />
  const start = { values: isObject(data) ? known(data, operation) : {}, tag: etagOf(name, input) }
  return <OperationForm {...props} start={start} />
}

function OperationForm({ operation, given, after, onClose, ...props }: PanelProps & { readonly start: Start }) {
  const { summary, method, description } = operation
  const name = operation.name as OperationName
  const isDelete = method === 'DELETE'
  const [start] = useState(props.start)
  const [result, setResult] = useState<{ readonly value: unknown }>()
  const [confirmed, setConfirmed] = useState<Input<OperationName>>()
  const action = useAction(name, {
    done: text.done(summary),
    showsProblem: true,
    isSecret: true,
    onDone: (value: unknown) => {
      setConfirmed(undefined)
      if (after) go(after.slice(BASE.length))
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
      <>
        <h3>{text.result}</h3>
        <Value value={result.value} />
        <p>
          <Button onClick={onClose}>{text.close}</Button>
        </p>
      </>
    )
  }
  const word = Object.values(paramsIn(operation, confirmed)).at(-1)
  return (
    <>
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
    </>
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
    hint: type === 'json' ? [description, text.json].filter(Boolean).join('. ') : description,
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

/** The values of a shown row. */
function startOfRow({ read, rowForms }: GenericPage, operation: HostOperation, given: Params): Start {
  const form = rowForms.find((one) => one.operation === operation && operation.path === `${read?.path}/{${one.param}}`)
  const cached = client.getQueriesData<{ pages?: { data: unknown[] }[] }>({ queryKey: [read?.name] })
  const row = cached
    .flatMap(([, value]) => value?.pages ?? [])
    .flatMap(({ data }) => data)
    .find((one) => form && isObject(one) && String(one[form.member]) === given[form.param])
  return { ...EMPTY, values: isObject(row) ? known(row, operation) : {} }
}

const known = (state: Values, { body }: HostOperation): Values =>
  Object.fromEntries(Object.entries(state).filter(([name, value]) => name in body && value !== null))
