/** A form for an operation of a host: parameters that the page lacks, then query and body. Deletions are confirmed. */
import { useState } from 'react'
import type { Input, OperationName } from '../api/contract.ts'
import { ApiCall } from '../components/api-call.tsx'
import { Button } from '../components/base/button.tsx'
import { ProblemView } from '../components/base/problem.tsx'
import { isObject } from '../components/base/value-text.ts'
import { Confirm } from '../components/confirm.tsx'
import { Field, Form } from '../components/forms/form.tsx'
import { Skeleton } from '../components/lists/table.tsx'
import { Panel } from '../components/panel.tsx'
import { client } from '../data/client.ts'
import { etagOf } from '../data/etags.ts'
import { useAction, useOperation } from '../data/queries.ts'
import { BASE, linkTo } from '../routing/links.ts'
import { go } from '../routing/router.tsx'
import { inputOf, kindOf, knownMembers, labelOf, type Params, rulesOf, type Values } from './input.ts'
import { type HostOperation, paramOf, paramsOf } from './operation.ts'
import { type GenericPage, stateRead } from './pages.ts'
import { text } from './text.ts'
import { Value } from './value.tsx'

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
  const isChange = operation.method === 'PUT' || operation.method === 'PATCH'
  const read = isChange ? stateRead(page, operation, given) : undefined
  return (
    <Panel title={operation.summary} onClose={onClose}>
      {read ? (
        <ChangeForm {...props} read={read} />
      ) : (
        <OperationForm {...props} start={isChange ? startOfRow(page, operation, given) : EMPTY} />
      )}
    </Panel>
  )
}

/** A change of an object begins with its present values, and is sent with If-Match. */
function ChangeForm(props: PanelProps & { readonly read: HostOperation }) {
  const { read, given, operation } = props
  const name = read.name as OperationName
  const input = { params: paramsIn(read, given), query: {} } as never
  const { data, error, refetch } = useOperation(name, input)
  if (data === undefined) return error ? <ProblemView error={error} onRetry={refetch} /> : <Skeleton />
  const start = { values: isObject(data) ? knownMembers(data, operation) : {}, tag: etagOf(name, input) }
  return <OperationForm {...props} start={start} />
}

function OperationForm({ operation, given, after, onClose, ...props }: PanelProps & { readonly start: Start }) {
  const { summary, method, description, isSecret } = operation
  const name = operation.name as OperationName
  const isDelete = method === 'DELETE'
  const isLink = method === 'GET' && !isSecret
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
  const rules = rulesOf(operation, given, start.values)
  const fields = Object.entries(rules)
  const submit = (values: Values) => {
    const input = inputOf(operation, given, values, start.values)
    if (isLink) go((linkTo(name, input.params, input.query) ?? BASE).slice(BASE.length))
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
  const word = confirmed && Object.values(paramsIn(operation, confirmed.params as Params)).at(-1)
  return (
    <>
      {description && <p className="lead">{description}</p>}
      <Form
        operation={name}
        rules={rules}
        omitsEmpty
        initial={start.values as never}
        submit={isLink ? text.open : isDelete ? text.delete : isSecret ? text.reveal : text.send}
        isDestructive={isDelete}
        isRunning={action.isRunning}
        problem={confirmed ? null : action.problem}
        onSubmit={(values) => submit(values as Values)}
        onCancel={onClose}
      >
        {fields.map(([key, rule]) => (
          <Field key={key} name={key} label={labelOf(key)} {...kindOf(rule, start.values[key])} />
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

const paramsIn = (operation: HostOperation, params: Params): Params =>
  Object.fromEntries(paramsOf(operation).map((name) => [name, params[name] ?? '']))

/** The values of a shown row. */
function startOfRow({ read, rowForms }: GenericPage, operation: HostOperation, given: Params): Start {
  const form = rowForms.find((one) => one.operation === operation && operation.path === `${read?.path}/{${one.param}}`)
  if (!read || !form) return EMPTY
  const cached = client.getQueriesData<{ pages?: { data: unknown[] }[] }>({
    queryKey: [read.name, { params: paramsIn(read, given) }],
  })
  const row = cached
    .flatMap(([, value]) => value?.pages ?? [])
    .flatMap(({ data }) => data)
    .find((one) => isObject(one) && paramOf(one[form.member]) === given[form.param])
  return { ...EMPTY, values: isObject(row) ? knownMembers(row, operation) : {} }
}
