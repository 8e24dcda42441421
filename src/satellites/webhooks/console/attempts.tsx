/** Attempts of a delivery against the schedule, one of them with its request and response, and the difference from the one before. */
import { Code, Json } from '../../../console/components/base/code.tsx'
import { Diff, differencesOf } from '../../../console/components/base/diff.tsx'
import { Facts } from '../../../console/components/base/page.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { ExactTime } from '../../../console/components/base/time.tsx'
import type { Attempt } from './api.ts'
import { isSuccess, offsetMs, type PlannedAttempt } from './schedule.tsx'
import { text } from './text.ts'

const MAX_COMPARED = 600
/** Headers that differ in every response. */
const VARYING = /^(date|age|expires|set-cookie|x-request-id|cf-ray|etag|content-length)$/i

interface AttemptsProps {
  readonly attempts: readonly PlannedAttempt[]
  readonly shown: number | undefined
  readonly hrefOf: (number: number) => string
}

export const Attempts = ({ attempts, shown, hrefOf }: AttemptsProps) => (
  <div className="table-frame">
    <div className="table-scroll">
      <table>
        <caption className="hidden">{text.attempts}</caption>
        <thead>
          <tr>
            <th scope="col">{text.attempt}</th>
            <th scope="col">{text.response}</th>
            <th scope="col">{text.started}</th>
            <th scope="col" data-align="end">
              {text.duration}
            </th>
          </tr>
        </thead>
        <tbody>
          {attempts.map(({ number, plannedAt, made }) =>
            made ? (
              <tr key={number} data-shown={number === shown || undefined}>
                <th scope="row">
                  <a href={hrefOf(number)} aria-current={number === shown ? 'true' : undefined}>
                    {text.attemptOf(number)}
                  </a>
                </th>
                <td data-wrap>
                  <Outcome attempt={made} />
                </td>
                <td data-wrap>
                  <span className="two">
                    <ExactTime at={made.startedAt} />
                    {plannedAt && <span className="faint">{text.late(offsetMs(made.startedAt, plannedAt))}</span>}
                  </span>
                </td>
                <td data-align="end">{text.ms(made.durationMs)}</td>
              </tr>
            ) : (
              <tr key={number}>
                <th scope="row">{text.attemptOf(number)}</th>
                <td>
                  <Status state="planned" tone="neutral">
                    {text.planned}
                  </Status>
                </td>
                <td data-wrap>
                  <ExactTime at={plannedAt} />
                </td>
                <td data-align="end">–</td>
              </tr>
            ),
          )}
        </tbody>
      </table>
    </div>
  </div>
)

const Outcome = ({ attempt }: { attempt: Attempt }) => (
  <Status state="attempt" tone={isSuccess(attempt) ? 'good' : 'bad'}>
    {attempt.status ?? attempt.error ?? text.noResponse}
  </Status>
)

/** Request and response of one attempt. @param former the attempt before */
export function AttemptDetail({ attempt, former }: { attempt: Attempt; former: Attempt | undefined }) {
  const { number, status, error, address, responseBody, responseHeaders, requestHeaders } = attempt
  return (
    <section className="attempt" aria-label={text.attemptOf(number)}>
      <h3>{text.attemptOf(number)}</h3>
      <Facts
        facts={{ [text.response]: status, [text.error]: error, [text.address]: address && <code>{address}</code> }}
      />
      {former && (
        <>
          <h4>{text.difference(number, former.number)}</h4>
          <AttemptDiff before={former} after={attempt} />
        </>
      )}
      {status !== null && (
        <>
          <h4>{text.responseBody}</h4>
          {responseBody ? <Body value={responseBody} /> : <p className="faint">{text.emptyBody}</p>}
        </>
      )}
      {responseHeaders && <Headers title={text.responseHeaders} headers={responseHeaders} />}
      <Headers title={text.requestHeaders} headers={requestHeaders} />
    </section>
  )
}

export function AttemptDiff({ before, after }: { before: Attempt; after: Attempt }) {
  const values = [comparable(before), comparable(after)] as const
  if (differencesOf(...values).length === 0) return <p className="faint">{text.sameAttempt}</p>
  return <Diff before={values[0]} after={values[1]} />
}

/** Members that say why an attempt ended as it did. */
const comparable = ({ status, error, address, responseBody, responseHeaders }: Attempt) => ({
  status,
  error,
  address,
  body: typeof parsed(responseBody) === 'object' ? parsed(responseBody) : cut(responseBody),
  headers: Object.fromEntries(Object.entries(responseHeaders ?? {}).filter(([name]) => !VARYING.test(name))),
})

const cut = (value: string | null): string | null =>
  value !== null && value.length > MAX_COMPARED ? `${value.slice(0, MAX_COMPARED)}…` : value

/** The value of a JSON text; the text itself if it is none. */
function parsed(value: string | null): unknown {
  try {
    return JSON.parse(value ?? 'null')
  } catch {
    return value
  }
}

function Body({ value }: { value: string }) {
  const json = parsed(value)
  return typeof json === 'object' && json !== null ? (
    <Json value={json} label={text.responseBody} />
  ) : (
    <Code label={text.responseBody}>{value}</Code>
  )
}

const Headers = ({ title, headers }: { title: string; headers: Readonly<Record<string, string>> }) => (
  <details className="headers">
    <summary>{title}</summary>
    <Code label={title}>
      {Object.entries(headers)
        .map(([name, value]) => `${name}: ${value}`)
        .join('\n')}
    </Code>
  </details>
)
