/**
 * `npm run tour`: the main features in a minute.
 *
 * - Starts a service in a temporary directory, creates a dozen tenants over its HTTP API, and uses them as a host does,
 *   through the library on the same database. Prints every call with its response; the first unexpected response ends
 *   the tour with exit code 1.
 * - On success, failure and Ctrl-C it stops the service and removes the directory.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTenancy } from 'tenantry'
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
// The reader has closed the pipe (`| head`).
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
    signal.aborted ? '\ninterrupted' : `\nThe tour failed: ${error instanceof Error ? error.message : error}`,
  )
} finally {
  await rm(directory, { recursive: true, force: true })
}

async function walk(): Promise<void> {
  heading('Start the service with its own PostgreSQL server in a temporary directory')
  const start = performance.now()
  const service = await startService(directory, signal)
  try {
    act('tenantry serve', `${service.url}, after ${seconds(start)} s`)
    say(`Paths below are relative to ${PREFIX}; each call has the header x-admin-token.`)
    await useAsHost(service)
  } finally {
    await service.stop()
  }
  heading('Stop')
  act('SIGTERM', `exit code ${await service.stop()}`)
  expectThat((await service.stop()) === 0, 'the service exits with 0 after SIGTERM')
}

/** A host on the service's database that runs no jobs and provisions no tenants. */
async function useAsHost(service: Service): Promise<void> {
  const tenancy = await createTenancy({
    ...service.settings, // those of the service: processes compare them
    database: { url: service.databaseUrl },
    appKey: service.appKey,
    health: { critical: ['backoffice'] },
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
