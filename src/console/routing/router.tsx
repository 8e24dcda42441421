/** Creates the routes from the modules, and the hooks that read the address. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet as RouterOutlet,
  RouterProvider,
  useLocation,
  useNavigate,
  useParams as useRouterParams,
  useSearch as useRouterSearch,
} from '@tanstack/react-router'
import { type ComponentType, Suspense, useMemo } from 'react'
import type { OperationName } from '../api/contract.ts'
import { load } from '../data/load.ts'
import { isPermitted } from '../data/session.ts'
import type { View } from '../module.ts'
import { BASE, pathOfClick } from './links.ts'
import { allScreens, allTabs } from './registry.ts'
import { type CommonSearch, droppedFrom, parseSearch, type SearchOf, stringifySearch, validSearch } from './search.ts'

/** The place of the page below. */
export const Outlet: ComponentType = RouterOutlet

interface Page {
  readonly path: string
  readonly title: string
  readonly needs: readonly OperationName[]
  readonly search?: OperationName
  readonly view: View
}

export interface Frames {
  /** Around every screen. */
  readonly Shell: ComponentType
  readonly Home: View
  /** Around every page of a tenant. */
  readonly Tenant: View
  /** Instead of it if the address has `?at=`. */
  readonly TenantAt: Pick<Page, 'needs' | 'view'> | undefined
  /** Above a page: the members of its address that are not applied. */
  readonly Dropped: ComponentType<{ search: OperationName }>
  readonly NotFound: ComponentType
  readonly Forbidden: ComponentType<{ needs: readonly OperationName[] }>
  readonly Failed: ComponentType<{ error: unknown }>
}

const pattern = (path: string): string => path.replaceAll(/\{(\w+)\}/g, '$$$1')

export function createConsoleRouter({
  Shell,
  Home,
  Tenant,
  TenantAt,
  Dropped,
  NotFound,
  Forbidden,
  Failed,
}: Frames): object {
  const rootRoute = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: Failed } as any)
  const componentOf = ({ needs, view, search }: Pick<Page, 'needs' | 'view' | 'search'>) =>
    isPermitted(...needs)
      ? withDropped(
          lazyRouteComponent(() => load(view)),
          search && (() => <Dropped search={search} />),
        )
      : () => <Forbidden needs={needs} />
  const routeOf = (page: Page, parent: any) =>
    createRoute({
      getParentRoute: () => parent,
      path: pattern(page.path) as any,
      component: componentOf(page),
    } as any)
  const tenantRoute = createRoute({
    getParentRoute: () => rootRoute,
    path: '/tenants/$id' as any,
    component: tenantFrame(
      lazyRouteComponent(() => load(Tenant)),
      TenantAt ? componentOf(TenantAt) : NotFound,
    ),
  } as any)
  const home = routeOf({ path: '/', title: '', needs: [], search: 'attention.list', view: Home }, rootRoute)
  const tabs = allTabs().map((tab) => routeOf({ ...tab, path: tab.path ? `/${tab.path}` : '/' }, tenantRoute))
  const pages = allScreens().map((screen) => routeOf(screen, rootRoute))
  const tree = rootRoute.addChildren([home, ...pages, tenantRoute.addChildren(tabs)] as any)
  const router = createRouter({
    routeTree: tree,
    basepath: BASE,
    parseSearch,
    stringifySearch,
    defaultPreload: false,
    scrollRestoration: true,
    defaultPendingMs: 150,
  } as any)
  document.addEventListener('click', (event) => {
    const path = pathOfClick(event)
    if (path === undefined) return
    event.preventDefault()
    go(path || '/')
  })
  present = router
  return router
}

function withDropped(View: any, Dropped: ComponentType | undefined): ComponentType {
  if (!Dropped) return View
  const Page = () => (
    <>
      <Dropped />
      <View />
    </>
  )
  return Object.assign(Page, { preload: View.preload })
}

/** The frame of the present, or that of another time. An address with a time never shows the present. */
function tenantFrame(Present: any, Past: ComponentType): ComponentType {
  const Frame = () =>
    useCommonSearch().at === undefined ? (
      <Present />
    ) : (
      <Suspense>
        <Past />
      </Suspense>
    )
  return Object.assign(Frame, { preload: Present.preload })
}

let present: any

/** Opens a path of the console: `/tenants/acme?open=new`. */
export function go(path: string, { isReplaced = false } = {}): void {
  const { history } = present
  if (isReplaced) history.replace(`${BASE}${path}`)
  else history.push(`${BASE}${path}`)
}

/** Opens an address of the console: the result of `href`. */
export const goTo = (address: string): void => go(address.slice(BASE.length) || '/')

interface Rendered {
  readonly pathChanged: boolean
  readonly fromLocation?: { readonly search: CommonSearch }
  readonly toLocation: { readonly search: CommonSearch }
}

/** Calls a listener after each navigation to another path, or another time. */
export const onNavigated = (listener: () => void): (() => void) =>
  present.subscribe('onRendered', ({ pathChanged, fromLocation, toLocation }: Rendered) => {
    const isOtherTime = fromLocation !== undefined && fromLocation.search.at !== toLocation.search.at
    if (pathChanged || isOtherTime) listener()
  })

/** Parameters of the path: `useParams().id`. */
export const useParams = (): Readonly<Record<string, string>> => useRouterParams({ strict: false } as any) as any

const useRawSearch = (): Readonly<Record<string, string>> => useRouterSearch({ strict: false } as any) as any

/** The valid members of the address of a screen. @param name the operation that the screen names as `search` */
export function useSearch<Name extends OperationName>(name: Name): SearchOf<Name> {
  const search = useRawSearch()
  return useMemo(() => validSearch(name, search), [name, search]) as SearchOf<Name>
}

/** The other members of the address, which are not applied. */
export function useDroppedSearch(name: OperationName): readonly (readonly [key: string, value: string])[] {
  const search = useRawSearch()
  return useMemo(() => droppedFrom(name, search), [name, search])
}

/** `open`, `at` and `columns` of the address. */
export const useCommonSearch = (): CommonSearch => useRawSearch()

/** Writes members of the query; undefined removes one. A new filter has no entry in the history. */
export function useSetSearch(): (patch: Readonly<Record<string, unknown>>, options?: { isReplaced?: boolean }) => void {
  const navigate = useNavigate()
  return (patch, { isReplaced = true } = {}) =>
    void navigate({
      to: '.',
      search: ((former: object) => ({ ...former, ...patch })) as any,
      replace: isReplaced,
      resetScroll: false,
    } as any)
}

/** Path of the present screen, without the base. */
export const usePath = (): string => useLocation().pathname

/** Shows the screen of the address. */
export const Routes = ({ router }: { router: object }) => <RouterProvider router={router as any} />
