/** One delivery: state with its explanation, payload, attempts on the schedule, and differences between attempts. */
import { useEffect, useMemo } from 'react'
import { startAction } from '../../../console/components/actions.tsx'
import { Button, Copyable, LinkButton } from '../../../console/components/base/button.tsx'
import { Json } from '../../../console/components/base/code.tsx'
import { Facts } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { ExactTime, WithTimes } from '../../../console/components/base/time.tsx'
import { Skeleton } from '../../../console/components/lists/table.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { remember } from '../../../console/data/recent.ts'
import { useCurrent } from '../../../console/routing/current.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { actionsOf } from '../../../console/routing/registry.ts'
import { useCommonSearch, useParams } from '../../../console/routing/router.tsx'
import { type DeliveryDetail, hrefOf, kindOf, type Owner, operationOf, paramsOf, useOwner } from './api.ts'
import { AttemptDetail, AttemptDiff, Attempts } from './attempts.tsx'
import { DeliveryState } from './delivery-list.tsx'
import { Header, PartHeading } from './frame.tsx'
import { isSuccess, plannedAttempts, Schedule } from './schedule.tsx'
import { text } from './text.ts'

const SENDING_MS = 1_000
const SETTLED_MS = 15_000

export default function DeliveryPage() {
  const owner = useOwner()
  const { webhookId = '', deliveryId = '' } = useParams()
  const params = paramsOf(owner, webhookId)
  const found = useOperation(
    operationOf(owner, 'webhookDeliveries.get'),
    { params: { ...params, deliveryId } },
    { refetchInterval: ({ state: { data } }) => (isSending(data) ? SENDING_MS : SETTLED_MS) },
  )
  const { data: webhook } = useOperation(operationOf(owner, 'webhooks.get'), { params })
  const delivery = found.data?.id === deliveryId ? found.data : undefined
  const parents = [{ title: webhook?.url ?? text.subscription, href: hrefOf(owner, webhookId) }]
  if (found.error && !delivery) {
    return (
      <>
        <Header owner={owner} title={text.delivery} parents={parents} />
        <ProblemView error={found.error} onRetry={found.error.status === 404 ? undefined : found.refetch} />
      </>
    )
  }
  if (!delivery) return <Skeleton />
  return <Delivery owner={owner} delivery={delivery} parents={parents} />
}

const isSending = (delivery: DeliveryDetail | undefined): boolean =>
  delivery?.state === 'pending' || delivery?.state === 'delivering'

interface DeliveryProps {
  readonly owner: Owner
  readonly delivery: DeliveryDetail
  readonly parents: readonly { readonly title: string; readonly href: string }[]
}

function Delivery({ owner, delivery, parents }: DeliveryProps) {
  const { id, webhookId, tenantId, event, state, attempts, explanation, payload } = delivery
  const { open } = useCommonSearch()
  useCurrent(kindOf(owner, 'delivery'), delivery)
  useEffect(() => {
    remember({ kind: text.delivery, id, title: event, href: hrefOf(owner, webhookId, id) })
  }, [owner, webhookId, id, event])
  const planned = useMemo(() => plannedAttempts(delivery), [delivery])
  const shown = attempts.find(({ number }) => String(number) === open) ?? attempts.at(-1)
  const former = shown && attempts.findLast(({ number }) => number < shown.number)
  const [replay] = actionsOf(kindOf(owner, 'delivery'), delivery)
  const isFailure = shown !== undefined && !isSuccess(shown)
  return (
    <>
      <Header owner={owner} title={event} parents={parents} lead={<DeliveryState state={state} />}>
        {isFailure && (
          <LinkButton href={hrefOf(owner, webhookId, undefined, { sameResponseAs: id })}>{text.sameFailure}</LinkButton>
        )}
        {replay && (
          <Button variant="primary" onClick={() => startAction(replay, delivery)}>
            {text.replay}
          </Button>
        )}
      </Header>
      <p className="notice" data-tone={state === 'failed' ? 'bad' : state === 'delivered' ? 'good' : undefined}>
        <WithTimes>{explanation}</WithTimes>
      </p>
      <div className="delivery">
        <div>
          <PartHeading owner={owner}>{text.schedule}</PartHeading>
          <p className="faint">{text.scheduleText}</p>
          <Schedule attempts={planned} />
          <PartHeading owner={owner}>{text.attempts}</PartHeading>
          {planned.length === 0 ? (
            <p className="faint">{text.noAttempts}</p>
          ) : (
            <Attempts
              attempts={planned}
              shown={shown?.number}
              hrefOf={(number) => hrefOf(owner, webhookId, id, { open: number })}
            />
          )}
          {shown && <AttemptDetail attempt={shown} former={former} />}
          {isFailure && <LastSuccess owner={owner} delivery={delivery} attempt={shown} />}
        </div>
        <aside aria-label={text.delivery}>
          <Facts
            facts={{
              [text.id]: <Copyable value={id} />,
              [text.columns.tenant]: tenantId && <a href={tenantHref(tenantId)}>{tenantId}</a>,
              [text.dispatchedAt]: <ExactTime at={delivery.createdAt} />,
              [text.nextRetry]: delivery.nextRetryAt && <ExactTime at={delivery.nextRetryAt} />,
              [text.deliveredAt]: delivery.deliveredAt && <ExactTime at={delivery.deliveredAt} />,
            }}
          />
          <PartHeading owner={owner}>{text.payload}</PartHeading>
          <Json value={payload} label={text.payload} />
        </aside>
      </div>
    </>
  )
}

interface LastSuccessProps {
  readonly owner: Owner
  readonly delivery: DeliveryDetail
  readonly attempt: DeliveryDetail['attempts'][number]
}

/** The shown attempt against the last success of the same event to the same subscription. */
function LastSuccess({ owner, delivery: { webhookId, event }, attempt }: LastSuccessProps) {
  const params = paramsOf(owner, webhookId)
  const query = { state: 'delivered' as const, event, limit: 1 }
  const { data: list } = useOperation(operationOf(owner, 'webhookDeliveries.list'), { params, query })
  const deliveryId = list?.data[0]?.id
  const { data: success } = useOperation(
    operationOf(owner, 'webhookDeliveries.get'),
    { params: { ...params, deliveryId: deliveryId ?? '' } },
    { enabled: deliveryId !== undefined },
  )
  if (!list) return null
  const last = success?.id === deliveryId ? success?.attempts.findLast(isSuccess) : undefined
  return (
    <section className="attempt" aria-label={text.lastSuccess}>
      <h3>{deliveryId ? <a href={hrefOf(owner, webhookId, deliveryId)}>{text.lastSuccess}</a> : text.lastSuccess}</h3>
      {last ? <AttemptDiff before={last} after={attempt} /> : !deliveryId && <p className="faint">{text.noSuccess}</p>}
    </section>
  )
}
