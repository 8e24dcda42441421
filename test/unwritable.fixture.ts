/** The service as a process on its own PostgreSQL server, for drills in which that server cannot store data. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Child, type Program, programWith } from '../src/cli/program.fixture.ts'
import { startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { databaseUrl } from '../src/testing/base/database.ts'
import { TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { query } from './postgres-15.fixture.ts'

const TOKEN = 'a-token-for-the-drill'
const MIGRATIONS = join(import.meta.dirname, '../examples/migrations')

export interface Drill {
  readonly tenantry: Program
  readonly service: Child
  readonly url: string
  /** @param at method and path, such as `GET /readyz` */
  call(at: string, body?: unknown, headers?: Record<string, string>): Promise<Response>
  /** @param at method and path within the admin API */
  api(at: string, body?: unknown, headers?: Record<string, string>): Promise<Response>
  end(): Promise<void>
}

/** @param databaseUrl of the backoffice. @param placements further servers of tenants, by name */
export async function startDrill(
  backofficeUrl: string,
  placements: Record<string, { url: string }> = {},
): Promise<Drill> {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-drill-'))
  const config = join(directory, 'tenantry.config.json')
  await writeFile(config, JSON.stringify({ placements, migrations: MIGRATIONS }))
  const tenantry = programWith({
    DATABASE_URL: backofficeUrl,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: TOKEN,
    TENANTRY_DATA_DIR: join(directory, 'data'),
    TENANTRY_CONFIG: config,
    PORT: '0',
    LOG_LEVEL: 'warn',
  })
  const service = tenantry.start(['serve'])
  const [, url = ''] = await service.says(/Admin API +(http:\/\/[^/]+)/)
  const call: Drill['call'] = (at, body, headers) => {
    const [method = '', path] = at.split(' ')
    return fetch(`${url}${path}`, {
      method,
      headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json', ...headers },
      body: body === undefined ? null : JSON.stringify(body),
    })
  }
  return {
    tenantry,
    service,
    url,
    call,
    api: (at, body, headers) => call(at.replace(' ', ' /admin/multitenancy'), body, headers),
    async end() {
      await tenantry.killAll()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

export interface Server {
  readonly url: string
  /** Runs statements in the database `postgres`. */
  sql(text: string): Promise<any[]>
  urlOf(database: string): string
  end(): Promise<void>
}

export async function startServer(): Promise<Server> {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-server-'))
  const settings = { fsync: 'off', synchronous_commit: 'off' }
  const postgres = await startEmbeddedPostgres({ directory: join(directory, 'postgres'), password: 'drill', settings })
  const { url } = postgres
  return {
    url,
    sql: (text) => query(databaseUrl(url, 'postgres'), text),
    urlOf: (database) => databaseUrl(url, database),
    async end() {
      await postgres.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Status, code and `Retry-After` of a response. */
export async function problemOf(response: Response) {
  const { code } = (await response.json()) as { code?: string }
  return { status: response.status, code, retryAfter: response.headers.get('retry-after') }
}

export const REJECTED_WRITE = { status: 503, code: 'E_DEPENDENCY_UNAVAILABLE', retryAfter: '5' }

/** The tenants in a status. */
export async function tenantsIn(drill: Drill, status: string): Promise<string[]> {
  const response = await drill.api(`GET /tenants?status=${status}&limit=100`)
  const { data } = (await response.json()) as { data: { id: string }[] }
  return data.map(({ id }) => id).toSorted()
}
