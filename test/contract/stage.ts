/** Where the cases are carried out: tenancies on one database, none of which works on jobs unless told. */
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { catalogueOf } from '../../src/service/catalogue.ts'
import { satellites } from '../../src/service/main.ts'
import type { TenancyConfig } from '../../src/tenancy.ts'
import { type Answer, type Api, FAILING, openApi, type Sent } from './api.ts'
import { breaches, type Described } from './document.ts'
import { ledger } from './ledger.ts'
import type { Case, Stage } from './row.ts'

export const catalogue = catalogueOf(satellites)

export interface OpenStage extends Stage {
  readonly url: string
  open(options: Partial<TenancyConfig>): Promise<Api>
  end(): Promise<void>
}

export async function openStage(postgresUrl: string): Promise<OpenStage> {
  const options = { role: 'api', tenants: { retentionDays: 0 } } as const
  const first = await openApi(postgresUrl, options)
  const open = async (more: Partial<TenancyConfig>) => {
    const api = await first.open(more)
    ledger.listen(api.tenancy, catalogue.events)
    return api
  }
  const getPlan = () => Promise.reject(new Error('the billing system is down'))
  const plansOfHost = await open({ plans: { defaultPlan: 'free', definitions: { free: { limits: {} } }, getPlan } })
  ledger.listen(first.tenancy, catalogue.events)
  return {
    api: first,
    plansOfHost,
    url: first.url,
    open,
    end: first.end,
    async prepare({ tenant = 'active', given = [] }) {
      const id = `${tenant === 'failed' ? FAILING : 'case'}-${randomUUID()}`
      if (tenant !== 'none') await first.tenancy.tenants.create({ id, name: 'Acme' })
      if (tenant === 'active' || tenant === 'failed') {
        await first.tenancy.tenants.installation.install(id, { isLast: true })
      }
      for (const line of given) {
        const [method = '', path = '', ...words] = filled(line, id).split(' ')
        const { status, text } = await first.call(method, path, words.length > 0 ? { body: words.join(' ') } : {})
        expect(status, `${line}: ${text}`).toBeLessThan(300)
      }
      return id
    },
  }
}

/** Sends the request of a case, made ready before, and holds the answer against the document. */
export async function play(
  api: Api,
  operation: Described,
  { params, query = {}, body }: Case,
  id: string,
  sent: Sent = {},
): Promise<Answer> {
  const values: Readonly<Record<string, string>> = { id, ...params }
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ''))
  const search = new URLSearchParams(filled(query, id)).toString()
  const own = body === undefined ? {} : { body: filled(body, id) }
  const answer = await api.call(operation.method, search ? `${path}?${search}` : path, { ...own, ...sent })
  expect(breaches(operation, answer), `${operation.name}: ${answer.status} ${answer.text}`).toEqual([])
  ledger.noteAnswer(operation, answer)
  return answer
}

/** With the tenant's id in place of `{id}`, wherever it stands. */
export const filled = <T>(value: T, id: string): T => JSON.parse(JSON.stringify(value).replaceAll('{id}', id))
