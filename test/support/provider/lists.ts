/** Pages of a list: newest first, 10 per page, with the id of an object in the list as cursor. */
import { invalid } from './errors.ts'
import { type Params, text, whole } from './form.ts'

export const PAGING = ['limit', 'starting_after', 'ending_before'] as const

export interface Listed<T> {
  readonly object: 'list'
  readonly data: T[]
  readonly has_more: boolean
  readonly url: string
}

/**
 * @param oldestFirst all objects of the kind, in order of creation
 * @param isWanted filter of the list; the cursor may be an object that the filter excludes
 */
export function pageOf<T extends { readonly id: string }>(
  oldestFirst: Iterable<T>,
  params: Params,
  url: string,
  isWanted: (one: T) => boolean = () => true,
): Listed<T> {
  const all = [...oldestFirst].reverse()
  const limit = limitOf(params)
  const after = cursor(all, params, 'starting_after')
  const before = cursor(all, params, 'ending_before')
  if (before !== undefined) {
    const newer = all.slice(0, before).filter(isWanted)
    return { object: 'list', data: newer.slice(-limit), has_more: newer.length > limit, url }
  }
  const older = all.slice(after === undefined ? 0 : after + 1).filter(isWanted)
  return { object: 'list', data: older.slice(0, limit), has_more: older.length > limit, url }
}

export function whollyListed<T>(data: T[], url: string): Listed<T> {
  return { object: 'list', data, has_more: false, url }
}

export function limitOf(params: Params): number {
  const limit = whole(params, 'limit') ?? 10
  if (limit < 1 || limit > 100) throw invalid('Invalid integer: limit must be between 1 and 100', 'limit')
  return limit
}

function cursor(all: readonly { readonly id: string }[], params: Params, name: string): number | undefined {
  const id = text(params, name)
  if (!id) return undefined
  const index = all.findIndex((one) => one.id === id)
  if (index < 0) throw invalid(`No such object: '${id}'`, name, 'resource_missing')
  return index
}
