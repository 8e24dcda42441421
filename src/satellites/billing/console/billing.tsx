/** Billing as the screens see it: the states of a subscription and of a dunning case. */
import type { Result } from '../../../console/api/contract.ts'
import { Badge, Status, type Tone } from '../../../console/components/base/status.tsx'
import { text } from './text.ts'

export type Billing = Result<'billing.get'>
type Subscription = NonNullable<Billing['subscription']>
type Dunning = NonNullable<Billing['dunning']>

const TONES: Readonly<Record<Subscription['status'], Tone>> = {
  incomplete: 'progress',
  incomplete_expired: 'neutral',
  trialing: 'progress',
  active: 'good',
  past_due: 'bad',
  canceled: 'neutral',
  unpaid: 'bad',
  paused: 'warning',
}

export const isRunning = (subscription: Subscription | null): subscription is Subscription =>
  subscription !== null && subscription.status !== 'canceled' && subscription.status !== 'incomplete_expired'

export const SubscriptionStatus = ({ of: subscription }: { of: Subscription | null }) => {
  if (!subscription) return <span className="faint">{text.noneShort}</span>
  const { status, cancelAtPeriodEnd, isCollectionPaused } = subscription
  return (
    <>
      <Status state={status} tone={TONES[status]}>
        {text.statuses[status]}
      </Status>
      {cancelAtPeriodEnd && isRunning(subscription) && <Badge>{text.endsWithPeriod}</Badge>}
      {isCollectionPaused && <Badge tone="warning">{text.collectionPaused}</Badge>}
    </>
  )
}

export const DunningState = ({ of: dunning }: { of: Dunning | null }) =>
  dunning ? (
    <Status state={dunning.state} tone={dunning.state === 'suspended' ? 'bad' : 'warning'}>
      {text.dunningStates[dunning.state]}
    </Status>
  ) : (
    <span className="faint">–</span>
  )
