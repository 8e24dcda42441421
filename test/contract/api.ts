/** The admin API of a tenancy of its own with every satellite, in process: a request goes in, an answer comes out. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { directory } from '../../src/drivers/archives/directory.ts'
import { databasePg } from '../../src/drivers/isolation/database-pg.ts'
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { createHttp, DEFAULT_PREFIX, type Http } from '../../src/http/app.ts'
import type { Satellite } from '../../src/satellite.ts'
import type { Tenancy, TenancyConfig } from '../../src/tenancy.ts'
import type { TenantMigration } from '../../src/tenants/migrations.ts'
import { testTenancy } from '../../src/testing/tenancy.ts'
import { whole } from './whole.ts'

export const TOKENS = {
  admin: 'token-of-an-admin-0123456789',
  read: 'token-of-a-reader-0123456789',
  runtime: 'token-of-a-server-0123456789',
} as const
export type Who = keyof typeof TOKENS | 'nobody'

const ORIGIN = 'http://localhost'

/** A tenant whose id holds this cannot be installed: its migration fails. */
export const FAILING = 'broken'

const MIGRATIONS: readonly TenantMigration[] = [
  {
    name: '0001_notes',
    checksum: '1',
    up: `do $$ begin
           if current_schema() like '%${FAILING}%' then raise exception 'this tenant cannot be'; end if;
         end $$;
         create table notes (text text not null)`,
    down: 'drop table notes',
  },
  {
    name: '0002_stars',
    checksum: '2',
    up: 'alter table notes add stars integer',
    down: 'alter table notes drop stars',
  },
]

export interface Sent {
  readonly who?: Who
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON, unless it is text or bytes. */
  readonly body?: unknown
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Undefined when it is no JSON. */
  readonly json: any
}

export interface Api {
  readonly tenancy: Tenancy
  readonly http: Http
  /** @param path below the prefix, as it is written */
  call(method: string, path: string, sent?: Sent): Promise<Answer>
}

export interface Opened extends Api {
  readonly url: string
  /** Another one on the same database, as another process would have it. */
  open(options?: Partial<TenancyConfig>): Promise<Api>
  end(): Promise<void>
}

/** @param postgresUrl of the server where the database is made, as `inject('postgresUrl')` has it */
export async function openApi(postgresUrl: string, options: Partial<TenancyConfig> = {}): Promise<Opened> {
  const plans = {
    defaultPlan: 'free',
    definitions: { free: { limits: { exports: 10 } }, pro: { limits: { exports: 100 } } },
  }
  const path = await mkdtemp(join(tmpdir(), 'tenantry-contract-'))
  const isolation = () => [schemaPg(), databasePg()] // a driver serves one tenancy
  const every = await whole()
  const { tenancy, url, open, end } = await testTenancy<readonly Satellite[]>(postgresUrl, {
    satellites: every.satellites,
    migrations: MIGRATIONS,
    plans,
    backups: { archives: directory({ path }) },
    isolation: isolation(),
    egress: { allowPrivateNetworks: true, allowHttp: true },
    ...options,
  })
  return {
    ...apiOf(tenancy),
    url,
    async end() {
      await end()
      await every.end()
      await rm(path, { recursive: true, force: true })
    },
    open: async (more) => apiOf(await open({ isolation: isolation(), ...more })),
  }
}

export function apiOf(tenancy: Tenancy): Api {
  const http = createHttp(tenancy, {
    adminTokens: [
      { name: 'admin', token: TOKENS.admin },
      { name: 'reader', token: TOKENS.read, scope: 'read' },
      { name: 'server', token: TOKENS.runtime, scope: 'runtime' },
    ],
  })
  return {
    tenancy,
    http,
    call: async (method, path, { who = 'admin', headers = {}, body } = {}) => {
      const request = new Request(`${ORIGIN}${DEFAULT_PREFIX}${path}`, {
        method,
        headers: {
          ...(who === 'nobody' ? {} : { 'x-admin-token': TOKENS[who] }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        body: body === undefined ? null : isRaw(body) ? body : JSON.stringify(body),
      })
      return answerOf(await http.fetch(request))
    },
  }
}

const isRaw = (body: unknown): body is string | Uint8Array<ArrayBuffer> =>
  typeof body === 'string' || body instanceof Uint8Array

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text()
  const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '') && text !== ''
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined }
}
