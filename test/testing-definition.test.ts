/** `testTenancy` on a definition, and its errors before anything is created. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { redisStore } from '../src/drivers/store/redis.ts'
import { auditLogs } from '../src/satellites/audit-logs/index.ts'
import { quotas } from '../src/satellites/quotas/index.ts'
import { defineTenancy } from '../src/service/definition.ts'
import { installed, testTenancy } from '../src/testing/base/tenancy.ts'

const UNREACHABLE = 'postgres://tester@use-the-test-server.invalid:1/x'

/** A folder with `tenancy.ts`, and migrations below it. */
async function moduleWithMigrations(): Promise<{ url: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'tenantry-testing-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(
    join(folder, '0001_notes.sql'),
    '-- up\ncreate table notes (title text);\n-- down\ndrop table notes;\n',
  )
  return { url: pathToFileURL(join(folder, 'tenancy.ts')).href }
}

test('a definition has typed satellites, its plans, and migrations relative to its file', async () => {
  vi.stubEnv('DATABASE_URL', UNREACHABLE)
  vi.stubEnv('TENANTRY_ROLE', 'worker')
  onTestFinished(() => void vi.unstubAllEnvs())
  const definition = defineTenancy(
    {
      isolation: [schemaPg()],
      migrations: '.',
      appKey: Buffer.alloc(32, 9).toString('base64'),
      database: { url: UNREACHABLE },
      placements: { eu: { url: UNREACHABLE } },
      store: redisStore({ url: 'redis://use-the-test-store.invalid:1' }),
      plans: { defaultPlan: 'free', definitions: { free: { limits: { exports: 1 } } } },
      satellites: [auditLogs(), quotas()],
    },
    await moduleWithMigrations(),
  )
  const { tenancy, end } = await testTenancy(inject('postgresUrl'), definition)
  onTestFinished(end)

  await installed(tenancy, { id: 'acme', name: 'Acme' })
  const acme = await tenancy.tenant('acme')
  await acme.db.insertInto('notes').values({ title: 'hello' }).execute()
  expect((await tenancy.quotas.decide('acme', 'exports')).limit).toBe(1)
  expect((await tenancy.quotas.decide('acme', 'exports')).allowed).toBe(false)
  expect((await tenancy.auditLogs.list('acme')).data).not.toEqual([])
})

test('options replace values of a definition', async () => {
  const definition = defineTenancy({
    isolation: [schemaPg()],
    plans: { defaultPlan: 'free', definitions: { free: { limits: {} } } },
  })
  const plans = { defaultPlan: 'pro', definitions: { pro: { limits: {} } } }
  const { tenancy, end } = await testTenancy(inject('postgresUrl'), definition, { plans })
  onTestFinished(end)
  await installed(tenancy, { id: 'acme', name: 'Acme' })
  expect((await tenancy.tenant('acme')).plan).toBe('pro')
})

test('reports a missing folder of migrations before it connects to the server', async () => {
  const definition = defineTenancy({ isolation: [schemaPg()], migrations: './absent' }, import.meta)
  await expect(testTenancy(UNREACHABLE, definition)).rejects.toThrow(
    `migrations: folder ${join(import.meta.dirname, 'absent')} not found`,
  )
  await expect(testTenancy(UNREACHABLE, { migrations: './absent' })).rejects.toThrow(
    `The folder of migrations ${join(process.cwd(), 'absent')} was not found`,
  )
})
