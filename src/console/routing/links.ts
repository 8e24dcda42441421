/** Addresses of screens. Links are plain `<a href>`: one handler of the page navigates without loading it again. */
import type { OperationName, Params } from '../api/contract.ts'
import { filledPath } from '../data/filled-path.ts'
import { settings } from '../data/settings.ts'
import type { Screen } from '../module.ts'
import { allScreens, allTabs } from './registry.ts'
import { type SearchOf, stringifySearch } from './search.ts'

export const BASE = `${settings.prefix}/console`

/** The address of a path of the console: `href('/tenants/acme', { open: 'new' })`. */
export const href = (path: string, search: Readonly<Record<string, unknown>> = {}): string =>
  `${BASE}${path}${stringifySearch(search)}`

/** The path of a screen within the console, with the query that it begins with. */
export const pathOf = ({ path, start = {} }: Pick<Screen, 'path' | 'start'>): string =>
  `${path}${stringifySearch(start)}`

/** The address of a tenant's page. @param tab `webhooks`; default: the overview */
export const tenantHref = (id: string, tab = '', search: Readonly<Record<string, unknown>> = {}): string =>
  href(`/tenants/${encodeURIComponent(id)}${tab && `/${tab}`}`, search)

/**
 * The address of the screen whose list is the operation, or which needs it first. Undefined if no module has one, or for values that no address can hold.
 *
 * @example linkTo('webhooks.list', { id: 'acme' }, { limit: 100 })
 */
export function linkTo<Name extends OperationName>(
  name: Name,
  params: Params<Name> | Readonly<Record<string, string>> = {},
  search: SearchOf<Name> = {} as SearchOf<Name>,
): string | undefined {
  const pages = [
    ...allScreens(),
    ...allTabs().map((tab) => ({ ...tab, path: tab.path ? `/tenants/{id}/${tab.path}` : '/tenants/{id}' })),
  ]
  const page = pages.find((one) => one.search === name) ?? pages.find(({ needs }) => needs[0] === name)
  const path = page && filledPath(page.path, params as Readonly<Record<string, string>>)
  return path === undefined ? undefined : href(path, search as Readonly<Record<string, unknown>>)
}

/** The path within the console of a click on a link, unless the browser must follow the link itself. */
export function pathOfClick(event: MouseEvent): string | undefined {
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
  const link = (event.target as Element | null)?.closest?.('a')
  if (!isPlain || event.defaultPrevented || !link || link.target || link.hasAttribute('download')) return undefined
  const url = new URL(link.href, location.href)
  const isOwn = url.origin === location.origin && (url.pathname === BASE || url.pathname.startsWith(`${BASE}/`))
  return isOwn ? url.href.slice(url.origin.length + BASE.length) : undefined
}
