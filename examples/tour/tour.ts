/**
 * `npm run tour`: the main job in a minute. A service is started in a temporary directory, a dozen customers become tenants
 * over its HTTP API, and this program uses them as a host does, through the library, on the same database. Every call is
 * printed with its answer; the first that is not as expected ends the tour with exit code 1.
 *
 * However it ends, by itself, by a fault or by Ctrl-C, the service is stopped and the directory removed.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTenancy, schemaPg } from 'tenantry'
import { AdminApi, PREFIX } from './admin-api.ts'
import { audit } from './chapters/audit.ts'
import { createTenants } from './chapters/create-tenants.ts'
import { isolation } from './chapters/isolation.ts'
import { lifecycle } from './chapters/lifecycle.ts'
import { migration } from './chapters/migration.ts'
import { operation } from './chapters/operation.ts'
import { rows } from './chapters/rows.ts'
import { expectThat } from './expectations.ts'
import { act, heading, say } from './print.ts'
import { type Service, startService } from './service.ts'

const INTERRUPTED = 130
const CHAPTERS = [createTenants, rows, isolation, migration, lifecycle, audit, operation]

const interruption = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => interruption.abort())
// Whoever read this has gone (`| head`).
process.stdout.on('error', () => interruption.abort())
const { signal } = interruption

const directory = await mkdtemp(join(tmpdir(), 'tenantry-tour-'))
const startedAt = performance.now()
try {
  await walk()
  console.log(`\nThat was the tour, in ${seconds(startedAt)} s. Start your own with: npm start`)
} catch (error) {
  process.exitCode = signal.aborted ? INTERRUPTED : 1
  console.error(
    signal.aborted ? '\ninterrupted' : `\nThe tour ends here: ${error instanceof Error ? error.message : error}`,
  )
} finally {
  await rm(directory, { recursive: true, force: true })
}

async function walk(): Promise<void> {
  heading('Start the service, with a PostgreSQL of its own in a temporary directory')
  const start = performance.now()
  const service = await startService(directory, signal)
  try {
    act('tenantry serve', `${service.url}, after ${seconds(start)} s`)
    say(`Paths below are relative to ${PREFIX}; each call carries the header x-admin-token.`)
    await useAsHost(service)
  } finally {
    await service.stop()
  }
  heading('Stop')
  act('SIGTERM', `the service ended with ${await service.stop()}`)
  expectThat((await service.stop()) === 0, 'the service ends with 0 when it is asked to')
}

/** A host that is not the service, on the same database: it makes no tenants and works on no jobs. */
async function useAsHost(service: Service): Promise<void> {
  const tenancy = await createTenancy({
    database: { url: service.databaseUrl },
    appKey: service.appKey,
    isolation: [schemaPg()],
    role: 'api',
  })
  try {
    const api = new AdminApi(service.url, service.adminToken, signal)
    for (const chapter of CHAPTERS) {
      signal.throwIfAborted()
      await chapter({ api, service, tenancy })
    }
  } finally {
    await tenancy.stop()
  }
}

function seconds(since: number): string {
  return ((performance.now() - since) / 1_000).toFixed(1)
}
