/**
 * Drills of alerts: a service with a Prometheus and steady traffic on its admin API, a fault, its alert and no other, the repair, and the
 * end of the alert.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { expect } from 'vitest'
import { type ConfigFile, loadConfig } from '../src/service/config.ts'
import { type Service, satellites, startService } from '../src/service/main.ts'
import { eventually, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { programPath } from './setup/not-run.ts'
import { type Prometheus, startPrometheus } from './support/prometheus.ts'

const TOKEN = 'a-token-for-the-drill'
const API = '/admin/multitenancy'
const FIRES_WITHIN_MS = 100_000
/** More than the time and the window of a burn-rate alert. */
const WINDOWS_MS = 30_000
/** Between two requests of the traffic. */
const PAUSE_MS = 250

export interface Drill {
  readonly service: Service
  readonly directory: string
  /** Starts another process on the same database. */
  start(role: 'api' | 'worker'): Promise<Service>
  call(method: string, path: string, body?: object): Promise<any>
  /** Causes a fault, expects exactly this alert until the repair, and no alert afterwards. Resolves with the number of failed requests. */
  run(alert: string, fault: () => unknown, repair: () => unknown): Promise<number>
  end(): Promise<void>
}

interface Options {
  readonly databaseUrl: string
  readonly role?: 'all' | 'api'
  readonly env?: Readonly<Record<string, string>>
  readonly config?: ConfigFile
}

export async function openDrill({ databaseUrl, role = 'all', env = {}, config = {} }: Options): Promise<Drill> {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-drill-'))
  const ends: (() => Promise<unknown>)[] = [() => rm(directory, { recursive: true, force: true })]
  const end = async () => {
    for (const one of ends.splice(0).toReversed()) await one()
  }
  const start = async (role: 'all' | 'api' | 'worker') => {
    const file = join(directory, 'tenantry.config.json')
    await writeFile(file, JSON.stringify(config))
    const all = {
      DATABASE_URL: databaseUrl,
      TENANTRY_ADMIN_TOKEN: TOKEN,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_DATA_DIR: join(directory, role),
      TENANTRY_ROLE: role,
      PORT: '0',
      LOG_LEVEL: 'silent',
      ...env,
    }
    const service = await startService(await loadConfig({ env: all, directory, file, satellites }))
    ends.push(() => service.stop())
    return service
  }
  try {
    const service = await start(role)
    // Recurring jobs depend on the time of day.
    await service.tenancy.kernel.database.sql('delete from multitenancy_jobs.schedule')
    const prometheus = await startPrometheus(programPath('prometheus') ?? '', service.url)
    const traffic = await startTraffic(service)
    ends.push(() => prometheus.stop(), traffic.stop)
    return {
      service,
      directory,
      start,
      call: (method, path, body) => call(service, method, path, body),
      run: (alert, fault, repair) => run(prometheus, traffic, alert, fault, repair),
      end,
    }
  } catch (error) {
    await end()
    throw error
  }
}

async function run(
  prometheus: Prometheus,
  traffic: Traffic,
  alert: string,
  fault: () => unknown,
  repair: () => unknown,
): Promise<number> {
  const before = await prometheus.fired()
  const failedBefore = traffic.failed
  const hasFailed = () => traffic.failed > failedBefore
  expect(await prometheus.active()).toEqual([])
  await fault()
  await eventually(async () => expect(await prometheus.firing()).toEqual([alert]), FIRES_WITHIN_MS)
  if (hasFailed()) await setTimeout(WINDOWS_MS)
  await repair()
  await eventually(async () => expect(await prometheus.active()).toEqual([]), FIRES_WITHIN_MS)
  if (hasFailed()) await setTimeout(WINDOWS_MS)
  expect(await prometheus.fired()).toEqual([...new Set([...before, alert])].toSorted())
  return traffic.failed - failedBefore
}

interface Traffic {
  readonly failed: number
  readonly stop: () => Promise<void>
}

/** Reads and writes several times a second, also while they fail. */
async function startTraffic(service: Service): Promise<Traffic> {
  const subscription = { url: 'https://receiver.example/', events: ['drill.*'] }
  const { webhookId } = await call(service, 'POST', '/webhooks', subscription)
  const stop = new AbortController()
  let failed = 0
  const send = async () => {
    for (let n = 0; !stop.signal.aborted; n++) {
      const results = await Promise.allSettled([
        call(service, 'GET', '/tenants'),
        call(service, 'PUT', `/webhooks/${webhookId}`, { description: `${n}` }),
        setTimeout(PAUSE_MS),
      ])
      failed += results.filter(({ status }) => status === 'rejected').length
    }
  }
  const sending = send()
  return {
    get failed() {
      return failed
    },
    stop() {
      stop.abort()
      return sending
    },
  }
}

async function call({ url }: Service, method: string, path: string, body?: object): Promise<any> {
  const response = await fetch(`${url}${API}${path}`, {
    method,
    headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}
