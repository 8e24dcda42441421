/** Runs contract cases on tenancies that share a database; workers run only where a case needs them. */
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import type { RequestLimits } from '../../src/http/app.ts'
import { defineError } from '../../src/kernel/base/errors.ts'
import { catalogueOf } from '../../src/service/catalogue.ts'
import { satellites } from '../../src/service/main.ts'
import type { Tenancy, TenancyConfig } from '../../src/tenancy/tenancy.ts'
import {
  TenantBackedUp,
  TenantCloned,
  TenantMoved,
  TenantProvisioned,
  TenantRestored,
} from '../../src/tenants/tenant/events.ts'
import { BackupTenant } from '../../src/tenants/transfers/requests/job-types.ts'
import { startReceiver } from '../support/receiver.ts'
import { openApi } from './api.ts'
import type { Api, HttpResponse, Sent } from './calls.ts'
import { CoverageRecord } from './coverage-record.ts'
import { breaches, type Described } from './document.ts'
import { merged } from './parts.ts'
import { type Case, FAILING, type Names, REFUSED, type Runner } from './row.ts'

export const catalogue = catalogueOf(satellites)
const happenings = merged('happenings')

/** Tenants for which a listener of the host rejects the effects of jobs with a foreign error. */
const refusedTenants = new Set<string>()
const Refused = defineError('E_OF_THE_HOST', 409, 'Refused')

function refuse({ kernel: { events } }: Tenancy): void {
  const refuseFor = (id: string) => {
    if (refusedTenants.has(id)) throw Refused('Rejected by the host.')
  }
  for (const type of [TenantProvisioned, TenantBackedUp, TenantMoved]) {
    events.subscribe(type, 'within', ({ tenantId }) => refuseFor(tenantId))
  }
  events.subscribe(TenantCloned, 'within', ({ sourceId }) => refuseFor(sourceId))
  events.subscribe(TenantRestored, 'within', ({ tenantId, from }) => {
    if (from === 'backup') refuseFor(tenantId)
  })
}

export interface OpenRunner extends Runner {
  readonly url: string
  readonly coverageRecord: CoverageRecord
  open(options: Partial<TenancyConfig>, requests?: RequestLimits): Promise<Api>
  /** Like `prepare`, but once for all cases with the same preparation: their requests change nothing. */
  prepareUnchanged(one: Case): Promise<Names>
  end(): Promise<void>
}

/** Whether a line of `given` is a request, and not a happening. */
const isRequest = (line: string) => /^[A-Z]+ \//.test(line)

export async function openRunner(postgresUrl: string): Promise<OpenRunner> {
  const options = { role: 'api', tenants: { retentionDays: 0 } } as const
  const receiver = await startReceiver(({ path }) => ({ status: Number(path.slice(1)) || 200 }))
  const first = await openApi(postgresUrl, options)
  const coverageRecord = new CoverageRecord()
  const open = async (more: Partial<TenancyConfig>, requests?: RequestLimits) => {
    const api = await first.open(more, requests)
    coverageRecord.listen(api.tenancy, catalogue.events)
    refuse(api.tenancy)
    return api
  }
  const getPlan = () => Promise.reject(new Error('the billing system is down'))
  let plansOfHost: Promise<Api> | undefined
  const unchanged = new Map<string, Promise<Names>>()
  coverageRecord.listen(first.tenancy, catalogue.events)
  refuse(first.tenancy)
  const runner: OpenRunner = {
    api: first,
    plansOfHost() {
      const definitions = { free: { limits: {} }, pro: { limits: {} } }
      plansOfHost ??= open({ plans: { defaultPlan: 'free', definitions, getPlan }, backups: undefined })
      return plansOfHost
    },
    url: first.url,
    coverageRecord,
    open,
    async end() {
      await first.end()
      await receiver.close()
    },
    prepareUnchanged(one) {
      const { tenant, placement, isolation, given = [], backup } = one
      if (!given.every(isRequest)) return runner.prepare(one)
      const key = JSON.stringify([tenant, placement, isolation, given, backup])
      const names = unchanged.get(key) ?? runner.prepare(one)
      unchanged.set(key, names)
      return names
    },
    async prepare({ tenant = 'active', given = [], backup, placement, isolation }) {
      const id = `${tenant === 'failed' ? FAILING : 'case'}-${randomUUID()}`
      if (tenant !== 'none') await first.tenancy.tenants.create({ id, name: 'Acme' })
      if (tenant === 'active' || tenant === 'failed') {
        await first.tenancy.tenants.installation.install(id, { isLast: true })
      }
      let names: Names = { id, receiver: receiver.url }
      if (backup) names = { ...names, backupId: await backedUp(first, id, backup) }
      const moved =
        'update multitenancy.tenants set placement = coalesce($2, placement), isolation = coalesce($3, isolation) where id = $1'
      if (placement || isolation) await first.tenancy.kernel.database.sql(moved, [id, placement, isolation])
      for (const line of given) {
        if (line === REFUSED) {
          refusedTenants.add(names.id ?? '')
          continue
        }
        const happening = happenings[line]
        if (happening) {
          names = { ...names, ...(await happening(runner, names)) }
          continue
        }
        const [method = '', path = '', ...words] = filled(line, names).split(' ')
        const response = await first.call(method, path, words.length > 0 ? { body: words.join(' ') } : {})
        expect(response.status, `${line}: ${response.text}`).toBeLessThan(300)
        names = { ...textsOf(response.json), ...names, given: response.json?.id ?? names.given }
      }
      return names
    },
  }
  return runner
}

async function backedUp(
  { tenancy }: Api,
  tenantId: string,
  how: 'completed' | 'failed' | 'forgotten',
): Promise<string> {
  const { transfers } = tenancy.tenants
  const { database, jobs } = tenancy.kernel
  const { id } = await transfers.backups.create(tenantId)
  if (how === 'failed') {
    // As if every attempt had been killed.
    await jobs.cancel(BackupTenant, id)
    await database.sql(
      `update multitenancy.transfers set attempts = 10, lease_until = now() - interval '1 hour' where id = $1`,
      [id],
    )
    await transfers.recover()
  } else {
    await transfers.work(id, { isLast: true, signal: new AbortController().signal })
  }
  const { state } = await transfers.settled(tenantId, id, AbortSignal.timeout(20_000)) // a worker may have been first
  expect(state).toBe(how === 'failed' ? how : 'completed')
  if (how === 'forgotten') {
    await database.sql('delete from multitenancy.transfers where id = $1', [id])
    await database.sql('delete from multitenancy.backups where id = $1', [id])
  }
  return id
}

/** Path of a case, below the prefix. */
export function pathOf({ path }: Described, { params = {}, query = {} }: Case, names: Names): string {
  const values = { ...names, ...filled(params, names) }
  const segments = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ''))
  const search = new URLSearchParams(filled(query, names)).toString()
  return search ? `${segments}?${search}` : segments
}

/** Sends the request of a prepared case, and checks the response against openapi.json. */
export async function play(
  api: Api,
  operation: Described,
  one: Case,
  names: Names,
  sent: Sent = {},
): Promise<HttpResponse> {
  const own = one.body === undefined ? {} : { body: filled(one.body, names) }
  const headers = { ...one.headers, ...sent.headers }
  const response = await api.call(operation.method, pathOf(operation, one, names), { ...own, ...sent, headers })
  expect(breaches(operation, response), `${operation.name}: ${response.status} ${response.text}`).toEqual([])
  return response
}

const textsOf = (json: object = {}): Names =>
  Object.fromEntries(Object.entries(json).filter(([, value]) => typeof value === 'string'))

/** Replaces names in a value, at any depth. */
export function filled<T>(value: T, names: Names): T {
  const text = JSON.stringify(value).replaceAll(/\{(\w+)\}/g, (name, key: string) => names[key] ?? name)
  return JSON.parse(text)
}
