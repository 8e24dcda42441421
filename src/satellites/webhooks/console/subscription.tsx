/** One subscription: health, settings, statistics, and its deliveries. */

import { useEffect } from 'react'
import { menuEntriesOf, ObjectButtons, startAction } from '../../../console/components/actions.tsx'
import { Button, Copyable } from '../../../console/components/base/button.tsx'
import { Icon } from '../../../console/components/base/icon.tsx'
import { validTime } from '../../../console/components/base/local-time.ts'
import { Card, Facts } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Badge } from '../../../console/components/base/status.tsx'
import { formatNumber } from '../../../console/components/base/text.ts'
import { ExactTime, Time } from '../../../console/components/base/time.tsx'
import { Skeleton } from '../../../console/components/lists/table.tsx'
import { MenuTrigger } from '../../../console/components/menu.tsx'
import { useList, useOperation } from '../../../console/data/queries.ts'
import { remember } from '../../../console/data/recent.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { useCurrent } from '../../../console/routing/current.ts'
import { useOpen } from '../../../console/routing/open.ts'
import { actionsOf } from '../../../console/routing/registry.ts'
import { useParams, useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { hrefOf, kindOf, operationOf, paramsOf, useOwner, type Webhook } from './api.ts'
import { DeliveryList } from './delivery-list.tsx'
import { EditSubscription } from './forms.tsx'
import { Header, PartHeading } from './frame.tsx'
import { Statistics } from './statistics/statistics.tsx'
import { Health } from './subscriptions.tsx'
import { text } from './text.ts'

export default function Subscription() {
  const owner = useOwner()
  const { webhookId = '' } = useParams()
  const panel = useOpen()
  const setSearch = useSetSearch()
  const params = paramsOf(owner, webhookId)
  const found = useOperation(operationOf(owner, 'webhooks.get'), { params })
  const webhook = found.data?.webhookId === webhookId ? found.data : undefined
  const { state, event, status, sameResponseAs, ...window } = useSearch('webhookDeliveries.list')
  const [from, to] = [validTime(window.from), validTime(window.to)]
  const query = { state, event, status, sameResponseAs, from, to }
  const list = useList(operationOf(owner, 'webhookDeliveries.list'), { params, query: { ...query, limit: 50 } })
  if (found.error && !webhook) {
    return (
      <>
        <Header owner={owner} title={text.subscription} parents={[]} />
        <ProblemView error={found.error} onRetry={found.error.status === 404 ? undefined : found.refetch} />
      </>
    )
  }
  if (!webhook) return <Skeleton />
  return (
    <div className="with-panel">
      <div>
        <Actions webhook={webhook} />
        {!webhook.enabled && <Disabled webhook={webhook} />}
        <div className="cards webhook-cards">
          <Card title={text.subscription}>
            <Settings webhook={webhook} />
          </Card>
          {isPermitted('webhooks.stats') && (
            <Card title={text.statistics}>
              <Statistics webhookId={webhookId} from={from} to={to} onSelect={setSearch} />
            </Card>
          )}
        </div>
        <PartHeading owner={owner}>{text.deliveries}</PartHeading>
        <DeliveryList owner={owner} list={list} query={query} />
      </div>
      {panel.id === 'edit' && isPermitted(operationOf(owner, 'webhooks.update')) && (
        <EditSubscription key={webhook.webhookId} webhook={webhook} onClose={panel.close} />
      )}
    </div>
  )
}

function Actions({ webhook }: { webhook: Webhook }) {
  const { tenantId: owner, webhookId, url, description } = webhook
  const kind = kindOf(owner, 'webhook')
  useCurrent(kind, webhook)
  useEffect(() => {
    remember({ kind: text.subscription, id: webhookId, title: url, href: hrefOf(owner, webhookId) })
  }, [owner, webhookId, url])
  const actions = actionsOf(kind, webhook).filter(({ isButton }) => !isButton)
  const next = actions.find(({ key }) => key === 'R' && webhook.health.failingSince !== null) ?? actions[0]
  const entries = menuEntriesOf(kind, webhook)
  return (
    <Header
      owner={owner}
      title={url}
      parents={[]}
      lead={
        <>
          <Health webhook={webhook} />
          {description && <span>{description}</span>}
        </>
      }
    >
      {next && <Button onClick={() => startAction(next, webhook)}>{next.title}</Button>}
      <ObjectButtons kind={kind} object={webhook} />
      {entries.length > 0 && (
        <MenuTrigger label={text.actions} entries={entries}>
          {text.actions}
          <Icon name="down" />
        </MenuTrigger>
      )}
    </Header>
  )
}

const Disabled = ({ webhook: { disabledReason } }: { webhook: Webhook }) => (
  <p className="notice" data-tone={disabledReason ? 'bad' : undefined}>
    {text.disabledReasons[disabledReason ?? 'none']} {text.disabledEffect}
  </p>
)

function Settings({ webhook: { webhookId, events, envelope, health, createdAt, updatedAt } }: { webhook: Webhook }) {
  return (
    <Facts
      facts={{
        [text.id]: <Copyable value={webhookId} />,
        [text.events]: (
          <span className="badges">
            {events.map((event) => (
              <Badge key={event}>{event}</Badge>
            ))}
          </span>
        ),
        [text.format]: envelope ? text.formats.envelope : text.formats.payload,
        [text.lastDeliveredAt]: health && <Time at={health.lastDeliveredAt} />,
        [text.waiting]: health && formatNumber(health.waiting),
        [text.failingSince]: health?.failingSince && <Time at={health.failingSince} />,
        [text.disabledAt]: health?.disabledAt && <ExactTime at={health.disabledAt} />,
        [text.createdAt]: <ExactTime at={createdAt} />,
        [text.updatedAt]: <ExactTime at={updatedAt} />,
      }}
    />
  )
}
