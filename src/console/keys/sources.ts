/** Entries of the palette: recent objects, tenants, pages, commands, error codes, settings. */
import { startAction } from '../components/actions.tsx'
import { recent } from '../data/recent.ts'
import { isPermitted, signOut } from '../data/session.ts'
import type { Action, Screen } from '../module.ts'
import { current } from '../routing/current.ts'
import { href, tenantHref } from '../routing/links.ts'
import { actionsOf, allActions, paletteSources, screens, tabs } from '../routing/registry.ts'
import { commandsOf, type Found, ranked } from './match.ts'
import { foundObjects, foundTenants, type Tenant } from './objects.ts'
import { text } from './text.ts'

export interface Group {
  readonly value: string
  readonly items: Found[]
  /** Number of matches that are left out. */
  readonly more: number
}

const PER_GROUP = 5
/** Entries of modules that objects found by the service do not displace. */
const OF_MODULES = 2

const group = (value: string, items: readonly Found[], max = PER_GROUP): Group => ({
  value,
  items: items.slice(0, max),
  more: Math.max(items.length - max, 0),
})

/** Groups that need no request. */
export function localGroups(query: string, settings: readonly Found[]): Group[] {
  const opened = recent().map(({ kind, id, title, href }) => ({ value: `recent ${href}`, id, title, href, note: kind }))
  return [
    group(text.groups.recent, ranked(query, opened)),
    group(text.groups.actions, ranked(query, currentActions())),
    group(text.groups.pages, ranked(query, pages())),
    group(text.groups.settings, query ? ranked(query, [...settings, SIGN_OUT]) : []),
  ]
}

const SIGN_OUT: Found = { value: 'sign-out', title: text.signOut, run: signOut }

function pages(): Found[] {
  const over = [{ path: '/', title: text.home }, ...screens().filter(({ path }) => !path.includes('{'))].map(
    ({ path, title, start }: Pick<Screen, 'path' | 'title' | 'start'>) => ({
      value: `page ${path}`,
      title,
      href: href(path, start),
    }),
  )
  const tenant = currentTenant()
  if (!tenant) return over
  const own = tabs().map(({ path, title }) => ({
    value: `tab ${path}`,
    title: text.pageOf(title, tenant.name),
    href: tenantHref(tenant.id, path),
  }))
  return [...own, ...over]
}

const currentTenant = (): Tenant | undefined => {
  const present = current()
  return present?.kind === 'tenant' ? (present.object as Tenant) : undefined
}

function currentActions(): Found[] {
  const present = current()
  if (!present) return []
  const { name = '', id = '' } = present.object as Partial<Tenant>
  return actionsOf(present.kind, present.object).map((action) => command(action, present.object, name || id))
}

const command = (action: Action, object: unknown, name: string): Found => ({
  value: `action ${action.name} ${name}`,
  title: text.actionOn(action.title, name),
  run: () => startAction(action, object),
})

/** Tenants, objects of modules, and commands with a tenant as their object: `suspend acme`. */
export async function remoteGroups(query: string, signal: AbortSignal): Promise<Group[]> {
  if (query.length < 2) return []
  const hasTenants = isPermitted('tenants.list')
  const [objects, ofModules, own, commands] = await Promise.all([
    foundObjects(query, signal),
    moduleObjects(query, signal),
    hasTenants ? foundTenants(query, signal) : [],
    hasTenants ? tenantCommands(query, signal) : [],
  ])
  const found = own.map(({ id, name, status }) => ({
    value: `tenant ${id}`,
    id,
    title: name,
    href: tenantHref(id),
    note: status,
  }))
  return [
    group(text.groups.objects, [...objects.slice(0, PER_GROUP - Math.min(ofModules.length, OF_MODULES)), ...ofModules]),
    group(text.groups.tenants, found),
    group(text.groups.actions, commands),
  ]
}

async function moduleObjects(query: string, signal: AbortSignal): Promise<Found[]> {
  const found = await Promise.allSettled(paletteSources().map(({ find }) => find(query, signal)))
  return found
    .flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
    .map((entry) => ({ ...entry, value: `object ${entry.href}` }))
}

async function tenantCommands(query: string, signal: AbortSignal): Promise<Found[]> {
  const actions = allActions().filter(({ target }) => target === 'tenant')
  const found = commandsOf(query).map(async ({ command: verb, object }) => {
    const matching = ranked(verb, actions)
    if (matching.length === 0) return []
    const objects = await foundTenants(object, signal)
    return objects
      .slice(0, PER_GROUP)
      .flatMap((tenant) =>
        matching
          .filter((action) => action.isAvailable?.(tenant) ?? true)
          .map((action) => command(action, tenant, tenant.name)),
      )
  })
  return (await Promise.all(found)).flat()
}

/** Error codes with their meaning. */
export async function codeGroup(query: string): Promise<Group[]> {
  if (!/^e_?[a-z_]{2,}$/i.test(query)) return []
  const { default: errors } = await import('../api/errors.json')
  const found = Object.entries(errors)
    .filter(([code]) => code.startsWith(query.toUpperCase()))
    .map(([code, title]) => ({ value: `code ${code}`, id: code, title }))
  return [group(text.groups.codes, found)]
}
