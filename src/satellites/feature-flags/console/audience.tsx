/** Which users a rollout reaches, before it is saved: a list of ids, each with its result, its bucket, and the percentage that includes it. */
import { type KeyboardEvent, useId, useRef, useState } from 'react'
import type { Result } from '../../../console/api/contract.ts'
import { Button } from '../../../console/components/base/button.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import type { Flag } from './model.ts'
import { text } from './text.ts'

const MAX_VALUES = 1_000
const BUCKETS = 100
const BUCKET_SIZE = 100

type Preview = Result<'featureFlags.preview'>

export function Audience({ flag, draft }: { flag: Flag; draft: number | null | undefined }) {
  const { tenantId: id, key, enabled, rolloutPercent } = flag
  const [values, setValues] = useState<readonly string[]>([])
  const field = useRef<HTMLTextAreaElement>(null)
  const fieldId = useId()
  const body = { enabled, rolloutPercent: draft === undefined ? rolloutPercent : draft, bucketKeys: [...values] }
  const { data, error, refetch } = useOperation(
    'featureFlags.preview',
    { params: { id, key }, body },
    { enabled: values.length > 0, refetchInterval: false },
  )
  const evaluate = () => {
    const found = (field.current?.value ?? '').split(/[\n,]+/).map((value) => value.trim())
    setValues([...new Set(found.filter(Boolean))].slice(0, MAX_VALUES))
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    evaluate()
  }
  return (
    <div className="flag-parts">
      <div className="audience">
        <div className="field">
          <label className="label" htmlFor={fieldId}>
            {text.users}
          </label>
          <textarea
            id={fieldId}
            ref={field}
            rows={3}
            spellCheck={false}
            aria-describedby={`${fieldId}-hint`}
            onKeyDown={onKeyDown}
          />
          <p className="hint" id={`${fieldId}-hint`}>
            {text.usersHint}
          </p>
        </div>
        <div className="section-actions">
          <Button onClick={evaluate}>{text.evaluate}</Button>
          <button type="button" className="hidden" tabIndex={-1} data-key="w" onClick={() => field.current?.focus()}>
            {text.affected}
          </button>
        </div>
      </div>
      <div className="audience">
        {error && <ProblemView error={error} onRetry={refetch} isCompact />}
        {data && values.length > 0 && !error && <Results preview={data} isUnsaved={draft !== undefined} />}
      </div>
    </div>
  )
}

function Results({
  preview: { on, data, enabled, rolloutPercent },
  isUnsaved,
}: {
  preview: Preview
  isUnsaved: boolean
}) {
  const percent = !enabled ? 0 : (rolloutPercent ?? BUCKETS)
  const { value, state, bucket, from } = text.result
  return (
    <>
      <p role="status">
        <strong>{text.onFor(on, data.length)}</strong> {isUnsaved && <span className="faint">{text.withUnsaved}</span>}
      </p>
      <svg className="buckets" viewBox={`0 0 ${BUCKETS} 20`} preserveAspectRatio="none" role="img">
        <title>{text.bucketsCaption(percent, data.length)}</title>
        <rect className="bucket" x={0} y={6} width={BUCKETS} height={8} />
        <rect className="bucket-on" x={0} y={6} width={percent} height={8} />
        {data.map((one) => {
          const x = one.bucket / BUCKET_SIZE
          return <line key={one.value} className="bucket-user" x1={x} x2={x} y1={1} y2={19} />
        })}
      </svg>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
      <section className="scroll" tabIndex={0} aria-label={text.affected}>
        <table className="simple">
          <thead>
            <tr>
              <th scope="col">{value}</th>
              <th scope="col">{state}</th>
              <th scope="col" data-align="end">
                {bucket}
              </th>
              <th scope="col" data-align="end">
                {from}
              </th>
            </tr>
          </thead>
          <tbody>
            {data.map((one) => (
              <tr key={one.value}>
                <th scope="row">
                  <code>{one.value}</code>
                </th>
                <td>
                  <Status state={one.enabled ? 'on' : 'off'} tone={one.enabled ? 'good' : 'neutral'} />{' '}
                  <span className="faint">{text.reasons[one.reason]}</span>
                </td>
                <td data-align="end">{text.bucket(one.bucket)}</td>
                <td data-align="end">{text.from(one.onFromPercent)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </>
  )
}
