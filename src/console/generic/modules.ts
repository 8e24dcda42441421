/** Generic screens as console modules: for satellites of the host without a module. */
import type { OperationName } from '../api/contract.ts'
import { registerRules } from '../api/rules.ts'
import { problemOf } from '../data/problem.ts'
import { settings } from '../data/settings.ts'
import type { ConsoleModule } from '../module.ts'
import { allScreens, allTabs } from '../routing/registry.ts'
import type { HostOperation } from './operation.ts'
import { filtersOf } from './operation.ts'
import { type GenericPage, genericPages, overlap, titleOf } from './pages.ts'

/** After the screens of Tenantry, and before the system. */
const ORDER = 88

/** Reads the operations of the host that the session permits, and registers the rules of their fields. @throws Problem */
export async function readHostOperations(): Promise<readonly HostOperation[]> {
  const response = await fetch(`${settings.prefix}/session/operations`)
  if (!response.ok) throw await problemOf(response)
  const { data }: { data: HostOperation[] } = await response.json()
  registerRules(data.map((one) => (one.satellite in settings.modules ? one : { ...one, query: filtersOf(one) })))
  return data
}

/** Called after all other modules are registered, whose paths it avoids. */
export function genericModules(operations: readonly HostOperation[]): ConsoleModule[] {
  const taken = [...allScreens().map(({ path }) => path), ...allTabs().map(({ path }) => `/tenants/{id}/${path}`)]
  const isTaken = (path: string) => path.startsWith('/assets/') || taken.some((one) => overlap(one, path))
  const pages = genericPages(operations, isTaken)
  return [...Map.groupBy(pages, ({ satellite }) => satellite)].map(([name, own]) => ({
    name,
    screens: own
      .filter(({ isOfTenant }) => !isOfTenant)
      .map((page) => ({
        ...pageOf(page),
        ...(page.isEntry ? { navigation: { icon: 'module' as const, order: ORDER } } : {}),
      })),
    tabs: own
      .filter(({ isOfTenant }) => isOfTenant)
      .map((page) => ({ ...pageOf(page), isListed: page.isEntry, order: ORDER })),
  }))
}

function pageOf(page: GenericPage) {
  const { satellite, path, read, isEntry } = page
  const name = read?.name as OperationName | undefined
  return {
    path,
    title: isEntry || !read ? titleOf(satellite) : read.summary,
    needs: name ? [name] : [],
    ...(name ? { search: name } : {}),
    view: async () => {
      const { genericView } = await import('./page.tsx')
      return { default: genericView(page) }
    },
  }
}
