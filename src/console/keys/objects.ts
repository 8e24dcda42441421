/** Objects of all parts in the palette: by id, part of a URL, or a value of metadata. */
import { call } from '../data/call.ts'
import { isPermitted } from '../data/session.ts'
import { referenceHref } from '../routing/reference.ts'
import type { Found } from './match.ts'

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
