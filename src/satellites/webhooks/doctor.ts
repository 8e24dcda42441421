/** What the doctor says of webhooks. Nothing of a receiver's answers is told, and of a URL only its origin: its path may be a secret. */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import type { Diagnosis, Examination, Finding } from '../../kernel/doctor/doctor.ts'
import type { Webhooks } from './webhooks.ts'

/** Somebody may hold a lock at first. */
const TRIES = 3

export const diagnoses: readonly Diagnosis<Webhooks>[] = [
  { name: 'webhooks', summary: 'Deliveries that nobody sends, or that cannot keep up', examine: examineDeliveries },
  {
    name: 'webhooks.subscriptions',
    summary: 'Subscriptions that are disabled or fail, and their secrets',
    examine: examineSubscriptions,
  },
  {
    name: 'webhooks.partitions',
    summary: 'Whether there is a place for deliveries to come, and whether old ones go',
    examine: examinePartitions,
    fix: keepPartitions,
  },
]

async function* examineDeliveries({ inspection }: Webhooks): AsyncIterable<Finding> {
  const { overdue, isSending } = await inspection.overdue()
  const [oldest] = overdue
  if (!oldest) return
  if (!isSending) {
    const count = overdue.reduce((sum, { count }) => sum + count, 0)
    yield {
      severity: 'error',
      code: 'webhooks.nobody-sends',
      message: `${deliveries(count)} due since ${oldest.since.toISOString()}, and nobody sends any`,
      remedy:
        'See whether a process with the role all or worker runs, and what its log says. ' +
        'Until then: tenantry tenant:webhooks:retry',
    }
    return
  }
  for (const { tenantId, webhookId, url, count, since } of overdue) {
    yield {
      severity: 'warn',
      code: 'webhooks.behind',
      message: `${deliveries(count)} due to ${of(tenantId, webhookId, url)} since ${since.toISOString()}`,
      remedy:
        'Its receiver answers slowly or fails, or it gets more than perSubscription, perTenant and concurrency of `webhooks` let through' +
        `${tenantId === null ? '' : `; tenantry tenant:webhooks:tail ${tenantId} shows how long it takes`}.`,
      ...whose(tenantId),
    }
  }
}

async function* examineSubscriptions({ inspection }: Webhooks): AsyncIterable<Finding> {
  for (const { tenantId, webhookId, url, disabledReason, failingSince } of await inspection.troubled()) {
    yield disabledReason
      ? {
          severity: 'warn',
          code: 'webhooks.disabled',
          message: `${of(tenantId, webhookId, url)} is disabled: ${
            disabledReason === 'gone' ? 'it answered 410' : 'it knew nothing but failures for 5 days'
          }`,
          remedy: 'Once its receiver is there, enable it, and replay what has failed; or delete it.',
          ...whose(tenantId),
        }
      : {
          severity: 'warn',
          code: 'webhooks.failing',
          message: `${of(tenantId, webhookId, url)} has known nothing but failures since ${failingSince?.toISOString()}`,
          remedy: 'Its deliveries say what it answers. Tell its owner: after 5 days it is disabled.',
          ...whose(tenantId),
        }
  }
  for (const { count, isCurrent, canDecrypt } of await inspection.keyUsage()) {
    if (isCurrent && canDecrypt) continue
    yield canDecrypt
      ? {
          severity: 'info',
          code: 'webhooks.old-key',
          message: `${secrets(count)} sealed under a former application key`,
          remedy:
            'tenantry tenant:secrets:reencrypt seals them anew; until then keep that key among TENANTRY_OLD_APP_KEYS.',
        }
      : {
          severity: 'error',
          code: 'webhooks.lost-key',
          message: `${secrets(count)} sealed under an application key that is not configured here: nothing is sent to those`,
          remedy: 'Add the key to TENANTRY_OLD_APP_KEYS; if it is lost, rotate those secrets and tell the receivers.',
        }
  }
}

async function* examinePartitions({ inspection }: Webhooks): AsyncIterable<Finding> {
  const { isMissing, hasUnpartitioned, kept } = await inspection.places()
  if (isMissing) {
    yield {
      severity: 'warn',
      code: 'webhooks.partition-missing',
      message:
        'there is no partition for deliveries of tomorrow: they would stand among those that are dropped row by row',
      remedy: 'See whether a process with the role all or worker runs; tenantry doctor --fix makes it.',
      fixable: true,
    }
  }
  if (hasUnpartitioned) {
    yield {
      severity: 'warn',
      code: 'webhooks.unpartitioned',
      message: 'deliveries stand in no partition of their time: when they came there was none',
      remedy: 'Move them with tenantry doctor --fix. Webhooks wait while they are moved; 100,000 take a few seconds.',
      fixable: true,
    }
  }
  if (kept.length > 0) {
    yield {
      severity: 'warn',
      code: 'webhooks.not-trimmed',
      message: `deliveries from before ${kept.at(-1)?.to.toISOString()} are kept, though their time is over`,
      remedy: 'See what holds a lock on multitenancy.webhook_deliveries for hours; tenantry doctor --fix drops them.',
      fixable: true,
    }
  }
}

async function keepPartitions({ partitions }: Webhooks, _: Finding, { signal }: Examination): Promise<string> {
  const { made, dropped, isComplete } = await partitions.keep({ maxAttempts: TRIES, signal })
  if (!isComplete) throw DependencyUnavailable('somebody holds a lock on the tables; try again later')
  return `${made} partitions were made, ${dropped} dropped`
}

const deliveries = (count: number): string => (count === 1 ? '1 delivery is' : `${count} deliveries are`)
const secrets = (count: number): string =>
  count === 1 ? 'the secret of 1 subscription is' : `the secrets of ${count} subscriptions are`

const of = (tenantId: string | null, webhookId: string, url: string): string =>
  `the subscription ${webhookId} of ${tenantId === null ? 'the host' : `"${tenantId}"`} (${new URL(url).origin})`

const whose = (tenantId: string | null) => (tenantId === null ? {} : { tenantId })
