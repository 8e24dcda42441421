/** The changes after a time, the newest first, with their authors. */
import { useState } from 'react'
import { Button } from '../../../../console/components/base/button.tsx'
import { Diff } from '../../../../console/components/base/diff.tsx'
import { Section } from '../../../../console/components/base/page.tsx'
import { Badge } from '../../../../console/components/base/status.tsx'
import { ExactTime } from '../../../../console/components/base/time.tsx'
import { SimpleTable } from '../../../../console/components/lists/simple-table.tsx'
import { tenantHref } from '../../../../console/routing/links.ts'
import type { TenantAt } from './objects.tsx'
import { text } from './text.ts'

const FIRST = 50

type Change = TenantAt['changes'][number]

export function Changes({ at: { tenantId, changes, until } }: { at: TenantAt }) {
  const [isWhole, setWhole] = useState(false)
  const shown = isWhole ? changes : changes.slice(0, FIRST)
  const title = text.changes(changes.length)
  return (
    <Section title={title}>
      <p className="faint">
        {text.after} <ExactTime at={until} />
      </p>
      {changes.length === 0 ? (
        <p>{text.noChanges}</p>
      ) : (
        <SimpleTable
          label={title}
          columns={text.columns}
          rows={shown.map((change) => ({ key: change.id, cells: cellsOf(change, tenantId) }))}
        />
      )}
      {shown.length < changes.length && (
        <div className="table-more">
          <Button onClick={() => setWhole(true)}>{text.allChanges(changes.length)}</Button>
        </div>
      )}
    </Section>
  )
}

const cellsOf = (change: Change, tenantId: string) => {
  const { id, action, target, actor, before, after, createdAt, outcome } = change
  const marks = [
    change.isSealed && text.sealed,
    change.isErased ? text.erased : change.isEncrypted && text.encrypted,
  ].filter((mark) => mark !== false)
  return [
    <ExactTime key="time" at={createdAt} />,
    <span key="action" className="two">
      <a href={tenantHref(tenantId, 'audit', { open: id })}>{action}</a>
      <code>{target}</code>
    </span>,
    <span key="actor" className="with-badge">
      <span>{actor.name}</span>
      {outcome === 'failure' && <Badge tone="bad">{text.failure}</Badge>}
      {marks.map((mark) => (
        <Badge key={mark}>{mark}</Badge>
      ))}
    </span>,
    before || after ? <Diff key="change" before={before ?? {}} after={after ?? {}} /> : null,
  ]
}
