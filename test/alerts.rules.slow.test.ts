/** Alert rules, as shipped, in promtool: each fault fires exactly its alert, after its time and not before, until the fault ends. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { programPath } from './setup/not-run.ts'

const PROMTOOL = programPath('promtool') ?? ''
const ALERTS = 'docs/prometheus/alerts.yml'
/** Minutes without the fault before and after it. */
const HEALTHY_MINUTES = 10
/** Minutes without an alert at the end. */
const QUIET_MINUTES = 12

/** Value of a gauge, or increase of a counter each minute. A stale series has no samples. */
type Values = Readonly<Record<string, number | 'stale'>>

const CHECKS = ['backoffice', 'store', 'logins', 'circuits', 'billing', 'disk']
const API = 'multitenancy_http_request_seconds_count'
const ATTEMPTS = 'multitenancy_webhook_attempts_total'
const JOBS = 'multitenancy_queue_jobs'

/** Series of a healthy process with traffic. */
const HEALTHY: Values = {
  up: 1,
  ...Object.fromEntries(CHECKS.map((check) => [`multitenancy_health_check{check="${check}"}`, 1])),
  ...Object.fromEntries(CHECKS.map((check) => [`multitenancy_health_check_duration_seconds{check="${check}"}`, 0.01])),
  'multitenancy_build_info{version="1"}': 1,
  process_start_time_seconds: 0,
  'multitenancy_cached_counts_age_seconds{series="multitenancy_tenants_total"}': 2,
  'multitenancy_tenants_by_status{status="failed"}': 0,
  'multitenancy_circuit_state{tenant_id="acme"}': 0,
  'multitenancy_tenant_pool_connections{placement="main",state="waiting"}': 0,
  'multitenancy_dependency_degraded_total{dependency="redis",policy="fail-open"}': 0,
  multitenancy_series_dropped: 0,
  multitenancy_migration_pending_tenants: 0,
  multitenancy_queue_unattended_jobs: 0,
  [`${JOBS}{queue="tenantry.BackupTenant",state="active"}`]: 1,
  [`${JOBS}{queue="tenantry.dead-letter",state="waiting"}`]: 500,
  multitenancy_webhook_unattended_deliveries: 0,
  multitenancy_audit_unsealed_age_seconds: 40,
  'multitenancy_webhook_stream_lag_seconds{stream="audit.entries"}': 70,
  multitenancy_backup_failing_tenants: 0,
  multitenancy_backup_overdue_tenants: 0,
  multitenancy_backup_newest_age_seconds: 3_600,
  'multitenancy_doctor_findings{severity="error"}': 0,
  'multitenancy_doctor_findings{severity="warn"}': 0,
  multitenancy_doctor_age_seconds: 1_800,
  nodejs_eventloop_lag_p99_seconds: 0.02,
  [`${API}{operation="tenants.list",status="200"}`]: 1_000,
  [`${API}{operation="tenants.list",status="503"}`]: 1,
  [`${ATTEMPTS}{outcome="delivered"}`]: 980,
  [`${ATTEMPTS}{outcome="failed"}`]: 20,
}

const requests = (failed: number): Values => ({
  [`${API}{operation="tenants.list",status="200"}`]: 1_000 - failed,
  [`${API}{operation="tenants.list",status="503"}`]: failed,
})
const attempts = (failed: number): Values => ({
  [`${ATTEMPTS}{outcome="delivered"}`]: 1_000 - failed,
  [`${ATTEMPTS}{outcome="failed"}`]: failed,
})
const failing = (...checks: string[]): Values =>
  Object.fromEntries(checks.map((check) => [`multitenancy_health_check{check="${check}"}`, 0]))
const jobs = (queue: string, state: string, count: number): Values => ({
  [`${JOBS}{queue="${queue}",state="${state}"}`]: count,
})
const MUCH_LATER = 24 * 3_600

interface Fault {
  readonly title: string
  readonly values: Values
  /** Firing alerts. */
  readonly alerts: readonly string[]
  /** Values of another job, `tenantry-staging`, during the fault. It is healthy at other times. */
  readonly others?: Values
  /** Minutes of the fault without and with the alerts. */
  readonly minutes: readonly [quiet: number, firing: number]
  /** Minutes of the fault; default: until the alerts are checked. */
  readonly faulty?: number
  /** Minutes after this check until no alert fires; default: the next evaluation. */
  readonly resolved?: number
}

const fault = (alert: string, values: Values, minutes: Fault['minutes'], resolved?: number): Fault => ({
  title: alert,
  values,
  alerts: [alert],
  minutes,
  ...(resolved === undefined ? {} : { resolved }),
})

const ALONE: readonly Fault[] = [
  fault('TenantryAdminApiErrorsFast', requests(200), [5, 40], 8),
  fault('TenantryAdminApiErrorsSlow', requests(60), [20, 60], 40),
  fault('TenantryDeliveryErrorsFast', attempts(990), [10, 60], 8),
  fault('TenantryDeliveryErrorsSlow', attempts(600), [20, 60], 40),
  fault('TenantryDown', { up: 0 }, [0, 3]),
  fault('TenantryAbsent', { up: 'stale' }, [3, 7]),
  fault('TenantryVersionsDiffer', { 'multitenancy_build_info{version="2"}': 1 }, [110, 125], 10),
  fault('TenantryEventLoopLags', { nodejs_eventloop_lag_p99_seconds: 0.8 }, [8, 12]),
  fault('TenantrySeriesDropped', { multitenancy_series_dropped: 12 }, [55, 65]),
  fault(
    'TenantryCountsStale',
    { 'multitenancy_cached_counts_age_seconds{series="multitenancy_tenants_total"}': 1_200 },
    [3, 7],
  ),
  fault('TenantryDatabaseUnavailable', failing('backoffice'), [0, 3]),
  fault('TenantryStoreUnavailable', failing('store'), [0, 3]),
  fault('TenantryLoginsRefused', failing('logins'), [0, 3]),
  fault('TenantryBillingUnhealthy', failing('billing'), [3, 7]),
  fault('TenantryHealthCheckFails', failing('disk'), [3, 7]),
  fault('TenantryHealthCheckSlow', { 'multitenancy_health_check_duration_seconds{check="store"}': 1.5 }, [8, 12]),
  fault(
    'TenantryDependencyDegraded',
    { 'multitenancy_dependency_degraded_total{dependency="redis",policy="fail-open"}': 3 },
    [4, 10],
    8,
  ),
  fault('TenantryTenantsFailed', { 'multitenancy_tenants_by_status{status="failed"}': 1 }, [3, 7]),
  fault('TenantryCircuitOpen', { 'multitenancy_circuit_state{tenant_id="acme"}': 1 }, [1, 4]),
  fault(
    'TenantryConnectionsScarce',
    { 'multitenancy_tenant_pool_connections{placement="main",state="waiting"}': 2 },
    [8, 15],
  ),
  fault('TenantryMigrationsPending', { multitenancy_migration_pending_tenants: 7 }, [55, 65]),
  fault('TenantryNoWorker', { multitenancy_queue_unattended_jobs: 3 }, [1, 4]),
  fault('TenantryJobsWait', jobs('tenantry.InstallTenant', 'waiting', 101), [8, 12], 10),
  fault('TenantryDeadLetters', { 'multitenancy_dead_letters{queue="tenantry.BackupTenant"}': 1 }, [0, 3], 10),
  fault('TenantryDeliveriesUnattended', { multitenancy_webhook_unattended_deliveries: 2 }, [3, 7]),
  fault('TenantryAuditUnsealed', { multitenancy_audit_unsealed_age_seconds: 700 }, [3, 7]),
  fault('TenantryStreamBehind', { 'multitenancy_webhook_stream_lag_seconds{stream="audit.entries"}': 1_000 }, [8, 12]),
  fault('TenantryBackupsFail', { multitenancy_backup_failing_tenants: 1 }, [8, 12]),
  fault('TenantryBackupsOverdue', { multitenancy_backup_overdue_tenants: 1 }, [8, 12]),
  fault('TenantryBackupsOld', { multitenancy_backup_newest_age_seconds: 3 * MUCH_LATER }, [55, 65]),
  fault('TenantryDoctorErrors', { 'multitenancy_doctor_findings{severity="error"}': 1 }, [3, 7]),
  fault('TenantryDoctorWarnings', { 'multitenancy_doctor_findings{severity="warn"}': 1 }, [110, 125]),
  fault('TenantryDoctorOverdue', { multitenancy_doctor_age_seconds: 9_000 }, [8, 12]),
]

const quiet = (title: string, values: Values): Fault => ({ title, values, alerts: [], minutes: [0, 60] })

/** Faults with consequences that have their own alerts, and states that are no faults. */
const TOGETHER: readonly Fault[] = [
  {
    title: 'an unavailable database with the store in it, and requests that fail',
    values: {
      ...requests(200),
      'multitenancy_circuit_state{tenant_id="acme"}': 2,
      ...failing('backoffice', 'store', 'logins', 'circuits', 'billing', 'disk'),
      'multitenancy_cached_counts_age_seconds{series="multitenancy_tenants_total"}': 1_200,
      'multitenancy_dependency_degraded_total{dependency="database",policy="fail-open"}': 3,
      'multitenancy_health_check_duration_seconds{check="backoffice"}': 2,
    },
    alerts: ['TenantryDatabaseUnavailable'],
    minutes: [0, 30],
  },
  {
    title: 'a database that is unavailable for less than a minute, with errors that use the budget',
    values: { [`${API}{operation="tenants.list",status="503"}`]: 2_000, ...failing('backoffice') },
    alerts: ['TenantryAdminApiErrorsFast'],
    faulty: 1,
    minutes: [1, 4],
    resolved: 8,
  },
  {
    title: 'a missing worker with all its consequences',
    values: {
      ...jobs('tenantry.BackupTenant', 'active', 0),
      ...jobs('tenantry.InstallTenant', 'waiting', 500),
      multitenancy_queue_unattended_jobs: 500,
      multitenancy_webhook_unattended_deliveries: 40,
      multitenancy_audit_unsealed_age_seconds: MUCH_LATER,
      'multitenancy_webhook_stream_lag_seconds{stream="audit.entries"}': MUCH_LATER,
      multitenancy_doctor_age_seconds: MUCH_LATER,
    },
    alerts: ['TenantryNoWorker'],
    minutes: [1, 30],
    resolved: 10,
  },
  {
    title: 'a doctor that has never examined the installation, or whose result was lost',
    values: { multitenancy_doctor_age_seconds: 'stale' },
    alerts: ['TenantryDoctorOverdue'],
    minutes: [125, 135],
  },
  {
    title: 'faults of one job while another has faults that exclude them in the same job',
    values: {
      multitenancy_webhook_unattended_deliveries: 2,
      'multitenancy_circuit_state{tenant_id="acme"}': 1,
      ...jobs('tenantry.InstallTenant', 'waiting', 101),
      ...requests(200),
    },
    others: {
      multitenancy_queue_unattended_jobs: 3,
      ...failing('backoffice'),
      ...jobs('tenantry.InstallTenant', 'active', 2),
    },
    alerts: [
      'TenantryAdminApiErrorsFast',
      'TenantryCircuitOpen',
      'TenantryDatabaseUnavailable',
      'TenantryDeliveriesUnattended',
      'TenantryJobsWait',
      'TenantryNoWorker',
    ],
    minutes: [0, 40],
    resolved: 10,
  },
  {
    title: 'different versions in two jobs',
    values: {},
    others: { 'multitenancy_build_info{version="1"}': 'stale', 'multitenancy_build_info{version="2"}': 1 },
    alerts: [],
    minutes: [0, 125],
  },
  quiet('waiting jobs of a queue that has workers', {
    ...jobs('tenantry.InstallTenant', 'waiting', 500),
    ...jobs('tenantry.InstallTenant', 'active', 2),
  }),
  quiet('a few waiting jobs', jobs('tenantry.InstallTenant', 'waiting', 60)),
  quiet('an open circuit in the health checks, which has the alert of its tenant', failing('circuits')),
  quiet('deliveries that receivers reject within the objective', attempts(200)),
]

/** Series of all jobs. */
const inputOf = (fault: Fault): object[] => [
  ...seriesOf(fault, fault.values, 'tenantry'),
  ...(fault.others ? seriesOf(fault, fault.others, 'tenantry-staging') : []),
]

/** Values of each series in the notation of promtool, one for each minute. */
function seriesOf(
  { minutes: [, firing], faulty = firing + 1, resolved = 1 }: Fault,
  values: Values,
  job: string,
): object[] {
  const total = HEALTHY_MINUTES + firing + 1 + resolved + QUIET_MINUTES
  return [...new Set([...Object.keys(HEALTHY), ...Object.keys(values)])].map((series) => {
    const isCounter = /_(total|count)(\{|$)/.test(series)
    let sum = 0
    const samples = Array.from({ length: total }, (_, minute) => {
      const isFaulty = minute >= HEALTHY_MINUTES && minute < HEALTHY_MINUTES + faulty
      const value = isFaulty ? (values[series] ?? HEALTHY[series]) : HEALTHY[series]
      if (!isCounter || typeof value === 'string') return value ?? '_'
      sum += value ?? 0
      return sum
    })
    return { series: labelled(series, job), values: samples.join(' ') }
  })
}

/** Adds the labels of Prometheus. */
function labelled(series: string, job: string): string {
  const own = `job="${job}",instance="one"`
  return series.endsWith('}') ? series.replace('}', `,${own}}`) : `${series}{${own}}`
}

/** The exact set of firing alerts before the fault, before and after the time of the rule, and after the fault. */
function testOf(one: Fault): object {
  const { title, alerts, minutes, resolved = 1 } = one
  const [early, firing] = minutes.map((minute) => HEALTHY_MINUTES + minute) as [number, number]
  const expr = 'group by (alertname) (ALERTS{alertstate="firing"})'
  const at = (minute: number, names: readonly string[]) => ({
    expr,
    eval_time: `${minute}m`,
    exp_samples: names.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })),
  })
  return {
    name: title,
    interval: '1m',
    input_series: inputOf(one),
    promql_expr_test: [
      at(HEALTHY_MINUTES - 1, []),
      at(early, []),
      at(firing, alerts),
      ...Array.from({ length: QUIET_MINUTES }, (_, minute) => at(firing + 1 + resolved + minute, [])),
    ],
  }
}

test('every alert has a fault', async () => {
  const names = [...(await readFile(ALERTS, 'utf8')).matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
  expect(ALONE.map(({ title }) => title).toSorted()).toEqual(names.toSorted())
})

test('each fault fires exactly its alert after the time of the rule, and none before and afterwards', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-alerts-'))
  try {
    const file = join(directory, 'test.yml')
    const tests = [...ALONE, ...TOGETHER].map(testOf)
    await writeFile(file, JSON.stringify({ rule_files: [resolve(ALERTS)], evaluation_interval: '1m', tests }))
    await promisify(execFile)(PROMTOOL, ['test', 'rules', file]) // its error names the faults
  } finally {
    await rm(directory, { recursive: true })
  }
})
