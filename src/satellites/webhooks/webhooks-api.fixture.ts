/** The admin API of a tenancy with webhooks, and what is said of each change, for the tests of this folder. */
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
  /** Sent as JSON, unless it is text. */
  readonly body?: unknown
}

export interface HttpResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly json: any
}

/** @param path below the prefix */
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

/** What is recorded from now on, in the order in which it is committed. */
export function changesOf(tenancy: Tenancy): readonly EventOf<typeof ChangeRecorded>[] {
  const changes: EventOf<typeof ChangeRecorded>[] = []
  tenancy.on(ChangeRecorded, (change) => void changes.push(change))
  return changes
}

let made = 0

/** A tenant that is not installed: enough where a test needs neither its storage nor a change of its state. */
export async function createdTenant({ tenants }: WebhooksTenancy): Promise<string> {
  const { id } = await tenants.create({ id: `tenant-${++made}`, name: 'Acme' })
  return id
}

/** A tenant that is active, of a tenancy without workers. */
export async function activeTenant(tenancy: WebhooksTenancy): Promise<string> {
  const id = await createdTenant(tenancy)
  await tenancy.tenants.installation.install(id, { isLast: true })
  return id
}

export async function deliveriesOf(tenancy: WebhooksTenancy, owner: string | null, webhookId: string) {
  const { data } = await tenancy.webhooks.deliveries(owner, webhookId, { limit: 200 })
  return data.toReversed()
}
