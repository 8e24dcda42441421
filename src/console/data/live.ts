/** Which queries a change affects, and which queries the stream keeps fresh. */
import type { Result } from '../api/contract.ts'
import { sessionStore } from './session.ts'
import { createStore } from './store.ts'

export type Change = Omit<Result<'activity.stream'>['data'][number], 'id'>

/** Whether a stream announces changes to this tab. */
export const liveStore = createStore(false)

/** Kinds of operations that read data which a change of a kind can alter, in addition to its own kind. */
const FURTHER: Readonly<Record<string, readonly string[]>> = {
  tenants: ['transfers', 'backups', 'placements', 'quotas', 'billing', 'bulk', 'migrations', 'migrationRuns'],
  backups: ['transfers', 'tenants'],
  transfers: ['tenants', 'backups', 'placements'],
  billing: ['tenants', 'quotas'],
  webhooks: ['webhookDeliveries'],
  hostWebhooks: ['hostWebhookDeliveries'],
  bulk: ['tenants'],
  migrationRuns: ['migrations', 'tenants'],
}
/** Kinds that summarise changes of every kind. */
const SUMMARIES: readonly string[] = ['timeline', 'auditLogs', 'attention']

const announced = new Set<string>()

/** Registers reads whose every change is announced: they are fresh until an event. */
export function registerAnnounced(names: readonly string[]): void {
  for (const name of names) announced.add(name)
}

const kindOf = (name: string): string => name.split('.', 1)[0] ?? name

/** Whether events, and not the time, decide when a query is read again. */
export const isLive = (queryKey: readonly unknown[]): boolean => liveStore.get() && isAnnounced(queryKey)
export const isAnnounced = ([name]: readonly unknown[]): boolean => announced.has(String(name))

/** Whether a query reads data that a change can alter. @param queryKey `[name, input]` */
export function reads([name, input]: readonly unknown[], { action, tenantId }: Change): boolean {
  const kind = kindOf(String(name))
  const changed = kindOf(action)
  const isOfKind = kind === changed || SUMMARIES.includes(kind) || (FURTHER[changed]?.includes(kind) ?? false)
  if (!isOfKind) return false
  const tenant = tenantOf(String(name), input)
  return tenant === undefined || tenantId === null || tenant === tenantId
}

/** The tenant of a call; undefined if it concerns all tenants. */
function tenantOf(name: string, input: unknown): string | undefined {
  const { params, query } = (input ?? {}) as { params?: { id?: string }; query?: { tenantId?: string } }
  const route = (sessionStore.get()?.operations as Readonly<Record<string, string>> | undefined)?.[name]
  return route?.includes('/tenants/{id}') ? params?.id : query?.tenantId
}
