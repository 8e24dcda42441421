/**
 * Runs a walk of sequential requests. Each response is compared with openapi.json, the lifecycle and the first response
 * of its `Idempotency-Key`; in the end all changes are compared with the audit log, if there is one.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Api, HttpResponse } from '../contract/calls.ts'
import { breaches, described } from '../contract/document.ts'
import { Model } from './model.ts'
import { type Drawn, isOfTenant, pathOf, TENANTS } from './requests.ts'

const hasAuditLog = described.some(({ name }) => name === 'auditLogs.listAll')

/** Rejections that may precede or follow the check of a key. */
const MAYBE_NOT_KEPT: readonly unknown[] = [400, 401, 403, 413, 415, 'E_NOT_FOUND']

const UNSEEN = '00000000-0000-7000-8000-000000000000'

let walks = 0

/** Throws at the first violation. @param receiver URL of a webhook receiver */
export async function walk(api: Api, receiver: string, requests: readonly Drawn[]): Promise<void> {
  const walker = new Walker(api, receiver)
  for (const request of requests) {
    for (let time = 0; time < request.times; time++) await walker.step(request)
  }
  if (hasAuditLog) await walker.checkAuditLog()
}

interface Step {
  readonly requestId: string
  readonly words: string
  readonly operation: string
  /** Undefined if unknown. */
  readonly hasChanged: boolean | undefined
  readonly isDenied: boolean
}

/** A tenant in a response. */
type Shown = Parameters<Model['see']>[0]

class Walker {
  readonly #api: Api
  readonly #model = new Model()
  readonly #name = `w${process.pid}-${++walks}`
  readonly #started = new Date().toISOString()
  readonly #steps: Step[] = []
  /** Responses that are or may be stored, by token, path and key. */
  readonly #keyed = new Map<string, readonly { body: string; answer: HttpResponse }[]>()
  readonly #receiver: string
  /** Latest values, by name. */
  readonly #seen: Record<string, string> = {
    cursor: 'none',
    webhookId: UNSEEN,
    deliveryId: UNSEEN,
    hostWebhookId: UNSEEN,
    hostDeliveryId: UNSEEN,
  }

  constructor(api: Api, receiver: string) {
    this.#api = api
    this.#receiver = receiver
  }

  async step(drawn: Drawn): Promise<void> {
    const { operation, who } = drawn
    const requestId = `${this.#name}.${this.#steps.length}`
    const path = this.#fill(pathOf(drawn))
    const body = drawn.body === undefined ? undefined : this.#fill(drawn.body)
    const headers = Object.fromEntries(Object.entries(drawn.headers).map(([name, value]) => [name, this.#fill(value)]))
    const before = await this.#visible(drawn)
    const sent = { who, body, headers: { ...headers, 'x-request-id': requestId } }
    const response = await this.#api.call(operation.method, path, sent)

    const words = `${requestId}: ${operation.method} ${path} ${JSON.stringify(headers)} ${body ?? ''}`
    const faults = [
      ...breaches(operation, response),
      ...this.#faultsOfKey(`${who} ${path} ${headers['Idempotency-Key']}`, textOf(body), response, operation.shownOnce),
    ]
    if (response.status >= 500) faults.push('an internal error')
    if (response.headers.get('x-request-id') !== requestId) faults.push('another x-request-id than the request had')
    const outcome = acceptedOf(operation.name, response)
    const observed = this.#hear(drawn, outcome)
    if (observed.fault) faults.push(observed.fault)
    if (faults.length > 0) throw new Error(`${words}\n  ${response.status} ${response.text}\n  ${faults.join('\n  ')}`)

    this.#remember(drawn, outcome)
    const hasChanged = observed.changed ?? (await this.#hasChanged(drawn, outcome, before))
    const isDenied = response.json?.code === 'E_FORBIDDEN'
    this.#steps.push({ requestId, words, operation: operation.name, hasChanged, isDenied })
  }

  /** Every change is in the log once, under the name of its operation; other requests are not, except denied calls of a token, ten in a minute. */
  async checkAuditLog(): Promise<void> {
    const entries = Map.groupBy(await this.#auditLog(), ({ requestId }) => requestId)
    for (const step of this.#steps) {
      const { requestId, words, operation, hasChanged } = step
      const all = (entries.get(requestId) ?? []).map(({ action, outcome }) => `${action} ${outcome}`)
      const logged = changesIn(all, step)
      const expected = (hasChanged ?? logged.length > 0) ? [`${operation} success`] : []
      if (isDeepStrictEqual(logged, expected)) continue
      throw new Error(`${words}\n  has the audit entries [${logged}], expected [${expected}]`)
    }
  }

  #fill(text: string): string {
    const names = Object.entries(TENANTS).map(([name, id]) => [name, `${this.#name}-${id}`] as const)
    const known = Object.entries({ ...this.#seen, receiver: this.#receiver }).map(
      ([name, one]) => [`{${name}}`, one] as const,
    )
    return [...names, ...known].reduce((filled, [name, one]) => filled.replaceAll(name, one), text)
  }

  #remember({ operation }: Drawn, { json }: HttpResponse): void {
    const { nextCursor, webhookId, id, data, deliveries } = json ?? {}
    const [first] = Array.isArray(data) ? data : [json]
    const [subscription, delivery] = isOfTenant(operation)
      ? ['webhookId', 'deliveryId']
      : ['hostWebhookId', 'hostDeliveryId']
    const seen = {
      cursor: nextCursor,
      [subscription]: webhookId ?? first?.webhookId,
      [delivery]: deliveries?.[0] ?? (first?.webhookId === undefined ? undefined : (id ?? first.id)),
    }
    for (const [name, one] of Object.entries(seen)) if (typeof one === 'string') this.#seen[name] = one
  }

  #hear({ operation, params }: Drawn, response: HttpResponse): ReturnType<Model['hear']> {
    if (response.headers.has('idempotency-replayed')) return { changed: false } // a repeat's response describes an earlier state
    const id = this.#fill(params.id ?? '')
    const observed = this.#model.hear(operation.name, this.#isOwn(id) ? id : undefined, response)
    const [fault = observed.fault] = tenantsIn(response.json).flatMap((tenant) => this.#see(tenant) ?? [])
    return { ...observed, fault }
  }

  #see(tenant: Shown): string | undefined {
    if (!this.#isOwn(tenant.id)) return undefined
    return this.#model.knows(tenant.id) ? this.#model.see(tenant) : `${tenant.id} is shown, and was never created`
  }

  #isOwn(id: string): boolean {
    return id.startsWith(`${this.#name}-`)
  }

  /** @param scope path and key: all requests of a walk have one token */
  #faultsOfKey(scope: string, body: string, response: HttpResponse, shownOnce: readonly string[]): string[] {
    const { status, text, json, headers } = response
    const earlier = this.#keyed.get(scope) ?? []
    if (headers.has('idempotency-replayed')) {
      const isKnown = earlier.some(
        (one) =>
          one.body === body &&
          one.answer.status === status &&
          comparableText(one.answer, shownOnce) === comparableText({ text, json }),
      )
      return isKnown ? [] : ['a response was replayed that was never sent']
    }
    if (json?.code === 'E_IDEMPOTENCY_MISMATCH') {
      return earlier.some((one) => one.body !== body) ? [] : ['a mismatch was reported for an unused key']
    }
    if (scope.endsWith(' undefined')) return []
    this.#keyed.set(scope, [...earlier, { body, answer: response }])
    const wasKept = !mayNotBeKept(response) && earlier.some((one) => !mayNotBeKept(one.answer))
    return wasKept ? ['a request ran although its key was used'] : []
  }

  /**
   * Response to the GET nearest to an operation's path; for a tenant only edited members, because jobs change the
   * others.
   */
  async #visible({ operation, params, who }: Drawn): Promise<unknown> {
    if (operation.method === 'GET' || operation.method === 'POST' || who !== 'admin') return undefined
    const [nearest] = described
      .filter(({ method, path }) => method === 'GET' && `${operation.path}/`.startsWith(`${path}/`))
      .sort((one, other) => other.path.length - one.path.length)
    if (!nearest) return undefined
    const { json } = await this.#api.call('GET', this.#fill(pathOf({ operation: nearest, params, query: {} })))
    const [tenant] = tenantsIn(json)
    return tenant ? { ...tenant, status: null, updatedAt: null, activatedAt: null, failure: null } : json
  }

  async #hasChanged(drawn: Drawn, { status }: HttpResponse, before: unknown): Promise<boolean | undefined> {
    if (status >= 300 || drawn.operation.method === 'GET') return false
    if (before === undefined) return undefined
    return !isDeepStrictEqual(before, await this.#visible(drawn))
  }

  async #auditLog(): Promise<{ requestId: string; action: string; outcome: string }[]> {
    const entries = []
    let cursor = ''
    do {
      const { json } = await this.#api.call('GET', `/audit-logs?limit=200&from=${this.#started}${cursor}`)
      entries.push(...json.data)
      cursor = json.nextCursor ? `&cursor=${json.nextCursor}` : ''
    } while (cursor)
    return entries
  }
}

/** Entries of a request without its denial, and without the end of its bulk job, which the worker may have recorded meanwhile. */
export function changesIn(entries: readonly string[], { operation, isDenied }: Pick<Step, 'operation' | 'isDenied'>) {
  const changes = entries.filter((entry) => !(isDenied && entry === 'tokens.deny failure'))
  const end = operation === 'bulk.start' ? changes.findIndex((entry) => entry.startsWith('bulk.complete ')) : -1
  return end < 0 ? changes : changes.toSpliced(end, 1)
}

const mayNotBeKept = ({ status, json }: HttpResponse): boolean =>
  MAYBE_NOT_KEPT.includes(status) || MAYBE_NOT_KEPT.includes(json?.code)

function tenantsIn(json: any): Shown[] {
  const all = Array.isArray(json?.data) ? json.data : [json]
  return all.filter((one: any) => typeof one?.id === 'string' && 'purgeAt' in one)
}

/** Decodes a body without its byte order mark. */
const textOf = (body = ''): string => body.replace(/^\ufeff/, '')

/** Comparable response: without members that are shown once; a replayed problem has the request id of the repeat. */
function comparableText(
  { text, json }: Pick<HttpResponse, 'text' | 'json'>,
  shownOnce: readonly string[] = [],
): string {
  if (json?.code !== undefined) return JSON.stringify({ ...json, requestId: null })
  if (!shownOnce.some((name) => json && name in json)) return text
  return JSON.stringify(Object.fromEntries(Object.entries(json).filter(([name]) => !shownOnce.includes(name))))
}

/** A waiting request received the problem of its job, but was accepted, and its tenant has failed. */
function acceptedOf(operation: string, response: HttpResponse): HttpResponse {
  if (response.status < 400 || !response.headers.has('preference-applied')) return response
  const id = /\/tenants\/([^/]+)/.exec(response.headers.get('location') ?? '')?.[1]
  return { ...response, status: operation === 'tenants.create' ? 201 : 202, json: { id, status: 'failed' } }
}
