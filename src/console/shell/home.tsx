/** Home: conditions that need an operator, health of the service, and the cards of modules. */
import { Attention } from '../components/attention.tsx'
import { Button } from '../components/base/button.tsx'
import { Card, Empty, PageHeader } from '../components/base/page.tsx'
import { ProblemView } from '../components/base/problem.tsx'
import { Status } from '../components/base/status.tsx'
import { Chips } from '../components/lists/chips.tsx'
import { Skeleton } from '../components/lists/table.tsx'
import { Slots } from '../components/slots.tsx'
import { useOperation } from '../data/queries.ts'
import { isPermitted } from '../data/session.ts'
import { href } from '../routing/links.ts'
import { homeCards } from '../routing/registry.ts'
import { useSearch, useSetSearch } from '../routing/router.tsx'
import { text } from './text.ts'

export default function Home() {
  return (
    <>
      <PageHeader title={text.home} />
      <div className="overview">
        {isPermitted('attention.list') && <AttentionCard />}
        <div className="cards">
          {isPermitted('health.get') && <Health />}
          <Slots entries={homeCards()} props={{}} />
        </div>
      </div>
    </>
  )
}

function AttentionCard() {
  const { kind, severity } = useSearch('attention.list')
  const setSearch = useSetSearch()
  const { data, error, refetch } = useOperation('attention.list', {})
  const totals = data?.totals ?? []
  const shown = (data?.data ?? []).filter(
    (entry) => (kind ?? entry.kind) === entry.kind && (severity ?? entry.severity) === entry.severity,
  )
  const total = totals.reduce((sum, one) => sum + one.total, 0)
  const isFiltered = kind !== undefined || severity !== undefined
  const left = totals
    .filter((one) => (kind ?? one.kind) === one.kind && (severity ?? one.severity) === one.severity)
    .reduce((sum, one) => sum + one.total, -shown.length)
  return (
    <Card title={text.attention}>
      {totals.length > 1 && (
        <div className="timeline-filter">
          <Chips
            label={text.attentionFilter}
            all={text.all}
            allCount={total}
            choices={totals.map((one) => {
              return { value: one.kind, title: text.attentionKinds[one.kind] ?? one.kind, count: one.total }
            })}
            value={kind}
            onChange={(value) => setSearch({ kind: value })}
          />
        </div>
      )}
      {error && <ProblemView error={error} onRetry={refetch} isCompact />}
      {!data && !error && <Skeleton rows={4} />}
      {data && data.failed.length > 0 && <p className="notice">{text.notRead(data.failed)}</p>}
      {data && shown.length === 0 && (
        <Empty
          title={isFiltered ? text.noAttentionOfFilter : text.noAttention}
          actions={
            isFiltered && (
              <Button onClick={() => setSearch({ kind: undefined, severity: undefined })}>{text.clearFilter}</Button>
            )
          }
        >
          {!isFiltered && text.noAttentionText}
        </Empty>
      )}
      <Attention entries={shown} />
      {left > 0 && <p className="faint">{text.moreAttention(left)}</p>}
    </Card>
  )
}

function Health() {
  const { data: health } = useOperation('health.get', {})
  const failed = Object.entries(health?.checks ?? {}).filter(([, { status }]) => status === 'fail')
  return (
    <Card title={text.health} href={href('/system')}>
      {health && <Status state={health.status}>{failed.length === 0 ? text.healthy : health.status}</Status>}
      <ul className="plain">
        {failed.map(([name, { message }]) => (
          <li key={name}>
            <Status state="fail">{name}</Status> {message}
          </li>
        ))}
      </ul>
    </Card>
  )
}
