/** Rotates the application key and encrypts stored secrets again. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { inProcess } from '../src/cli/in-process.fixture.ts'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { createLogger } from '../src/kernel/base/logger.ts'
import { createSecrets } from '../src/kernel/crypto/crypto.ts'
import { reencryptColumn } from '../src/kernel/database/re-encrypt.ts'
import { auditLogs } from '../src/satellites/audit-logs/index.ts'
import { sso } from '../src/satellites/sso/index.ts'
import { webhooks } from '../src/satellites/webhooks/index.ts'
import { createTenancy } from '../src/tenancy/tenancy.ts'
import { createTestDatabase } from '../src/testing/base/database.ts'

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')

test('secrets of webhooks and the key of the audit log remain readable after a rotation', async () => {
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
    for (const column of satellites.flatMap(({ encryptedColumns = [] }) => encryptedColumns)) {
      all.push(await reencryptColumn(database, secrets, column, AbortSignal.timeout(10_000)))
    }
    return all.map(({ table, column, resealed, current, failed }) => [`${table}.${column}`, resealed, current, failed])
  }
  try {
    const first = await open(keyOf(1))
    await first.webhooks.create(null, { url: 'https://example.com/', events: ['*'] })
    const { webhookId } = await first.webhooks.create(null, { url: 'https://example.com/', events: ['*'] })
    await first.webhooks.rotateSecret(null, webhookId)
    const deleted = await first.webhooks.create(null, { url: 'https://example.com/', events: ['*'] })
    await first.webhooks.delete(null, deleted.webhookId)
    await first.tenants.create({ id: 'acme', name: 'Acme' })
    await first.auditLogs.sealer.seal()
    expect(await resealed(first, createSecrets(keyOf(3)))).toEqual([
      ['audit_state.secret', 0, 0, 1],
      ['audit_keys.key', 0, 0, 0],
      ['webhook_subscriptions.secret', 0, 0, 2],
      ['webhook_subscriptions.previous_secret', 0, 0, 1],
    ])
    await first.stop()

    const second = await open(keyOf(2), [keyOf(1)])
    expect(await resealed(second)).toEqual([
      ['audit_state.secret', 1, 0, 0],
      ['audit_keys.key', 0, 0, 0],
      ['webhook_subscriptions.secret', 2, 0, 0],
      ['webhook_subscriptions.previous_secret', 1, 0, 0],
    ])
    expect((await resealed(second)).map(([, resealed]) => resealed)).toEqual([0, 0, 0, 0])
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

test('secrets of a disabled satellite are counted by the doctor and re-encrypted by the command', async () => {
  const { url, drop } = await createTestDatabase(inject('postgresUrl'))
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-keys-'))
  const open = (appKey: string) =>
    createTenancy({
      database: { url },
      appKey,
      isolation: [schemaPg()],
      satellites: [sso(), webhooks({ bridge: false })],
      role: 'api',
      logger: createLogger({ level: 'silent' }),
    })
  const config = join(directory, 'tenantry.config.json')
  const tenantry = inProcess({
    DATABASE_URL: url,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_CONFIG: config,
    TENANTRY_DATA_DIR: join(directory, 'data'),
    TENANTRY_APP_KEY: keyOf(2),
  })
  const ran = async (argv: string[], oldAppKey?: string) => {
    const env = oldAppKey ? { TENANTRY_OLD_APP_KEYS: oldAppKey } : {}
    const { code, stdout } = await tenantry.start([...argv, '--json'], { env, stdin: '' }).ended
    return { code, value: JSON.parse(stdout) }
  }
  const secretsFound = async (oldAppKey?: string) => {
    const { checks } = (await ran(['doctor'], oldAppKey)).value
    const found = checks.filter(({ name }: { name: string }) => name === 'secrets')
    return found.map(({ severity, code, message }: Record<string, string>) => [severity, code, message])
  }
  try {
    const first = await open(keyOf(1))
    const { id } = await first.tenants.create({ id: 'acme', name: 'Acme' })
    const client = { clientId: 'tenantry', clientSecret: 'a secret of the client' }
    await first.sso.update(id, {
      issuer: 'https://id.example',
      redirectUri: 'https://acme.example/callback',
      ...client,
    })
    const { webhookId } = await first.webhooks.create(id, { url: 'https://example.com/', events: ['*'] })
    await first.webhooks.delete(id, webhookId)
    await first.kernel.database.sql(`insert into multitenancy.tenant_logins values ('main', 't1_acme', $1)`, [
      first.kernel.secrets.encrypt('a password', 'tenant_logins main t1_acme'),
    ])
    await first.stop()

    // The secret of a deleted webhook is erased; the audit log was never enabled and has no table.
    const isOff = { sso: false, webhooks: false, auditLogs: false }
    await writeFile(config, JSON.stringify({ satellites: isOff }))
    const which = '1 in sso.client_secret, of a disabled satellite, is encrypted with'
    const logins = '1 in tenant_logins.password, of logins of tenants, is encrypted with'
    // The first start with a former key re-encrypts the secrets that every start needs.
    expect(await secretsFound(keyOf(1))).toEqual([
      ['info', 'secrets.old-key', `${logins} a former application key`],
      ['info', 'secrets.old-key', `${which} a former application key`],
    ])
    expect(await secretsFound()).toEqual([
      ['warn', 'secrets.lost-key', `${logins} an application key that is not configured`],
      ['warn', 'secrets.lost-key', `${which} an application key that is not configured`],
    ])
    const ofLogins = { table: 'tenant_logins', column: 'password', resealed: 0, current: 0, failed: 0 }
    const ofSettings = { table: 'settings', column: 'secret', resealed: 0, current: 0, failed: 0 }
    const ofWebhooks = ['secret', 'previous_secret'].map((column) => ({
      ...{ table: 'webhook_subscriptions', column },
      ...{ resealed: 0, current: 0, failed: 0 },
    }))
    const lost = await ran(['tenant:secrets:reencrypt'])
    expect(lost).toEqual({
      code: 6,
      value: [
        { ...ofLogins, failed: 1 },
        ofSettings,
        { table: 'sso', column: 'client_secret', resealed: 0, current: 0, failed: 1 },
        ...ofWebhooks,
      ],
    })
    const done = await ran(['tenant:secrets:reencrypt'], keyOf(1))
    expect(done).toEqual({
      code: 0,
      value: [
        { ...ofLogins, resealed: 1 },
        ofSettings,
        { table: 'sso', column: 'client_secret', resealed: 1, current: 0, failed: 0 },
        ...ofWebhooks,
      ],
    })
    expect(await secretsFound()).toEqual([])

    const second = await open(keyOf(2))
    const row = await second.sso.records.row(id)
    expect(row && second.sso.records.decryptSecret(row)).toBe('a secret of the client')
    await second.stop()
  } finally {
    await tenantry.close()
    await drop()
    await rm(directory, { recursive: true })
  }
})
