/** Subscriptions of a tenant or of the host, with their health, and the panels for a new one and for sending an event. */
import { useMemo, useState } from 'react'
import { menuEntriesOf, startAction } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Empty } from '../../../console/components/base/page.tsx'
import { Badge, Status } from '../../../console/components/base/status.tsx'
import { formatNumber } from '../../../console/components/base/text.ts'
import { Time } from '../../../console/components/base/time.tsx'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { ShownOnce } from '../../../console/components/shown-once.tsx'
import { useList } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { useCurrent } from '../../../console/routing/current.ts'
import { useOpen } from '../../../console/routing/open.ts'
import { actionsOf } from '../../../console/routing/registry.ts'
import { hrefOf, kindOf, operationOf, paramsOf, useOwner, type Webhook } from './api.ts'
import { NewSubscription, SendEvent } from './forms.tsx'
import { Header } from './frame.tsx'
import { Statistics } from './statistics/statistics.tsx'
import { text } from './text.ts'

const SHOWN_EVENTS = 2

const columns: readonly Column<Webhook>[] = [
  {
    key: 'receiver',
    title: text.columns.receiver,
    width: '40%',
    cell: ({ url, description }) => (
      <span className="two receiver">
        <span className="long" title={url}>
          {url}
        </span>
        {description && <span className="note">{description}</span>}
      </span>
    ),
  },
  { key: 'state', title: text.columns.state, cell: (webhook) => <Health webhook={webhook} /> },
  { key: 'events', title: text.columns.events, cell: ({ events }) => <Events events={events} /> },
  {
    key: 'waiting',
    title: text.columns.waiting,
    align: 'end',
    cell: ({ health }) => formatNumber(health?.waiting ?? 0),
  },
  { key: 'id', title: text.id, isDefault: false, cell: ({ webhookId }) => <code>{webhookId}</code> },
  {
    key: 'created',
    title: text.columns.created,
    align: 'end',
    isDefault: false,
    cell: ({ createdAt }) => <Time at={createdAt} />,
  },
  {
    key: 'last',
    title: text.columns.lastDelivered,
    align: 'end',
    cell: ({ health }) => <Time at={health?.lastDeliveredAt} />,
  },
]

export default function Subscriptions() {
  const owner = useOwner()
  const panel = useOpen()
  const list = useList(operationOf(owner, 'webhooks.list'), { params: paramsOf(owner, '') })
  const [created, setCreated] = useState<{ secret: string | undefined }>()
  const openNew = isPermitted(operationOf(owner, 'webhooks.create')) && (
    <Button variant="primary" icon="plus" onClick={() => panel.open('new')}>
      {text.new}
    </Button>
  )
  const hasRows = (list.rows?.length ?? 0) > 0
  const webhooks = useMemo(() => ({ owner }), [owner])
  const kind = kindOf(owner, 'webhooks')
  useCurrent(kind, webhooks)
  return (
    <div className="with-panel">
      <div>
        <Header
          owner={owner}
          title={owner === null ? text.hostWebhooks : text.webhooks}
          lead={owner === null && text.hostLead}
        >
          {hasRows &&
            actionsOf(kind, webhooks).map((action) => (
              <Button key={action.name} onClick={() => startAction(action, webhooks)}>
                {action.title}
              </Button>
            ))}
          {owner !== null && isPermitted('webhooks.dispatch') && (
            <Button onClick={() => panel.open('event')}>{text.sendEvent}</Button>
          )}
          {hasRows && openNew}
        </Header>
        {owner !== null && hasRows && isPermitted('webhooks.stats') && <Statistics tenantId={owner} />}
        <Table
          label={text.webhooks}
          name="webhooks"
          kind={kindOf(owner, 'webhook')}
          columns={columns}
          list={list}
          idOf={({ webhookId }) => webhookId}
          nameOf={({ url }) => url}
          hrefOf={({ webhookId }) => hrefOf(owner, webhookId)}
          menuOf={(webhook) => menuEntriesOf(kindOf(owner, 'webhook'), webhook)}
          empty={
            <Empty title={text.empty} actions={openNew}>
              {owner === null ? text.emptyHostText : text.emptyText}
            </Empty>
          }
        />
      </div>
      {panel.id === 'new' && (
        <NewSubscription
          owner={owner}
          onClose={panel.close}
          onCreated={(secret) => {
            panel.close()
            setCreated({ secret })
          }}
        />
      )}
      {panel.id === 'event' && owner !== null && <SendEvent id={owner} onClose={panel.close} />}
      {created && (
        <ShownOnce
          title={text.secretTitle}
          description={text.secretOnce}
          value={created.secret}
          missing={text.secretMissing}
          onClose={() => setCreated(undefined)}
        />
      )}
    </div>
  )
}

export function Health({ webhook: { enabled, health } }: { webhook: Webhook }) {
  if (!enabled) return <Status state={text.disabled} tone="neutral" />
  return health?.failingSince ? <Status state={text.failing} tone="bad" /> : <Status state={text.healthy} tone="good" />
}

const Events = ({ events }: { events: readonly string[] }) => (
  <span className="badges" title={events.join(', ')}>
    {events.slice(0, SHOWN_EVENTS).map((event) => (
      <Badge key={event}>{event}</Badge>
    ))}
    {events.length > SHOWN_EVENTS && <span className="faint">{text.more(events.length - SHOWN_EVENTS)}</span>}
  </span>
)
