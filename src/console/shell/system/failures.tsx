/** Work that failed permanently: dead letters of queues, and entries of the outbox. */
import { menuEntriesOf } from '../../components/actions.tsx'
import { IncidentLinks } from '../../components/attention.tsx'
import { Button } from '../../components/base/button.tsx'
import { Json } from '../../components/base/code.tsx'
import { Facts, Section } from '../../components/base/page.tsx'
import { Time } from '../../components/base/time.tsx'
import { type Column, Skeleton, Table } from '../../components/lists/table.tsx'
import { Panel } from '../../components/panel.tsx'
import { type Item, useAction, useList, useOperation } from '../../data/queries.ts'
import { href, tenantHref } from '../../routing/links.ts'
import { useOpen } from '../../routing/open.ts'
import { useSearch } from '../../routing/router.tsx'
import { text } from './text.ts'

type DeadLetter = Item<'deadLetters.list'>
type Entry = Item<'outbox.list'>

const tenantLink = (tenantId: string | null) =>
  tenantId ? <a href={tenantHref(tenantId)}>{tenantId}</a> : <span className="faint">–</span>

const letterColumns: readonly Column<DeadLetter>[] = [
  { key: 'queue', title: text.queue, width: '18%', cell: ({ queue }) => queue },
  { key: 'error', title: text.error, isLong: true, cell: ({ error, reason }) => error ?? text.reasons[reason] },
  { key: 'tenant', title: text.tenant, cell: ({ tenantId }) => tenantLink(tenantId) },
  { key: 'attempts', title: text.attempts, isMinor: true, cell: ({ attempts }) => attempts },
  { key: 'created', title: text.created, align: 'end', cell: ({ createdAt }) => <Time at={createdAt} /> },
]

export function DeadLetters() {
  const { queue, tenantId } = useSearch('deadLetters.list')
  const list = useList('deadLetters.list', { query: { queue, tenantId } })
  const panel = useOpen()
  return (
    <Section title={text.deadLetters}>
      <Table
        label={text.deadLetters}
        kind="deadLetter"
        columns={letterColumns}
        list={list}
        idOf={({ id }) => id}
        nameOf={({ queue, id }) => `${queue} ${id}`}
        hrefOf={({ id }) => href('/system', { queue, tenantId, open: id })}
        menuOf={(letter) => menuEntriesOf('deadLetter', letter)}
        empty={<p className="faint">{text.noDeadLetters}</p>}
      />
      {panel.id && <DeadLetterPanel id={panel.id} onClose={panel.close} />}
    </Section>
  )
}

function DeadLetterPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const { data, error } = useOperation('deadLetters.get', { params: { deadLetterId: id } })
  return (
    <Panel title={text.deadLetter} onClose={onClose}>
      {!data && !error && <Skeleton rows={4} />}
      {error && !data && <p className="faint">{error.message}</p>}
      {data && (
        <>
          <Facts
            facts={{
              [text.queue]: data.queue,
              [text.tenant]: data.tenantId && tenantLink(data.tenantId),
              [text.reason]: text.reasons[data.reason],
              [text.error]: data.error,
              [text.attempts]: data.attempts,
              [text.created]: <Time at={data.createdAt} />,
            }}
          />
          <p className="after">
            <IncidentLinks since={data.createdAt} name={data.queue} />
          </p>
          <div className="after">
            <Json value={data.data} />
          </div>
        </>
      )}
    </Panel>
  )
}

const entryColumns: readonly Column<Entry>[] = [
  { key: 'kind', title: text.kind, width: '22%', cell: ({ kind }) => kind },
  { key: 'error', title: text.error, isLong: true, cell: ({ error }) => error },
  { key: 'tenant', title: text.tenant, cell: ({ tenantId }) => tenantLink(tenantId) },
  { key: 'failed', title: text.failedAt, align: 'end', cell: ({ failedAt }) => <Time at={failedAt} /> },
]

export function FailedOutbox() {
  const list = useList('outbox.list', {})
  const retry = useAction('outbox.retry', { done: ({ applied, failed }) => text.outboxRetried(applied, failed) })
  const hasRows = list.rows !== undefined && list.rows.length > 0
  return (
    <Section
      title={text.outbox}
      actions={
        hasRows &&
        retry.isPermitted && (
          <Button isRunning={retry.isRunning} onClick={() => retry.run({ body: {} })}>
            {text.retryAll}
          </Button>
        )
      }
    >
      <Table
        label={text.outbox}
        kind="outboxEntry"
        columns={entryColumns}
        list={list}
        idOf={({ id }) => id}
        nameOf={({ kind, id }) => `${kind} ${id}`}
        menuOf={(entry) => menuEntriesOf('outboxEntry', entry)}
        empty={<p className="faint">{text.noOutbox}</p>}
      />
    </Section>
  )
}
