/** What happened to a tenant, the newest first, by day. */
import { useEffect, useState } from 'react'
import { Button } from '../../console/components/base/button.tsx'
import { ClockTime, DayName } from '../../console/components/base/day.tsx'
import { Card } from '../../console/components/base/page.tsx'
import { ProblemView } from '../../console/components/base/problem.tsx'
import { Chips, type Choice } from '../../console/components/lists/chips.tsx'
import { Skeleton } from '../../console/components/lists/table.tsx'
import { type Item, useList } from '../../console/data/queries.ts'
import { referenceHref } from '../../console/routing/reference.ts'
import { useSearch, useSetSearch } from '../../console/routing/router.tsx'
import { text } from './base/text.ts'

type Entry = Item<'timeline.list'>

export function Timeline({ id }: { id: string }) {
  const { kind, from, to } = useSearch('timeline.list')
  const setSearch = useSetSearch()
  const list = useList('timeline.list', { params: { id }, query: { kind, from, to, limit: 30 } })
  const [kinds, setKinds] = useState<readonly string[]>([])
  useEffect(() => {
    const found = (list.rows ?? []).map((entry) => entry.kind)
    setKinds((former) => (found.every((one) => former.includes(one)) ? former : [...new Set([...former, ...found])]))
  }, [list.rows])
  const shown = [...new Set([...kinds, ...(kind ? [kind] : [])])].toSorted()
  const choices: Choice<string>[] = shown.map((one) => ({ value: one, title: text.timelineKinds[one] ?? one }))
  return (
    <Card title={text.timeline}>
      {shown.length > 1 && (
        <div className="timeline-filter">
          <Chips
            label={text.timelineFilter}
            all={text.statuses.all}
            choices={choices}
            value={kind}
            onChange={(value) => setSearch({ kind: value })}
          />
        </div>
      )}
      {list.error && <ProblemView error={list.error} onRetry={list.retry} isCompact />}
      {!list.rows && !list.error && <Skeleton rows={6} />}
      {list.rows?.length === 0 && <p className="faint">{text.noTimeline}</p>}
      <div data-stale={list.isStale || undefined}>
        {[...Map.groupBy(list.rows ?? [], ({ at }) => new Date(at).toDateString())].map(([day, entries]) => (
          <section className="timeline-day" key={day}>
            <h3>
              <DayName at={entries[0]?.at ?? ''} />
            </h3>
            <ol className="timeline">
              {entries.map((entry) => (
                <TimelineEntry key={`${entry.kind} ${entry.id}`} entry={entry} id={id} />
              ))}
            </ol>
          </section>
        ))}
      </div>
      {list.loadMore && (
        <div className="table-more">
          <Button onClick={list.loadMore} isRunning={list.isLoadingMore}>
            {text.older}
          </Button>
        </div>
      )}
    </Card>
  )
}

function TimelineEntry({ entry, id }: { entry: Entry; id: string }) {
  const { at, kind, title, actor } = entry
  const isNamed = actor !== null && title.includes(actor)
  const found = referenceHref(entry)
  const link = found && !found.endsWith(`/tenants/${id}`) ? found : undefined
  return (
    <li data-kind={kind}>
      <ClockTime at={at} />
      <div>
        <p>{link ? <a href={link}>{title}</a> : title}</p>
        <p className="faint">{[text.timelineKind[kind] ?? kind, !isNamed && actor].filter(Boolean).join(' · ')}</p>
      </div>
    </li>
  )
}
