/** Series of the state of an installation: their values with a fault of each kind, and without faults. */
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { directory } from '../src/drivers/archives/directory.ts'
import { ExamineInstallation } from '../src/kernel/doctor/examinations.ts'
import { jobSeries } from '../src/kernel/jobs/job-metrics.ts'
import { TenantLabels } from '../src/kernel/metrics/tenant-labels.ts'
import { auditLogs } from '../src/satellites/audit-logs/index.ts'
import { webhooks } from '../src/satellites/webhooks/index.ts'
import type { Tenancy } from '../src/tenancy/tenancy.ts'
import { VERSION } from '../src/tenancy/version.ts'
import { fakeClock } from '../src/testing/base/clock.ts'
import { eventually, installed, testTenancy } from '../src/testing/base/tenancy.ts'

const NOTES = { name: '0001_notes', checksum: '1', up: 'create table notes (text text)' }
const STARS = { name: '0002_stars', checksum: '2', up: 'alter table notes add stars integer' }

const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

async function opened(role: 'all' | 'api') {
  const archives = await mkdtemp(join(tmpdir(), 'tenantry-series-'))
  const clock = fakeClock(new Date())
  const made = await testTenancy(inject('postgresUrl'), {
    role,
    clock,
    migrations: [NOTES],
    satellites: [auditLogs(), webhooks()],
    backups: { archives: directory({ path: archives }), everyHours: 1 },
    egress: { allowPrivateNetworks: true, allowHttp: true },
  })
  ends.push(made.end, () => rm(archives, { recursive: true, force: true }))
  return { ...made, archives, clock }
}

/** Values of a scrape by name and labels, as exposed. */
async function scraped({ series }: Pick<Tenancy, 'series'>): Promise<(sample: string) => number | undefined> {
  const values = new Map(
    (await series.expose())
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => {
        const end = line.lastIndexOf(' ')
        return [line.slice(0, end), Number(line.slice(end + 1))] as const
      }),
  )
  return (sample) => values.get(sample)
}

describe('the series of an installation', () => {
  test('show each fault', async () => {
    const { tenancy, open, archives, clock } = await opened('api')
    const { tenants, kernel } = tenancy
    const backUp = async (id: string) => {
      const { id: backupId } = await tenants.transfers.backups.create(id)
      const signal = new AbortController().signal
      await tenants.transfers.work(backupId, { isLast: true, signal }).catch(() => undefined)
    }
    for (const id of ['good', 'failing', 'overdue']) {
      await tenants.create({ id, name: id })
      await tenants.installation.install(id, { isLast: true })
    }
    await backUp('good')
    await rename(archives, `${archives}.aside`)
    await writeFile(archives, 'a file')
    await backUp('failing')
    await rm(archives)
    await rename(`${archives}.aside`, archives)
    await kernel.database.sql(
      `update multitenancy.tenants set activated_at = now() - interval '3 hours' where id = 'overdue'`,
    )
    await tenancy.webhooks.create('good', { url: 'http://127.0.0.1:9/', events: ['*'] })
    await tenancy.webhooks.dispatch('good', 'order.paid', {})
    await kernel.database.sql(
      `update multitenancy_jobs.job set start_after = now() - interval '1 minute' where name = 'tenantry.InstallTenant'`,
    )
    await kernel.database.sql(
      `insert into multitenancy_jobs.job (name, source_name, created_on) values
         ('tenantry.dead-letter', 'tenantry.BackupTenant', now()),
         ('tenantry.dead-letter', 'tenantry.BackupTenant', now() - interval '2 days')`,
    )
    await kernel.database.sql(
      `insert into tenantry.outbox (id, tenant, kind, payload, posted_at)
       values (gen_random_uuid(), 'acme', 'none', '{}', now() - interval '10 minutes')`,
    )
    clock.advance(60_000)

    const other = await open({ migrations: [NOTES, STARS] })
    other.health.register('disk', () => ({ status: 'fail', message: 'disk full' }))
    const value = await scraped(other)
    expect(value('multitenancy_health_check{check="backoffice"}')).toBe(1)
    expect(value('multitenancy_health_check{check="disk"}')).toBe(0)
    expect(value('multitenancy_health_check_duration_seconds{check="backoffice"}')).toBeGreaterThan(0)
    expect(value('multitenancy_backup_failing_tenants')).toBe(1)
    expect(value('multitenancy_backup_overdue_tenants')).toBe(1)
    expect(value('multitenancy_backup_newest_age_seconds')).toBeLessThan(3_600)
    expect(value('multitenancy_migration_pending_tenants')).toBe(3)
    expect(value('multitenancy_webhook_unattended_deliveries')).toBeGreaterThan(0)
    expect(value('multitenancy_queue_unattended_jobs')).toBeGreaterThanOrEqual(3)
    expect(value('multitenancy_dead_letters{queue="tenantry.BackupTenant"}')).toBe(1)
    expect(value('multitenancy_audit_unsealed_entries')).toBeGreaterThan(0)
    expect(value('multitenancy_audit_unsealed_age_seconds')).toBeGreaterThan(0)
    expect(value('multitenancy_outbox_oldest_seconds{placement="main"}')).toBeGreaterThan(500)
    expect(value('multitenancy_doctor_findings{severity="error"}')).toBeUndefined()
  })

  test('show no fault while all work is done', async () => {
    const { tenancy, open } = await opened('all')
    await installed(tenancy, { id: 'acme', name: 'Acme' })
    await tenancy.auditLogs.sealer.seal(new AbortController().signal)
    await tenancy.kernel.jobs.send(ExamineInstallation, {})
    await eventually(async () => expect(await tenancy.kernel.store.get(null, 'doctor')).not.toBeNull())

    const other = await open({ role: 'api' })
    const value = await scraped(other)
    expect(value(`multitenancy_build_info{version="${VERSION}"}`)).toBe(1)
    for (const check of ['backoffice', 'store', 'circuits', 'logins'])
      expect(value(`multitenancy_health_check{check="${check}"}`), check).toBe(1)
    for (const name of [
      'backup_failing_tenants',
      'backup_overdue_tenants',
      'migration_pending_tenants',
      'webhook_unattended_deliveries',
      'queue_unattended_jobs',
      'audit_unsealed_entries',
      'audit_unsealed_age_seconds',
      'doctor_findings{severity="error"}',
      'doctor_findings{severity="warn"}',
    ])
      expect(value(`multitenancy_${name}`), name).toBe(0)
    expect(value('multitenancy_backup_newest_age_seconds')).toBeUndefined()
    expect(value('multitenancy_doctor_age_seconds')).toBeGreaterThanOrEqual(0)
    const again = await scraped(other)
    expect(again('multitenancy_cached_counts_age_seconds{series="multitenancy_tenants_total"}')).toBeGreaterThan(0)
  })

  test('count all findings of the doctor, also those that its report does not list', async () => {
    const { tenancy, open } = await opened('all')
    const many = Array.from(
      { length: 60 },
      () => ({ severity: 'info', code: 'many.i', message: '', remedy: '' }) as const,
    )
    tenancy.doctor.register({ name: 'many', summary: '', examine: () => many }, undefined)
    await tenancy.kernel.jobs.send(ExamineInstallation, {})
    await eventually(async () => expect(await tenancy.kernel.store.get(null, 'doctor')).not.toBeNull())
    const value = await scraped(await open({ role: 'api' }))
    expect(value('multitenancy_doctor_findings{severity="info"}')).toBe(60)
  })

  test('are the same number for one tenant and for 5,000 installed tenants', async () => {
    const count = async (tenants: number) => {
      const done = { queue: 'tenantry.InstallTenant', waiting: 0, active: 0, completed: 1, failed: 0, delayed: 0 }
      const counts = async () => Array.from({ length: tenants }, (_, index) => ({ ...done, tenantId: `t-${index}` }))
      const state = async () => ({ waiting: [], isWorking: true, silent: [], deadLetters: [], unscheduled: [] })
      const labels = new TenantLabels(1_000)
      const series = jobSeries({ counts, state }, labels)
      onTestFinished(() => {
        for (const { stop } of series) stop?.()
      })
      const samples = await Promise.all(series.map(async ({ collect }) => [...(await collect())]))
      return { samples: samples.flat().length, dropped: labels.dropped }
    }
    expect(await count(5_000)).toEqual(await count(1))
  })
})
