/** Stops PostgreSQL under load and starts it again: no false response, no hanging request, and no other restart. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { createHttp, type Http } from '../src/http/app.ts'
import { problemOf } from '../src/http/problem.ts'
import { createLogger } from '../src/kernel/base/logger.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { findPostgresPrograms } from '../src/service/postgres-programs.ts'
import { commandOf, stopPostmaster } from '../src/service/postmaster.ts'
import { createTenancy, type Tenancy } from '../src/tenancy/tenancy.ts'
import { eventually, installed, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'

const TOKEN = 'a-token-for-the-outage'
/** Longer than any response takes: a request that exceeds it hangs. */
const WAIT_TIMEOUT_MS = 15_000
const NOTES = { name: '0001_notes', checksum: '', up: 'create table notes (body text)' }

let directory: string
let postgres: EmbeddedPostgres
let command: string[]
let tenancy: Tenancy
let http: Http

beforeAll(async () => {
  directory = join(await mkdtemp(join(tmpdir(), 'tenantry-outage-')), 'postgres')
  postgres = await startEmbeddedPostgres({ directory, password: 'p', settings: { fsync: 'off' } })
  command = commandOf(postgres.pid).split(' ')
  tenancy = await createTenancy({
    database: { url: postgres.url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    migrations: [NOTES],
    circuit: { halfOpenAfterSeconds: 1 },
    logger: createLogger({ level: 'silent' }),
  })
  http = createHttp(tenancy, { adminTokens: [{ name: 'test', token: TOKEN }] })
})
afterAll(async () => {
  await tenancy.stop()
  const left = await startEmbeddedPostgres({ directory, password: 'p', settings: { fsync: 'off' } })
  await left.stop()
  await rm(join(directory, '..'), { recursive: true })
})

/** Starts the same server on the same port. */
async function startAgain(): Promise<number> {
  const [program = '', ...args] = command
  const child = (await findPostgresPrograms(directory)).spawn(program, args, { detached: true, stdio: 'ignore' })
  child.unref()
  return child.pid ?? 0
}

interface HttpResponse {
  readonly status: number
  readonly type: string | null
  readonly retryAfter: string | null
  readonly code: string | undefined
  /** Whether the request uses a tenant's own rows, which have a circuit. */
  readonly isOfTenant: boolean
}

async function call(method: string, path: string, body?: unknown): Promise<HttpResponse> {
  const headers = { 'x-admin-token': TOKEN, 'content-type': 'application/json', 'idempotency-key': crypto.randomUUID() }
  const request = new Request(`http://tenantry.test/admin/multitenancy${path}`, {
    method,
    headers,
    body: body === undefined ? null : JSON.stringify(body),
  })
  const response = await within(http.fetch(request), `${method} ${path}`)
  const text = await response.text()
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    retryAfter: response.headers.get('retry-after'),
    code: JSON.parse(text).code,
    isOfTenant: false,
  }
}

async function within<T>(work: Promise<T>, what: string): Promise<T> {
  const tooLong = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(new Error(`the request hangs: ${what}`)), WAIT_TIMEOUT_MS)
    work.finally(() => clearTimeout(timer)).catch(() => undefined)
  })
  return Promise.race([work, tooLong])
}

/** Sends requests until it is stopped, and returns the responses. */
function load(requests: readonly (() => Promise<HttpResponse>)[]) {
  const responses: HttpResponse[] = []
  let isFinished = false
  const pending = requests.map(async (request) => {
    while (!isFinished) {
      responses.push(await request())
      await nextTurn() // an open circuit responds immediately
    }
  })
  return {
    responses,
    async end() {
      isFinished = true
      await Promise.all(pending)
    },
  }
}

const isServed = async () => expect((await call('GET', '/tenants')).status).toBe(200)

test.each([
  ['is stopped by a fast shutdown', 'SIGINT'],
  ['is stopped immediately, and recovers', 'SIGQUIT'],
] as const)(
  'PostgreSQL %s',
  async (_, signal) => {
    const { id } = await installed(tenancy, { name: 'Queried' })
    const { id: repaired } = await installed(tenancy, { name: 'In and out of maintenance' })
    const running = Number(await pidOfPostgres())
    const { responses, end } = load([
      () => call('GET', '/tenants?limit=5'),
      () => call('GET', `/tenants/${id}`),
      () => call('PATCH', `/tenants/${id}`, { metadata: { at: crypto.randomUUID() } }),
      () => call('PUT', `/tenants/${repaired}/maintenance`),
      () => call('DELETE', `/tenants/${repaired}/maintenance`),
      () => call('POST', '/tenants', { name: 'Under load', domains: [`${crypto.randomUUID()}.example`] }),
      () => queried(id),
    ])
    await eventually(() => expect(responses.length).toBeGreaterThan(50))
    process.kill(running, signal)
    await eventually(() => expect(responses.filter(({ status }) => status === 503).length).toBeGreaterThan(50), 20_000)
    await stopPostmaster(directory, running, () => undefined)
    await startAgain()
    await eventually(isServed, 20_000)
    await eventually(async () => expect((await queried(id)).status).toBe(200), 20_000)
    const before = responses.length
    await eventually(() => expect(responses.length).toBeGreaterThan(before + 100))
    await end()

    const refused = responses.filter(({ status }) => status >= 400)
    for (const answer of refused) {
      expect(answer).toEqual({
        isOfTenant: expect.any(Boolean),
        status: 503,
        type: 'application/problem+json',
        retryAfter: expect.stringMatching(/^\d+$/),
        code: expect.stringMatching(/^E_(DEPENDENCY_UNAVAILABLE|CIRCUIT_OPEN)$/),
      })
    }
    const ofAdmin = refused.filter(({ isOfTenant }) => !isOfTenant)
    expect(new Set(ofAdmin.map(({ code }) => code))).toEqual(new Set(['E_DEPENDENCY_UNAVAILABLE']))
    expect(responses.slice(-7).map(({ status }) => status >= 500)).not.toContain(true)

    await eventually(() => expect(tenancy.kernel.database.isListening).toBe(true))
    expect((await installed(tenancy, { name: 'After' })).status).toBe('active')
    const other = await createTenancy({
      database: { url: postgres.url },
      appKey: TEST_APP_KEY,
      isolation: [schemaPg()],
      role: 'api',
      logger: createLogger({ level: 'silent' }),
    })
    await eventually(() => tenancy.tenant(id))
    await other.tenants.suspend(id)
    await eventually(() => expect(tenancy.tenant(id)).rejects.toMatchObject({ code: 'E_TENANT_SUSPENDED' }))
    await other.stop()
  },
  90_000,
)

const pidOfPostgres = async (): Promise<string> => {
  const { rows } = await tenancy.kernel.database.sql(
    `select split_part(pg_read_file('postmaster.pid'), e'\\n', 1) as pid`,
  )
  return rows[0].pid
}

/** Calls a route of the host that queries a tenant's storage. */
async function queried(id: string): Promise<HttpResponse> {
  try {
    const { db } = await within(tenancy.tenant(id), 'a tenant')
    await within(db.insertInto('notes').values({ body: 'x' }).execute(), 'a statement')
    return { status: 200, type: null, retryAfter: null, code: undefined, isOfTenant: true }
  } catch (error) {
    const { status, headers, body } = problemOf(error) ?? { status: 500, headers: {}, body: { code: String(error) } }
    return {
      status,
      type: headers['content-type'] ?? null,
      retryAfter: headers['retry-after'] ?? null,
      code: String(body.code),
      isOfTenant: true,
    }
  }
}
