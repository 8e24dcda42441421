/**
 * Creates entries of the outbox. A MAC under the application key proves that a process of the tenancy has posted an
 * entry with this context. Without it the actor is `sql`, and the context is ignored.
 */
import { type Actor, type Context, currentContext } from '../../kernel/base/context.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { toJson } from '../../kernel/base/validate.ts'
import type { Secrets } from '../../kernel/crypto/crypto.ts'
import { isValidPostgresJson } from '../../kernel/database/postgres-text.ts'
import { checkCallId } from '../../kernel/outbox/once.ts'
import type { Tracing } from '../../kernel/resilience/tracing.ts'
import { MAX_ENTRY_BYTES, type NewEntry, type PostedEntry } from '../isolation/outbox.ts'

const PURPOSE = 'outbox entry'
const SQL: Actor = { type: 'host', id: 'sql', name: 'sql' }

export interface PostingDependencies {
  readonly secrets: Secrets
  readonly tracing: Pick<Tracing, 'traceparent'>
}

/**
 * An entry in the current context. `E_INVALID_REQUEST` if it is not JSON or exceeds 256 KiB, or if the context has text
 * that PostgreSQL cannot store.
 */
export function newEntry(
  { secrets, tracing }: PostingDependencies,
  tenantId: string,
  kind: string,
  content: object,
  callId = uuidv7(),
): NewEntry {
  const id = checkCallId(callId)
  const payload = toJson(content, 'payload') ?? ''
  if (!isValidPostgresJson(currentContext())) {
    throw invalid([{ path: 'context', message: 'must not contain NUL or an unpaired surrogate' }])
  }
  const context = JSON.stringify({ ...currentContext(), traceparent: tracing.traceparent() })
  if (Buffer.byteLength(payload) + Buffer.byteLength(context) > MAX_ENTRY_BYTES) {
    const message = `must not exceed ${MAX_ENTRY_BYTES / 1024} KiB as JSON in a tenant's transaction`
    throw invalid([{ path: 'payload', message }])
  }
  return { id, kind, payload, context, mac: secrets.sign(signed({ id, tenantId, kind, payload, context }), PURPOSE) }
}

/** The context in which an entry is applied. */
export function contextOf(secrets: Secrets, entry: PostedEntry): Context {
  const { tenantId, context, mac } = entry
  const isOurs = context !== null && mac !== null && secrets.verify(signed(entry), PURPOSE, mac)
  return isOurs ? { ...JSON.parse(context), tenantId } : withoutMac(tenantId)
}

/** The context of SQL of the host. */
export const withoutMac = (tenantId: string): Context => ({ requestId: null, actor: SQL, ip: null, tenantId })

const signed = ({ id, tenantId, kind, payload, context }: Omit<PostedEntry, 'mac' | 'postedAt'>): string =>
  JSON.stringify([id, tenantId, kind, payload, context])
