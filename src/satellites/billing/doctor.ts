/** What the doctor says of billing. */
import type { Diagnosis, Finding } from '../../kernel/doctor/doctor.ts'
import type { Billing } from './billing.ts'
import type { HealthAssessment } from './provider/provider-health.ts'
import { REPORTABLE_DAYS } from './usage/usage.ts'

/** Usage that is older was not reported when it could have been. */
const LATE_MINUTES = 15

export const diagnoses: readonly Diagnosis<Billing>[] = [
  { name: 'billing', summary: 'Whether the payment provider answers, and its events arrive', examine: examineHealth },
  { name: 'billing.events', summary: 'Events of the payment provider that came to nothing', examine: examineEvents },
  { name: 'billing.usage', summary: 'Usage that is not reported', examine: examineUsage },
]

/** By the code of the assessment. */
const FINDINGS: Readonly<Record<string, Pick<Finding, 'code' | 'remedy'>>> = {
  'no-secret': {
    code: 'billing.no-secret',
    remedy: 'Set billing.stripe.webhookSecret (STRIPE_WEBHOOK_SECRET) to the signing secret of the endpoint.',
  },
  'not-measured': {
    code: 'billing.not-measured',
    remedy: 'See whether a process with the role all or worker runs, and what its log says of PingProvider.',
  },
  unreachable: {
    code: 'billing.unreachable',
    remedy: 'See the key and the way out of this network, and the status page of the provider.',
  },
  slow: {
    code: 'billing.slow',
    remedy: 'Nothing is lost; checkouts take longer. See the status page of the provider.',
  },
  silent: {
    code: 'billing.silent',
    remedy:
      'See at the provider what its deliveries to the endpoint are answered; tenantry billing:test-webhook tries it, and billing:backfill fetches what was lost.',
  },
  quiet: {
    code: 'billing.quiet',
    remedy: 'If nothing was to be expected, nothing has to be done; tenantry billing:test-webhook tries the endpoint.',
  },
}

async function* examineHealth({ health }: Billing): AsyncIterable<Finding> {
  for (const assessment of await health.assessments()) if (assessment.status !== 'good') yield findingOf(assessment)
}

function findingOf({ status, code, message }: Exclude<HealthAssessment, { status: 'good' }>): Finding {
  const template = FINDINGS[code]
  if (!template) throw new Error(`nothing is told of "${code}"`)
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
      remedy: 'Mend what the code says (docs/billing.md), then: tenantry billing:replay --failed',
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
  const used = `${quantity} of "${meter}" that "${tenantId}" has used since ${since.toISOString()}`
  const why = code ? `: ${code}` : ''
  if (state === 'unclear') {
    return {
      severity: 'error',
      code: 'billing.usage-unclear',
      message: `${used} was sent, and whether it counts is not known; sent again after a day it might count twice${why}`,
      remedy:
        "See at the provider what the meter's summary of the tenant's customer has, then release what is missing, and drop what is there: docs/billing.md, Unclear usage.",
    }
  }
  if (state === 'expired') {
    return {
      severity: 'error',
      code: 'billing.usage-expired',
      message: `${used} was not reported within ${REPORTABLE_DAYS} days, and can no longer be${why}`,
      remedy: `Charge it by other means, or let it go: it is removed ${keptDays} days later.`,
    }
  }
  return {
    severity: 'warn',
    code: 'billing.usage-unreported',
    message: `${used} is not reported${why}`,
    remedy: `See whether the tenant has a customer, the meter exists, and the provider answers; it is sent again by itself for ${REPORTABLE_DAYS} days, which is how long the provider takes it.`,
  }
}
