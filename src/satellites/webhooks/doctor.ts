/** Diagnoses of webhooks. Findings contain no responses, and only the origin of a URL: its path may be a secret. */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import type { Diagnosis, Examination, Finding } from '../../kernel/doctor/doctor.ts'
import type { Webhooks } from './webhooks.ts'

/** Attempts to lock the tables. */
const MAX_ATTEMPTS = 3
/** Records of streams are sent every minute. As the alert TenantryStreamBehind. */
const LATE_SECONDS = 900

export const diagnoses: readonly Diagnosis<Webhooks>[] = [
  {
    name: 'webhooks',
    summary: 'Overdue deliveries: no worker sends, or a receiver is too slow',
    examine: examineDeliveries,
  },
  {
    name: 'webhooks.subscriptions',
    summary: 'Disabled and failing subscriptions, and the encryption of their secrets',
    examine: examineSubscriptions,
  },
  {
    name: 'webhooks.streams',
    summary: 'Streams, such as the audit log, that subscriptions of the host receive late',
    examine: examineStreams,
  },
  {
    name: 'webhooks.partitions',
    summary: 'Missing partitions for future deliveries, and partitions past their retention',
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
      message: `No worker sends webhooks: ${deliveries(count)} overdue since ${oldest.since.toISOString()}.`,
      remedy:
        'Check that a process with the role all or worker runs, and read its log. ' +
        'To send now: tenantry tenant:webhooks:retry',
    }
    return
  }
  for (const { tenantId, webhookId, url, count, since } of overdue) {
    yield {
      severity: 'warn',
      code: 'webhooks.behind',
      message: `${deliveries(count)} overdue since ${since.toISOString()} to ${subscription(tenantId, webhookId, url)}.`,
      remedy:
        'The receiver is slow or fails, or it gets more events than perSubscription, perTenant and concurrency of `webhooks` allow' +
        `${tenantId === null ? '' : `. Show the duration of attempts: tenantry tenant:webhooks:tail ${tenantId}`}.`,
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
          message: `Disabled: ${subscription(tenantId, webhookId, url)}. ${
            disabledReason === 'gone' ? 'Its receiver responded with 410.' : 'It had only failures for 5 days.'
          }`,
          remedy: 'Enable it when its receiver works, and replay failed deliveries; or delete it.',
          ...whose(tenantId),
        }
      : {
          severity: 'warn',
          code: 'webhooks.failing',
          message: `Only failures since ${failingSince?.toISOString()}: ${subscription(tenantId, webhookId, url)}.`,
          remedy: 'Read the responses in its deliveries, and inform its owner: after 5 days it is disabled.',
          ...whose(tenantId),
        }
  }
  for (const { count, isCurrent, canDecrypt } of await inspection.keyUsage()) {
    if (isCurrent && canDecrypt) continue
    yield canDecrypt
      ? {
          severity: 'info',
          code: 'webhooks.old-key',
          message: `${secrets(count)} encrypted with a former application key.`,
          remedy:
            'Run tenantry tenant:secrets:reencrypt. Keep the key in TENANTRY_OLD_APP_KEYS until it has succeeded.',
        }
      : {
          severity: 'error',
          code: 'webhooks.lost-key',
          message: `${secrets(count)} encrypted with an application key that is not configured. Their deliveries are not sent.`,
          remedy: 'Add the key to TENANTRY_OLD_APP_KEYS. If it is lost, rotate the secrets and inform the receivers.',
        }
  }
}

async function* examineStreams({ streams }: Webhooks): AsyncIterable<Finding> {
  for (const { webhookId, url, stream, since, seconds } of await streams.lags()) {
    if (seconds < LATE_SECONDS) continue
    yield {
      severity: 'warn',
      code: 'webhooks.stream-behind',
      message: `Not accepted since ${since.toISOString()}: ${stream} by ${subscription(null, webhookId, url)}.`,
      remedy:
        'Check that a process with the role all or worker runs, and that the receiver responds with 2xx: ' +
        `tenantry webhooks:deliveries:list ${webhookId}`,
    }
  }
}

async function* examinePartitions({ inspection }: Webhooks): AsyncIterable<Finding> {
  const { isMissing, hasUnpartitioned, expired } = await inspection.partitions()
  if (isMissing) {
    yield {
      severity: 'warn',
      code: 'webhooks.partition-missing',
      message:
        'No partition exists for deliveries of tomorrow. They would be stored in the default partition and deleted row by row.',
      remedy: 'Check that a process with the role all or worker runs. Create the partition: tenantry doctor --fix',
      fixable: true,
    }
  }
  if (hasUnpartitioned) {
    yield {
      severity: 'warn',
      code: 'webhooks.unpartitioned',
      message: 'Deliveries are in the default partition: no partition existed for their time.',
      remedy: 'Move them: tenantry doctor --fix. Webhooks wait during the move, a few seconds for 100,000 deliveries.',
      fixable: true,
    }
  }
  if (expired.length > 0) {
    yield {
      severity: 'warn',
      code: 'webhooks.not-trimmed',
      message: `Deliveries before ${expired.at(-1)?.to.toISOString()} are past their retention and were not dropped.`,
      remedy: 'Find the session that locks multitenancy.webhook_deliveries. Then drop them: tenantry doctor --fix',
      fixable: true,
    }
  }
}

async function keepPartitions({ partitions }: Webhooks, _: Finding, { signal }: Examination): Promise<string> {
  const { made, dropped, isComplete } = await partitions.keep({ maxAttempts: MAX_ATTEMPTS, signal })
  if (!isComplete) throw DependencyUnavailable('The webhook tables are locked by another session. Try again later.')
  return `Created ${made} partitions, dropped ${dropped}.`
}

const deliveries = (count: number): string => (count === 1 ? '1 delivery is' : `${count} deliveries are`)
const secrets = (count: number): string =>
  count === 1 ? 'The secret of 1 subscription is' : `The secrets of ${count} subscriptions are`

const subscription = (tenantId: string | null, webhookId: string, url: string): string =>
  `subscription ${webhookId} of ${tenantId === null ? 'the host' : `tenant "${tenantId}"`} (${new URL(url).origin})`

const whose = (tenantId: string | null) => (tenantId === null ? {} : { tenantId })
