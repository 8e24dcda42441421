/**
 * A walk: one request after the other, each answer held against the document, the life cycle, the first answer of its
 * `Idempotency-Key`, and in the end all of them against the audit log.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Answer, Api } from '../contract/api.ts'
import { breaches, described } from '../contract/document.ts'
import { Model } from './model.ts'
import { type Drawn, pathOf, TENANTS } from './requests.ts'

/** Refused before a key is looked at, or after: nobody can tell. */
const MAYBE_NOT_KEPT = [400, 401, 403, 413, 415]

let walks = 0

/** Throws at the first answer that is not as it should be. */
export async function walk(api: Api, requests: readonly Drawn[]): Promise<void> {
  const walker = new Walker(api)
  for (const request of requests) {
    for (let time = 0; time < request.times; time++) await walker.step(request)
  }
  await walker.checkAuditLog()
}

interface Step {
  readonly requestId: string
  readonly words: string
  /** The operation's name when it must be in the audit log, null when it must not, undefined when nobody can tell. */
  readonly entry: string | null | undefined
}

class Walker {
  readonly #api: Api
  readonly #model = new Model()
  readonly #name = `w${process.pid}-${++walks}`
  readonly #begun = new Date().toISOString()
  readonly #steps: Step[] = []
  readonly #kept = new Map<string, { body: string | undefined; answer: Answer }>()
  #cursor = 'none'

  constructor(api: Api) {
    this.#api = api
  }

  async step(drawn: Drawn): Promise<void> {
    const { operation, who } = drawn
    const requestId = `${this.#name}.${this.#steps.length}`
    const path = this.#fill(pathOf(drawn))
    const id = drawn.params.id === undefined ? undefined : this.#fill(drawn.params.id)
    const body = drawn.body === undefined ? undefined : this.#fill(drawn.body)
    const headers = Object.fromEntries(Object.entries(drawn.headers).map(([name, value]) => [name, this.#fill(value)]))
    const before = await this.#visible(drawn)
    const answer = await this.#api.call(operation.method, path, {
      who,
      body,
      headers: { ...headers, 'x-request-id': requestId },
    })
    const words = `${requestId}: ${operation.method} ${path} ${JSON.stringify(headers)} ${body ?? ''}`
    const fail = (faults: readonly string[]) => {
      if (faults.length > 0) throw new Error(`${words}\n  -> ${answer.status} ${answer.text}\n  ${faults.join('\n  ')}`)
    }
    fail(breaches(operation, answer))
    {
      const k = `${operation.name} ${answer.status} ${answer.json?.code ?? answer.json?.status ?? ''} ${answer.json?.code === 'E_INVALID_REQUEST' ? answer.json.detail.slice(0, 80) : ''}`
      const m = ((globalThis as any).__stats ??= new Map())
      m.set(k, (m.get(k) ?? 0) + 1)
    }
    if (answer.status >= 500) fail(['a fault of ours'])
    if (answer.headers.get('x-request-id') !== requestId) fail(['another x-request-id than was sent'])
    const key = headers['Idempotency-Key']
    if (key !== undefined && operation.method === 'POST') fail(this.#repeated(`${path} ${key}`, body, answer))
    const isReplay = answer.headers.has('idempotency-replayed')
    const own = id?.startsWith(this.#name) ? id : undefined
    const { fault, changed } = isReplay ? { changed: false } : this.#model.hear(operation.name, own, answer)
    if (fault) fail([fault])
    if (!isReplay) fail(tenantsIn(answer.json).flatMap((tenant) => this.#see(tenant)))
    this.#cursor = answer.json?.nextCursor ?? this.#cursor
    const isChanged = changed ?? (await this.#isChanged(drawn, answer, before))
    this.#steps.push({
      requestId,
      words,
      entry: isChanged === undefined ? undefined : isChanged ? operation.name : null,
    })
  }

  /** What was changed is in the log, once, under its operation's name; what was not changed is not. */
  async checkAuditLog(): Promise<void> {
    const entries = Map.groupBy(await this.#auditLog(), ({ requestId }) => requestId)
    if (!hasAuditLog) return
    for (const { requestId, words, entry } of this.#steps) {
      const logged = (entries.get(requestId) ?? []).map(({ action, outcome }) => `${action} ${outcome}`)
      const wished = entry === null || (entry === undefined && logged.length === 0) ? [] : [`${entry ?? words} success`]
      if (entry !== undefined && !isDeepStrictEqual(logged, wished)) {
        throw new Error(`${words}\n  should be logged as [${wished}], and is as [${logged}]`)
      }
    }
  }

  #fill(text: string): string {
    const ids = Object.entries(TENANTS).map(([name, id]) => [name, `${this.#name}-${id}`] as const)
    return [...ids, ['{cursor}', this.#cursor] as const].reduce(
      (filled, [name, value]) => filled.replaceAll(name, value),
      text,
    )
  }

  #see(tenant: { id: string; status: any }): string[] {
    if (!tenant.id.startsWith(this.#name)) return []
    if (!this.#model.knows(tenant.id)) return [`${tenant.id} is shown, and was never made`]
    const fault = this.#model.see(tenant)
    return fault ? [fault] : []
  }

  /** @param scope the path and the key; the walk has one token that may POST */
  #repeated(scope: string, body: string | undefined, answer: Answer): string[] {
    const first = this.#kept.get(scope)
    const isReplay = answer.headers.has('idempotency-replayed')
    if (!first) {
      if (answer.status >= 300 && MAYBE_NOT_KEPT.includes(answer.status))
        return isReplay ? ['replayed from nowhere'] : []
      this.#kept.set(scope, { body, answer })
      return isReplay ? ['replayed from nowhere'] : []
    }
    const isSame = first.body === body
    if (isReplay && !isSame) return ['replayed for another body']
    if (isReplay)
      return answer.text === first.answer.text && answer.status === first.answer.status ? [] : ['another answer']
    if (MAYBE_NOT_KEPT.includes(answer.status)) return []
    return !isSame && answer.json?.code === 'E_IDEMPOTENCY_MISMATCH' ? [] : ['run although its key was used']
  }

  /** What the GET nearest to an operation's path shows; of a tenant only what is edited, because jobs change the rest. */
  async #visible({ operation, params, who }: Drawn): Promise<unknown> {
    if (operation.method === 'GET' || operation.method === 'POST' || who !== 'admin') return undefined
    const nearest = described
      .filter(
        ({ method, path }) => method === 'GET' && `${operation.path}/`.startsWith(`${path}/`) && path.includes('{'),
      )
      .sort((one, other) => other.path.length - one.path.length)[0]
    if (!nearest) return undefined
    const { json } = await this.#api.call('GET', this.#fill(pathOf({ operation: nearest, params, query: {} })))
    const [tenant] = tenantsIn(json)
    return tenant ? { ...tenant, status: null, updatedAt: null, activatedAt: null, failure: null } : json
  }

  async #isChanged(drawn: Drawn, { status }: Answer, before: unknown): Promise<boolean | undefined> {
    if (status >= 300 || drawn.operation.method === 'GET') return false
    if (before === undefined) return undefined
    return !isDeepStrictEqual(before, await this.#visible(drawn))
  }

  async #auditLog(): Promise<{ requestId: string; action: string; outcome: string }[]> {
    const entries = []
    let cursor = ''
    do {
      const { json } = await this.#api.call('GET', `/audit-logs?limit=200&from=${this.#begun}${cursor}`)
      entries.push(...(json.data ?? []))
      cursor = json.nextCursor ? `&cursor=${json.nextCursor}` : ''
    } while (cursor)
    return entries
  }
}

const hasAuditLog = described.some(({ name }) => name === 'auditLogs.listAll')

const tenantsIn = (json: any): { id: string; status: any }[] => {
  const all = Array.isArray(json?.data) ? json.data : [json]
  return all.filter((one: any) => typeof one?.id === 'string' && 'purgeAt' in one)
}
