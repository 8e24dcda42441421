/** The admin API of a tenancy with webhooks, and the recorded changes. */
import { createHttp, DEFAULT_PREFIX, type HttpOptions } from '../../http/app.ts'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import type { WebhooksTenancy } from './webhooks.fixture.ts'

const TOKENS = {
  admin: 'token-of-an-admin-0123456789',
  read: 'token-of-a-reader-0123456789',
  runtime: 'token-of-a-server-0123456789',
} as const

export interface Sent {
  readonly who?: keyof typeof TOKENS
  readonly headers?: Readonly<Record<string, string>>
  /** Text, or a value that is sent as JSON. */
  readonly body?: unknown
}

export interface HttpResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly json: any
}

/** @param path relative to the prefix */
export type Call = (method: string, path: string, sent?: Sent) => Promise<HttpResponse>

export function apiOf(tenancy: Tenancy, options: Partial<HttpOptions> = {}): Call {
  const http = createHttp(tenancy, {
    adminTokens: [
      { name: 'alice', token: TOKENS.admin },
      { name: 'rita', token: TOKENS.read, scope: 'read' },
      { name: 'server', token: TOKENS.runtime, scope: 'runtime' },
    ],
    ...options,
  })
  return async (method, path, { who = 'admin', headers = {}, body } = {}) => {
    const response = await http.fetch(
      new Request(`http://localhost${DEFAULT_PREFIX}${path}`, {
        method,
        headers: { 'x-admin-token': TOKENS[who], 'content-type': 'application/json', ...headers },
        body: body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body),
      }),
    )
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: text === '' ? undefined : JSON.parse(text),
    }
  }
}

/** Changes recorded from now on, in the order of their commits. */
export function changesOf(tenancy: Tenancy): readonly EventOf<typeof ChangeRecorded>[] {
  const changes: EventOf<typeof ChangeRecorded>[] = []
  tenancy.on(ChangeRecorded, (change) => void changes.push(change))
  return changes
}

let made = 0

/** A tenant without storage, for tests that do not change its state. */
export async function createdTenant({ tenants }: WebhooksTenancy): Promise<string> {
  const { id } = await tenants.create({ id: `tenant-${++made}`, name: 'Acme' })
  return id
}

/** An active tenant in a tenancy without workers. */
export async function activeTenant(tenancy: WebhooksTenancy): Promise<string> {
  const id = await createdTenant(tenancy)
  await tenancy.tenants.installation.install(id, { isLast: true })
  return id
}

export async function deliveriesOf(tenancy: WebhooksTenancy, owner: string | null, webhookId: string) {
  const { data } = await tenancy.webhooks.deliveries(owner, webhookId, { limit: 200 })
  return data.toReversed()
}
