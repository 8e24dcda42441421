/**
 * Checks that an erasure removes all data of a tenant: a marker is written through every part, then searched in all tables of all
 * databases, in the archives, the store, at the payment provider and in the log.
 */
import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { enterContext } from '../../src/kernel/base/context.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { Database } from '../../src/kernel/database/database.ts'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { billing } from '../../src/satellites/billing/index.ts'
import { branding } from '../../src/satellites/branding/index.ts'
import { featureFlags } from '../../src/satellites/feature-flags/index.ts'
import { impersonation } from '../../src/satellites/impersonation/index.ts'
import { metrics } from '../../src/satellites/metrics/index.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import { secret, settings } from '../../src/satellites/settings/index.ts'
import { sso } from '../../src/satellites/sso/index.ts'
import { webhooks } from '../../src/satellites/webhooks/index.ts'
import { type Provider, startProvider } from '../support/provider/provider.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { openTestEnvironment } from '../support/two-servers.ts'

const FIELDS = ['keep', 'encrypt'] as const
/** Each tenant has former storage on the other placement. */
const TENANTS = { schema: 'schema-pg', rows: 'rowscope-pg', database: 'database-pg' } as const
const signal = AbortSignal.timeout(300_000)

const satellitesWith = (provider: Provider, price: string) =>
  [
    auditLogs(),
    billing({
      stripe: { apiKey: provider.apiKey, webhookSecret: 'whsec_1', endpoint: provider.url, maxNetworkRetries: 0 },
      products: { [price]: 'pro' },
    }),
    branding(),
    featureFlags(),
    impersonation(),
    metrics(),
    quotas(),
    settings({ define: { 'mail.from': z.string(), 'mail.password': secret(z.string()) } }),
    sso(),
    webhooks(),
  ] as const
type Environment = Awaited<ReturnType<typeof openTestEnvironment<ReturnType<typeof satellitesWith>>>>

describe.each(FIELDS)('with audit fields: %s', (auditFields) => {
  const log: string[] = []
  let provider: Provider
  let receiver: Receiver
  let price: string
  let environment: Environment

  beforeAll(async () => {
    provider = await startProvider({ searchDelaySeconds: 0 } as never)
    receiver = await startReceiver()
    price = provider.price({ product: provider.product({ name: 'Pro' }).id, amount: 1, interval: 'month' }).id
    environment = await openTestEnvironment(inject('postgresUrl'), {
      satellites: satellitesWith(provider, price),
      plans: { defaultPlan: 'free', definitions: { free: { limits: { calls: 1_000 } }, pro: { limits: {} } } },
      egress: { allowPrivateNetworks: true, allowHttp: true },
      erasure: { auditFields },
      logger: createLogger({ level: 'trace', write: (line: string) => log.push(line) } as never),
    })
  })
  afterAll(async () => {
    await environment?.end()
    await provider?.close()
    await receiver?.close()
  })

  /** Tables with the marker in any row, as `database.schema.table`. */
  async function found(marker: string): Promise<string[]> {
    const tables: string[] = []
    const server = new Database({ url: environment.url }, createLogger({ level: 'silent' }))
    const { rows: named } = await server.sql(
      `select datname as name from pg_database where datname in (current_database(), $1) or datname ~ ('^t[0-9a-z]+_' || (select id from multitenancy.installation) || '_')`,
      [new URL(environment.otherUrl).pathname.slice(1)],
    )
    await server.close()
    for (const { name } of named) {
      const url = new URL(environment.url)
      url.pathname = `/${name}`
      const database = new Database({ url: url.href }, createLogger({ level: 'silent' }))
      const { rows } = await database.sql(
        `select nspname as schema, t.oid::regclass::text as sql, relname as table from pg_class t join pg_namespace n on n.oid = relnamespace
         where relkind = 'r' and nspname !~ '^(pg_|information_schema)'`,
      )
      for (const { schema, sql, table } of rows) {
        const { rows: hits } = await database.sql(`select from ${sql} as one where strpos(one::text, $1) > 0 limit 1`, [
          marker,
        ])
        if (hits.length > 0) tables.push(`${schema}.${table}`)
      }
      await database.close()
    }
    return tables.toSorted()
  }

  /** Writes the marker through every part that stores data of the tenant. */
  async function plant(id: string, isolation: string, marker: string): Promise<{ customerId: string }> {
    const { tenancy } = environment
    const actor = { type: 'user', id: 'u1', name: `${marker}-actor` } as const
    await environment.tenant(id, { isolation }, [marker])
    await enterContext({ requestId: null, actor, ip: '192.0.2.9' }, async () => {
      await tenancy.tenants.update(id, {
        name: `${marker}-name`,
        metadata: { note: marker },
        domains: [`${marker}.example`],
      })
    })
    await tenancy.branding.update(id, { displayName: marker })
    // The target of an audit entry has the key of a flag, and is not encrypted.
    await tenancy.featureFlags.set(id, auditFields === 'keep' ? `flag-${marker}` : 'flag', { enabled: true })
    await tenancy.impersonation.start(id, { userId: marker, reason: marker })
    await tenancy.metrics.increment(id, `pages.${marker}`, 3)
    await tenancy.metrics.flush()
    await tenancy.quotas.setUsage(id, 'calls', 950)
    await tenancy.settings.set(id, 'mail.from', marker)
    await tenancy.settings.set(id, 'mail.password', marker)
    await tenancy.sso.update(id, {
      issuer: receiver.url,
      clientId: marker,
      redirectUri: `https://${id}.example/callback`,
    })
    await tenancy.webhooks.create(id, { url: `${receiver.url}/${marker}`, events: ['*'], description: marker })
    await tenancy.webhooks.create(null, { url: `${receiver.url}/host`, events: ['*'] })
    await tenancy.webhooks.dispatch(id, 'order.paid', { note: marker })
    await tenancy.kernel.store.set(id, `key-${marker}`, marker)
    await tenancy.kernel.database.sql(
      `insert into multitenancy_jobs.job (name, data, group_id, source_name, source_retry_count)
       values ('tenantry.dead-letter', $1, $2, 'tenantry.InstallTenant', 3)`,
      [JSON.stringify({ tenantId: id, note: marker }), id],
    )
    await tenancy.kernel.database.sql(
      `insert into multitenancy.outbox_failed (id, tenant_id, kind, payload, context, posted_at, failed_at, error)
       values ($1, $2, 'changes.record', $3, '{}', now(), now(), 'The entry could not be applied.')`,
      [randomUUID(), id, JSON.stringify({ note: marker })],
    )
    const checkout = await tenancy.billing.checkout(id, {
      priceId: price,
      successUrl: 'https://app.example/paid',
      cancelUrl: 'https://app.example/plans',
    })
    const customerId = provider.completeCheckout(checkout.id as string).customer as string
    await environment.done(await tenancy.tenants.transfers.backups.create(id, { note: marker }))
    await environment.done(await environment.transfers.move(id, { placement: 'other' }))
    const { db } = await tenancy.tenant(id)
    await db
      .insertInto('notes')
      .values({ text: `${marker}-after` })
      .execute()
    return { customerId }
  }

  test.each(Object.entries(TENANTS))(
    'no copy of the tenant %s remains but those in the report',
    async (id, isolation) => {
      const { tenancy } = environment
      const { erasures } = tenancy.tenants
      const marker = `marker${randomUUID().slice(0, 8)}`
      const { customerId } = await plant(id, isolation, marker)
      const before = await found(marker)
      expect(before.length, before.join()).toBeGreaterThan(15)
      expect(await readdir(environment.archives)).toContain(id)
      log.length = 0

      await erasures.request(id, { confirm: id, reason: 'request 4711', billing: 'delete' })
      const erasure = await erasures.settled(id, signal, {
        isDone: ({ state, waitingFor }) => state === 'completed' || waitingFor !== null,
      })
      expect(erasure).toMatchObject({
        state: 'completed',
        waitingFor: null,
        signature: { key: 'audit', isValid: true },
      })

      const partitions = (await found(marker)).filter((table) => !table.startsWith('multitenancy.audit_entries'))
      expect(partitions).toEqual([])
      if (auditFields === 'encrypt') expect(await found(marker)).toEqual([])
      expect(await readdir(environment.archives)).not.toContain(id)
      expect(await tenancy.kernel.store.count(id)).toBe(0)
      expect(await tenancy.billing.dependencies.payments.hasCustomer(customerId)).toBe(false)
      expect(log.filter((line) => line.includes(marker))).toEqual([])

      const { systems = [], expires = [] } = erasure.report ?? {}
      const kept = systems.filter(({ foundAfterwards }) => foundAfterwards > 0)
      expect(kept.map(({ system, kind }) => `${system}: ${kind}`)).toEqual([
        `audit log: ${auditFields === 'keep' ? 'readable' : 'encrypted'} entries`,
      ])
      for (const { found, removed } of systems.filter(({ system }) => system !== 'audit log')) {
        expect(removed).toBe(found)
      }
      expect(systems.map(({ system }) => system)).toEqual(
        expect.arrayContaining([
          'placements',
          'store',
          'archives',
          'payment provider',
          'backoffice',
          'jobs',
          'webhooks',
          'audit log',
        ]),
      )
      expect(expires.length).toBeGreaterThan(4)
      expect(await tenancy.auditLogs.verify()).toMatchObject({ ok: true })
      const { data } = await tenancy.auditLogs.list(id)
      expect(JSON.stringify(data).includes(marker)).toBe(auditFields === 'keep')
    },
  )
})
