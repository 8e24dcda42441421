/** The loaded modules, filtered by the operations that the session permits. */
import type { OperationName } from '../api/contract.ts'
import { registerAnnounced } from '../data/live.ts'
import { isPermitted } from '../data/session.ts'
import type { Action, ConsoleModule, DailyAmounts, Restoration, Screen, Tab, TenantColumn } from '../module.ts'

interface Needing {
  readonly needs: readonly OperationName[]
}

const modules: ConsoleModule[] = []

export function registerModules(loaded: readonly ConsoleModule[]): void {
  modules.push(...loaded)
  registerAnnounced(loaded.flatMap(({ announced = [] }) => announced))
}

const permitted = <One extends Needing>(all: readonly One[]): One[] => all.filter(({ needs }) => isPermitted(...needs))
const inOrder = <One extends { readonly order?: number }>(all: readonly One[]): One[] =>
  all.toSorted((a, b) => (a.order ?? 50) - (b.order ?? 50))

/** All screens: an address of a screen that is not permitted shows the reason. */
export const allScreens = (): Screen[] => modules.flatMap(({ screens = [] }) => screens)
export const allTabs = (): Tab[] => modules.flatMap(({ tabs = [] }) => tabs)

export const screens = (): Screen[] => permitted(allScreens())
export const tabs = (): Tab[] => inOrder(permitted(allTabs())).filter(({ isListed = true }) => isListed)
export const cards = () => inOrder(permitted(modules.flatMap((module) => module.cards ?? [])))
export const homeCards = () => inOrder(permitted(modules.flatMap((module) => module.home ?? [])))
export const headerLines = () => inOrder(permitted(modules.flatMap((module) => module.header ?? [])))
export const bars = () => inOrder(permitted(modules.flatMap((module) => module.bars ?? [])))
/** Restorations of a kind of object. */
export const restorationsOf = (kind: string): Restoration[] =>
  permitted(modules.flatMap(({ restorations = [] }) => restorations)).filter((one) => one.kind === kind)
export const tenantColumns = (): TenantColumn[] => permitted(modules.flatMap(({ columns = [] }) => columns))
/** The limit of a restoration for a kind of object. */
export const restorationLimitOf = (kind: string): string | undefined =>
  modules.map(({ restorationLimits }) => restorationLimits?.[kind]).find((limit) => limit !== undefined)
export const incidentLinks = () => permitted(modules.flatMap((module) => module.incidentLinks ?? []))
/** Of the first module that has them. */
export const dailyAmounts = (): DailyAmounts | undefined =>
  permitted(modules.flatMap(({ dailyAmounts: own }) => own ?? []))[0]
export const paletteSources = () => permitted(modules.flatMap((module) => module.palette ?? []))
/** Keys that have an effect now. */
export const globalKeys = () =>
  permitted(modules.flatMap((module) => module.keys ?? [])).filter(({ isAvailable }) => isAvailable())
export const allActions = (): Action[] => permitted(modules.flatMap(({ actions = [] }) => actions))

/** Permitted actions that apply to the present state of an object. */
export const actionsOf = (kind: string, target: unknown): Action[] =>
  allActions().filter((action) => action.target === kind && (action.isAvailable?.(target) ?? true))
