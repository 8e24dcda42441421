/** A tenancy with single sign-on that may call loopback addresses, its admin API, and a browser with cookies. */
import { createHttp, DEFAULT_PREFIX, type Http } from '../../http/app.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import type { Tenancy, TenancyConfig } from '../../tenancy/tenancy.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { type SsoLogin, type SsoStartOptions, sso } from './index.ts'
import { CLIENT, type TestProvider } from './provider.fixture.ts'

export type SsoSatellites = [ReturnType<typeof sso>]
type SsoTenancy = Tenancy<SsoSatellites>

export const DEVELOPMENT = { allowPrivateNetworks: true, allowHttp: true } as const
const TOKEN = 'token-of-an-admin-0123456789'
/** Of a request to a provider. Tests with an unresponsive one advance the timers by it. */
export const TIMEOUT_MS = 4_000

export interface HttpResponse {
  readonly status: number
  readonly json: any
}

export interface OpenSso extends TestTenancy<SsoSatellites> {
  readonly clock: FakeClock
  /** All log lines, as text. */
  readonly log: string[]
  readonly changes: EventOf<typeof ChangeRecorded>[]
  /** @param path below the prefix */
  call(method: string, path: string, body?: unknown): Promise<HttpResponse>
  /** An active tenant. */
  tenant(): Promise<string>
  /** A tenant whose users log in at a provider. */
  tenantAt(provider: TestProvider, settings?: Readonly<Record<string, unknown>>): Promise<string>
  /** Starts a login and logs the user in; returns the browser's return to the callback. */
  comeBack(tenantId: string, provider: TestProvider, options?: SsoStartOptions): Promise<CameBack>
  /** A complete login. */
  logIn(tenantId: string, provider: TestProvider, options?: SsoStartOptions): Promise<SsoLogin>
}

export interface CameBack {
  readonly url: string
  readonly cookie: string
  readonly state: string
}

let made = 0

export async function openSso(
  postgresUrl: string,
  config: Partial<TenancyConfig<SsoSatellites>> = {},
): Promise<OpenSso> {
  const clock = fakeClock(new Date()) // the provider's clock is the machine's
  const log: string[] = []
  const opened = await testTenancy<SsoSatellites>(postgresUrl, {
    satellites: [sso({ timeoutMs: TIMEOUT_MS })],
    egress: DEVELOPMENT,
    role: 'api',
    clock,
    logger: createLogger({ level: 'debug', write: (line) => void log.push(line) }),
    ...config,
  })
  const { tenancy } = opened
  const changes: EventOf<typeof ChangeRecorded>[] = []
  tenancy.on(ChangeRecorded, (change) => void changes.push(change))
  // At its first use: a tenancy has one HTTP application, and a test may make its own.
  let application: Http | undefined
  const http = () => (application ??= createHttp(tenancy, { adminTokens: [{ name: 'alice', token: TOKEN }] }))
  const self: OpenSso = {
    ...opened,
    clock,
    log,
    changes,
    async call(method, path, body) {
      const response = await http().fetch(
        new Request(`http://localhost${DEFAULT_PREFIX}${path}`, {
          method,
          headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json' },
          body: body === undefined ? null : JSON.stringify(body),
        }),
      )
      const text = await response.text()
      return { status: response.status, json: text === '' ? undefined : JSON.parse(text) }
    },
    async tenant() {
      const { id } = await tenancy.tenants.create({ id: `tenant-${++made}`, name: 'Acme' })
      await tenancy.tenants.installation.install(id, { isLast: true })
      return id
    },
    async tenantAt({ issuer, redirectUri }, settings = {}) {
      const id = await self.tenant()
      await tenancy.sso.update(id, { issuer, ...CLIENT, redirectUri, enabled: true, ...settings })
      return id
    },
    async comeBack(tenantId, provider, options) {
      const { url, state, setCookie } = await tenancy.sso.start(tenantId, options)
      return { url: await provider.logIn(url), cookie: setCookie.split(';')[0] ?? '', state }
    },
    async logIn(tenantId, provider, options) {
      return tenancy.sso.finish(await self.comeBack(tenantId, provider, options))
    },
  }
  return self
}

export const inCode = (code: string, extras: Readonly<Record<string, unknown>> = {}) => ({ code, extras })
export const rejectedFor = (reason: string) => inCode('E_SSO_FAILED', { reason })

export type { SsoTenancy }
