/** Objects of all parts in the palette: by id, part of a URL, or a value of metadata; tenants by id, name and domain. */
import { call } from '../data/call.ts'
import { isPermitted } from '../data/session.ts'
import { referenceHref } from '../routing/reference.ts'
import { type Found, score } from './match.ts'

/** Tenants that match by id or name are left out: the palette has its own group of them. */
export async function foundObjects(q: string, signal: AbortSignal): Promise<Found[]> {
  if (!isPermitted('search.find')) return []
  const { data } = await call('search.find', { query: { q } }, { signal })
  return data.flatMap((found): Found[] => {
    const { kind, id, tenantId, title, matched } = found
    const link = referenceHref(found, tenantId)
    if (!link || (kind === 'tenant' && ['id', 'name'].includes(matched))) return []
    const note = [kind, tenantId !== id && tenantId, matched !== 'id' && matched].filter(Boolean).join(' · ')
    return [{ value: `object ${kind} ${id}`, id, title, href: link, note }]
  })
}

export interface Tenant {
  readonly id: string
  readonly name: string
  readonly status: string
}

/** Tenants that match a part of their id, name or domain, the best first. */
export async function foundTenants(q: string, signal: AbortSignal): Promise<Tenant[]> {
  const { data } = await call('tenants.list', { query: { q, limit: 20 } }, { signal })
  return data.toSorted((a, b) => score(q, b.name, b.id) - score(q, a.name, a.id))
}
