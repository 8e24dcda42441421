/** Diagnoses of billing: provider health, failed events, unreported usage. */
import type { Diagnosis, Finding } from '../../kernel/doctor/doctor.ts'
import type { Billing } from './billing.ts'
import type { HealthAssessment } from './provider/provider-health.ts'
import { REPORTABLE_DAYS } from './usage/usage.ts'

/** Age from which unreported usage is a finding. */
const LATE_MINUTES = 15

export const diagnoses: readonly Diagnosis<Billing>[] = [
  { name: 'billing', summary: 'Whether the payment provider responds, and its events arrive', examine: examineHealth },
  { name: 'billing.events', summary: 'Failed events of the payment provider', examine: examineEvents },
  { name: 'billing.usage', summary: 'Unreported usage', examine: examineUsage },
]

/** Findings by code of the health assessment. */
const FINDINGS: Readonly<Record<string, Pick<Finding, 'code' | 'remedy'>>> = {
  'no-secret': {
    code: 'billing.no-secret',
    remedy: 'Set billing.stripe.webhookSecret (STRIPE_WEBHOOK_SECRET) to the signing secret of the endpoint.',
  },
  'not-measured': {
    code: 'billing.not-measured',
    remedy: 'Check that a process with the role all or worker runs, and check its log for PingProvider.',
  },
  unreachable: {
    code: 'billing.unreachable',
    remedy: 'Check the API key, the outgoing network connection, and the status page of the provider.',
  },
  slow: {
    code: 'billing.slow',
    remedy: 'No data is lost, but checkouts take longer. Check the status page of the provider.',
  },
  silent: {
    code: 'billing.silent',
    remedy:
      'Check the responses to deliveries in the dashboard of the provider. Test the endpoint with tenantry billing:test-webhook, then fetch lost events with tenantry billing:backfill.',
  },
  quiet: {
    code: 'billing.quiet',
    remedy:
      'If no events are expected, no action is needed. Otherwise test the endpoint with tenantry billing:test-webhook.',
  },
}

async function* examineHealth({ health }: Billing): AsyncIterable<Finding> {
  for (const assessment of await health.assessments()) if (assessment.status !== 'good') yield findingOf(assessment)
}

function findingOf({ status, code, message }: Exclude<HealthAssessment, { status: 'good' }>): Finding {
  const template = FINDINGS[code]
  if (!template) throw new Error(`no finding for the code "${code}"`)
  return { severity: status === 'fail' ? 'error' : 'warn', message, ...template }
}

async function* examineEvents({ dependencies }: Billing): AsyncIterable<Finding> {
  const { rows } = await dependencies.kernel.database.sql(
    `select error_code as code, count(*)::int as count, max(created_at) as last
     from multitenancy.billing_inbox where status = 'failed' group by 1 order by 1`,
  )
  for (const { code, count, last } of rows) {
    yield {
      severity: 'error',
      code: 'billing.dead-letters',
      message: `${count} ${count === 1 ? 'event' : 'events'} of the payment provider failed with ${code}, the last of ${last.toISOString()}`,
      remedy: 'Fix the cause of the code (docs/billing.md), then run: tenantry billing:replay --failed',
    }
  }
}

async function* examineUsage({ dependencies }: Billing): AsyncIterable<Finding> {
  const { rows } = await dependencies.kernel.database.sql(
    `select tenant_id as "tenantId", meter, sum(quantity)::float8 as quantity, min(used_at) as since,
       case when held_at is not null then 'unclear' when next_attempt_at is null then 'expired' else 'unreported' end as state,
       (array_agg(error_code) filter (where error_code is not null))[1] as code
     from multitenancy.billing_usage where sent_at is null and used_at < $1 group by tenant_id, meter, state order by since`,
    [new Date(dependencies.kernel.clock.now().getTime() - LATE_MINUTES * 60_000)],
  )
  for (const row of rows)
    yield { ...usageFinding(row, dependencies.settings.webhook.retentionDays), tenantId: row.tenantId }
}

interface Usage {
  readonly tenantId: string
  readonly meter: string
  readonly quantity: number
  readonly since: Date
  readonly state: 'unclear' | 'expired' | 'unreported'
  readonly code: string | null
}

function usageFinding({ tenantId, meter, quantity, since, state, code }: Usage, keptDays: number): Finding {
  const used = `${quantity} of "${meter}" that tenant "${tenantId}" has used since ${since.toISOString()}`
  const why = code ? `: ${code}` : ''
  if (state === 'unclear') {
    return {
      severity: 'error',
      code: 'billing.usage-unclear',
      message: `${used} was sent, and it is unknown whether it counts. It is not sent again, because it could count twice${why}`,
      remedy:
        "Check the meter's summary of the tenant's customer at the provider. Release the usage that is missing there, and drop the usage that is present: docs/billing.md, Unclear usage.",
    }
  }
  if (state === 'expired') {
    return {
      severity: 'error',
      code: 'billing.usage-expired',
      message: `${used} was not reported within ${REPORTABLE_DAYS} days, and the provider no longer accepts it${why}`,
      remedy: `Charge it by other means, or ignore it. It is deleted after ${keptDays} days.`,
    }
  }
  return {
    severity: 'warn',
    code: 'billing.usage-unreported',
    message: `${used} is not reported${why}`,
    remedy: `Check that the tenant has a customer, the meter exists, and the provider responds. The report is retried automatically for ${REPORTABLE_DAYS} days, the limit of the provider.`,
  }
}
