/** The application key changes, and what was sealed under the former one is sealed anew. */
import { expect, inject, test } from 'vitest'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { createSecrets } from '../src/kernel/crypto.ts'
import { createLogger } from '../src/kernel/logger.ts'
import { reseal } from '../src/kernel/resealing.ts'
import { auditLogs } from '../src/satellites/audit-logs/index.ts'
import { webhooks } from '../src/satellites/webhooks/index.ts'
import { createTenancy } from '../src/tenancy.ts'
import { createTestDatabase } from '../src/testing/database.ts'

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')

test('secrets of webhooks and the key of the audit log outlive the key that they were sealed under', async () => {
  const { url, drop } = await createTestDatabase(inject('postgresUrl'))
  const satellites = [auditLogs(), webhooks({ bridge: false })] as const
  const open = (appKey: string, oldAppKeys: string[] = []) =>
    createTenancy({
      database: { url },
      appKey,
      oldAppKeys,
      isolation: [schemaPg()],
      satellites,
      role: 'api',
      logger: createLogger({ level: 'silent' }),
    })
  const resealed = async (
    { kernel: { database, ...kernel } }: Awaited<ReturnType<typeof open>>,
    secrets = kernel.secrets,
  ) => {
    const all = []
    for (const column of satellites.flatMap(({ sealed = [] }) => sealed)) {
      all.push(await reseal(database, secrets, column, AbortSignal.timeout(10_000)))
    }
    return all.map(({ table, column, resealed, current, failed }) => [`${table}.${column}`, resealed, current, failed])
  }
  try {
    const first = await open(keyOf(1))
    await first.webhooks.create(null, { url: 'https://example.com/', events: ['*'] })
    const { webhookId } = await first.webhooks.create(null, { url: 'https://example.com/', events: ['*'] })
    await first.webhooks.rotateSecret(null, webhookId)
    await first.tenants.create({ id: 'acme', name: 'Acme' })
    await first.auditLogs.sealer.seal()
    expect(await resealed(first, createSecrets(keyOf(3)))).toEqual([
      ['audit_state.secret', 0, 0, 1],
      ['webhook_subscriptions.secret', 0, 0, 2],
      ['webhook_subscriptions.previous_secret', 0, 0, 1],
    ])
    await first.stop()

    const second = await open(keyOf(2), [keyOf(1)])
    expect(await resealed(second)).toEqual([
      ['audit_state.secret', 1, 0, 0],
      ['webhook_subscriptions.secret', 2, 0, 0],
      ['webhook_subscriptions.previous_secret', 1, 0, 0],
    ])
    expect((await resealed(second)).map(([, resealed]) => resealed)).toEqual([0, 0, 0])
    await second.stop()

    const third = await open(keyOf(2))
    await third.tenants.update('acme', { name: 'Acme Ltd' })
    await third.auditLogs.sealer.seal()
    expect(await third.auditLogs.verify()).toMatchObject({ ok: true })
    await third.webhooks.rotateSecret(null, webhookId)
    await third.stop()
  } finally {
    await drop()
  }
})
