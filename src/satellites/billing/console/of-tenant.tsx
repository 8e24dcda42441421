/** Billing of one tenant: subscription, dunning case, usage that is not reported, and its actions. */
import { startAction } from '../../../console/components/actions.tsx'
import { Button, Copyable } from '../../../console/components/base/button.tsx'
import { Empty, Facts, Section } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Badge } from '../../../console/components/base/status.tsx'
import { formatNumber } from '../../../console/components/base/text.ts'
import { ExactTime, Time } from '../../../console/components/base/time.tsx'
import { Skeleton } from '../../../console/components/lists/table.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { actionsOf } from '../../../console/routing/registry.ts'
import { useParams } from '../../../console/routing/router.tsx'
import { type Billing, SubscriptionStatus } from './billing.tsx'
import { text } from './text.ts'

export default function OfTenant() {
  const { id = '' } = useParams()
  const { data, error, refetch } = useOperation('billing.get', { params: { id } })
  const billing = data?.tenantId === id ? data : undefined
  if (error && !billing) return <ProblemView error={error} onRetry={refetch} />
  if (!billing) return <Skeleton />
  return (
    <div className="narrow">
      <DunningCase billing={billing} />
      <Subscription billing={billing} />
      <UnreportedUsage billing={billing} />
    </div>
  )
}

function DunningCase({ billing: { dunning } }: { billing: Billing }) {
  if (!dunning) return null
  const { state, attempt, since, graceUntil } = dunning
  return (
    <div className="notice" data-tone={state === 'suspended' ? 'bad' : 'warning'}>
      <strong>{text.dunningStates[state]}</strong> · {text.failed(attempt)} · {text.since.toLowerCase()}{' '}
      <Time at={since} />
      {graceUntil && (
        <>
          {' '}
          · {text.graceUntil} <ExactTime at={graceUntil} />
        </>
      )}
    </div>
  )
}

const Actions = ({ billing }: { billing: Billing }) =>
  actionsOf('billing', billing).map((action) => (
    <Button
      key={action.name}
      variant={action.isDestructive ? 'danger' : 'plain'}
      onClick={() => startAction(action, billing)}
    >
      {action.title}
    </Button>
  ))

function Subscription({ billing }: { billing: Billing }) {
  const { plan, customerId, subscription } = billing
  if (!subscription) {
    return (
      <Empty title={text.none} actions={<Actions billing={billing} />}>
        {text.noneText}
      </Empty>
    )
  }
  const { id, items, periodStart, periodEnd, trialEnd, cancelAt, endedAt } = subscription
  return (
    <Section title={text.subscription} actions={<Actions billing={billing} />}>
      <Facts
        facts={{
          [text.status]: <SubscriptionStatus of={subscription} />,
          [text.plan]: <Badge>{plan}</Badge>,
          [text.prices]: (
            <ul>
              {items.map(({ priceId, quantity }) => (
                <li key={priceId}>
                  <code>{text.price(priceId, quantity)}</code>
                </li>
              ))}
            </ul>
          ),
          [text.period]: periodStart && periodEnd && (
            <>
              <ExactTime at={periodStart} /> {text.to} <ExactTime at={periodEnd} />
            </>
          ),
          [text.trialEnd]: trialEnd && <ExactTime at={trialEnd} />,
          [text.ends]: cancelAt && <ExactTime at={cancelAt} />,
          [text.endedAt]: endedAt && <ExactTime at={endedAt} />,
          [text.customer]: customerId && <Copyable value={customerId} />,
          [text.id]: <Copyable value={id} />,
        }}
      />
    </Section>
  )
}

function UnreportedUsage({ billing: { unreportedUsage } }: { billing: Billing }) {
  if (unreportedUsage.length === 0) return null
  return (
    <Section title={text.usage}>
      <p className="faint">{text.usageText}</p>
      <table className="simple">
        <thead>
          <tr>
            <th scope="col">{text.meter}</th>
            <th scope="col">{text.quantity}</th>
            <th scope="col">{text.since}</th>
          </tr>
        </thead>
        <tbody>
          {unreportedUsage.map(({ meter, quantity, since }) => (
            <tr key={meter}>
              <th scope="row">{meter}</th>
              <td>{formatNumber(quantity)}</td>
              <td>
                <Time at={since} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  )
}
