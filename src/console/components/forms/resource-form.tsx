/**
 * A form for the whole state of an object that has an ETag: read, edit, save with `If-Match`.
 *
 * - The form keeps the state that it started with while it has input. A change of another operator is then shown, not overwritten.
 * - Without input it follows the present state.
 */
import { type ReactNode, useEffect, useRef, useState } from 'react'
import type { Body, Input, OperationName, Result } from '../../api/contract.ts'
import { etagOf } from '../../data/etags.ts'
import { useAction, useOperation } from '../../data/queries.ts'
import { isPermitted } from '../../data/session.ts'
import { ProblemView } from '../base/problem.tsx'
import { text } from '../base/text.ts'
import { ChangedMeanwhile, isChangedMeanwhile } from '../changed.tsx'
import { Skeleton } from '../lists/table.tsx'
import { Form } from './form.tsx'

interface Props<Read extends OperationName, Change extends OperationName> {
  readonly read: Read
  readonly change: Change
  readonly input: Input<Read>
  readonly submit: string
  readonly done: string
  /** Values of the fields. */
  readonly initialOf: (state: Result<Read>) => Partial<NonNullable<Body<Change>>>
  /** The complete body of what the fields have. */
  readonly bodyOf: (fields: NonNullable<Body<Change>>) => NonNullable<Body<Change>>
  readonly children: (state: Result<Read>) => ReactNode
  /** Next to the form: a view of its present values. */
  readonly aside?: (values: Readonly<Record<string, unknown>>) => ReactNode
}

interface Base<State> {
  readonly state: State
  readonly tag: string | undefined
}

export function ResourceForm<Read extends OperationName, Change extends OperationName>(props: Props<Read, Change>) {
  const { read, input } = props
  const { data, error, refetch, isPlaceholderData } = useOperation(read, input)
  if (error && !data) return <ProblemView error={error} onRetry={refetch} />
  if (!data || isPlaceholderData) return <Skeleton />
  return <Loaded key={JSON.stringify(input)} {...props} data={data} reload={async () => (await refetch()).data} />
}

interface LoadedProps<Read extends OperationName, Change extends OperationName> extends Props<Read, Change> {
  readonly data: Result<Read>
  readonly reload: () => Promise<Result<Read> | undefined>
}

function Loaded<Read extends OperationName, Change extends OperationName>({
  read,
  change,
  input,
  data,
  reload,
  submit,
  done,
  initialOf,
  bodyOf,
  children,
  aside,
}: LoadedProps<Read, Change>) {
  const [base, setBase] = useState<Base<Result<Read>>>(() => ({ state: data, tag: etagOf(read, input) }))
  const [values, setValues] = useState<Readonly<Record<string, unknown>>>({})
  const hasInput = useRef(false)
  const sent = useRef<NonNullable<Body<Change>>>(undefined)
  const start = (state: Result<Read>, tag: string | undefined) => {
    hasInput.current = false
    setValues({})
    setBase({ state, tag })
  }
  const update = useAction(change, {
    done,
    showsProblem: true,
    onDone: (state, _, tag) => start(state as unknown as Result<Read>, tag),
  })
  useEffect(() => {
    if (!hasInput.current) setBase({ state: data, tag: etagOf(read, input) })
  }, [data, read, input])
  const load = async () => {
    const state = await reload()
    if (state !== undefined) start(state, etagOf(read, input))
    update.reset()
  }
  const send = (body: NonNullable<Body<Change>>, ifMatch: string | undefined) => {
    sent.current = body
    void update.run({ ...input, body } as unknown as Input<Change>, ifMatch ? { ifMatch } : {})
  }
  const isStale = isChangedMeanwhile(update.problem)
  const initial = initialOf(base.state)
  if (!isPermitted(change)) {
    return (
      <div className={aside ? 'with-aside' : 'narrow'}>
        <fieldset className="plain-fieldset" disabled aria-label={text.readOnly}>
          <Form operation={change} initial={initial} submit={submit} onSubmit={() => undefined}>
            {children(base.state)}
          </Form>
        </fieldset>
        {aside?.(initial)}
      </div>
    )
  }
  return (
    <div className={aside ? 'with-aside' : 'narrow'}>
      <div
        onInput={(event) => {
          hasInput.current = true
          const form = (event.target as HTMLInputElement).form
          if (aside && form) setValues(Object.fromEntries(new FormData(form)))
        }}
      >
        {isStale && update.problem && (
          <ChangedMeanwhile
            problem={update.problem}
            base={base.state}
            onLoad={load}
            onApply={() => sent.current && send(sent.current, undefined)}
          />
        )}
        <Form
          key={JSON.stringify(base.state)}
          operation={change}
          initial={initial}
          submit={submit}
          isRunning={update.isRunning}
          problem={isStale ? null : update.problem}
          onSubmit={(fields) => send(bodyOf(fields), base.tag)}
        >
          {children(base.state)}
        </Form>
      </div>
      {aside?.({ ...initial, ...values })}
    </div>
  )
}
