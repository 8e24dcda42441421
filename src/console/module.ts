/**
 * The shape of a console module: the screens of one part, as plain data. File of a satellite: `src/satellites/<name>/console/index.tsx`,
 * named by `console` of the satellite.
 *
 * @example
 *   export default defineConsoleModule({
 *     name: 'webhooks',
 *     tabs: [{ path: 'webhooks', title: text.webhooks, needs: ['webhooks.list'], search: 'webhooks.list', view: () => import('./list.tsx') }],
 *   })
 */
import type { ComponentType } from 'react'
import type { Input, OperationName, Result } from './api/contract.ts'

/** A component, loaded when it is shown. */
export type View<Props = {}> = () => Promise<{ readonly default: ComponentType<Props> }>

/** Operations of which each must be permitted; otherwise the element is not shown. */
interface Needing {
  readonly needs: readonly OperationName[]
}

/** A page with its own address below `{prefix}/console`. */
export interface Screen extends Needing {
  /** As of the API: `/deliveries`, `/tenants/{id}/transfers/{transferId}`. */
  readonly path: string
  /** Also in the title of the browser's tab. */
  readonly title: string
  /** The operation whose query the address holds; `useSearch` reads it. */
  readonly search?: OperationName
  /** Query of the address that the navigation, the palette and the key open: the filter to begin with. */
  readonly start?: Readonly<Record<string, string>>
  /** Entry of the navigation: an icon, and the position (tenants 10, deliveries 20, flags 30, quotas 40, usage 50, audit 60, billing 70, system 90). */
  readonly navigation?: { readonly icon: IconName; readonly order: number }
  /** The letter after `g` that opens it. */
  readonly key?: string
  readonly view: View
}

/** A page of one tenant, at `/tenants/{id}/<path>`, below the header of the tenant. */
export interface Tab extends Needing {
  /** `webhooks`, or a page below a tab: `webhooks/{webhookId}`. */
  readonly path: string
  readonly title: string
  /** False: the tab bar does not list it. */
  readonly isListed?: boolean
  /** Position in the tab bar: overview 0, storage 10, flags 20, webhooks 30, quotas 40, usage 50, audit 60, billing 70, branding 80, sso 85, settings 95. */
  readonly order?: number
  readonly search?: OperationName
  readonly view: View
}

/** A card on the overview of a tenant, or on Home. */
export interface Card<Props> extends Needing {
  readonly order?: number
  readonly view: View<Props>
}

/** An action on an object: in its menu, by a key, and in the palette. */
export interface Action<Target = any> extends Needing {
  /** `tenants.suspend`; unique. */
  readonly name: string
  readonly title: string
  /** Kind of its object: `tenant`, `delivery`. */
  readonly target: string
  /** A single key, while an object of this kind is shown or selected. */
  readonly key?: string
  readonly isDestructive?: boolean
  /** Whether the page of the object has a button for it, in addition to the menu. */
  readonly isButton?: boolean
  /** Whether it applies to the present state of the object. */
  readonly isAvailable?: (target: Target) => boolean
  /** A harmless action, without a dialog. */
  readonly run?: (target: Target) => unknown
  /** The dialog of the action. */
  readonly view?: View<ActionProps<Target>>
}

export interface ActionProps<Target = any> {
  readonly target: Target
  readonly onClose: () => void
}

/** Objects of a module in the palette: links that match a typed text, the best first. */
export interface PaletteSource extends Needing {
  readonly find: (query: string, signal: AbortSignal) => Promise<readonly PaletteEntry[]>
}

export interface PaletteEntry {
  readonly id?: string
  readonly title: string
  readonly href: string
  /** Text at the end of the line: the kind of the object. */
  readonly note?: string
}

/** A key with `Shift` that has an effect on every screen, also in fields and dialogs. */
export interface GlobalKey extends Needing {
  /** `Escape`, as in `KeyboardEvent.key`. */
  readonly key: string
  readonly title: string
  readonly isAvailable: () => boolean
  readonly run: () => unknown
}

/** A column that a module adds to the list of tenants. It is shown if the user chooses it. */
export interface TenantColumn extends Needing {
  /** Its name in the address. */
  readonly key: string
  readonly title: string
  readonly align?: 'end'
  /** The call whose result all cells show: one request for the whole column. */
  readonly read?: OperationName
  readonly input?: Input<any>
  /** A cell. `data` is the result, undefined before the first response. */
  readonly view: View<ColumnProps>
}

export interface ColumnProps<Read extends OperationName = any> {
  readonly tenant: Result<'tenants.get'>
  readonly data: Result<Read> | undefined
}

type State = Readonly<Record<string, unknown>>

/** Gives an object its state of another time, by an ordinary operation. The page of a tenant at a time offers it. */
export interface Restoration<Read extends OperationName = any, Change extends OperationName = any> extends Needing {
  /** Kind of the object in the audit log: `featureFlag` of `featureFlag:new-checkout`. */
  readonly kind: string
  /** Text of the button if a kind has several. */
  readonly title?: string
  /** Reads the present object. */
  readonly read: Read
  readonly change: Change
  readonly readInput: (tenantId: string, name: string) => Input<Read>
  /**
   * The members that the change can set, of a recorded or the present state. Undefined: none.
   *
   * @param present the present object, if a recorded state is to be restored over it
   */
  readonly stateOf: (state: any, present?: Result<Read>) => State | undefined
  /** @param present undefined: the object does not exist */
  readonly changeInput: (tenantId: string, name: string, state: any, present?: Result<Read>) => Input<Change>
  /** Creates an object that does not exist now. Default: the change creates it. Null: it cannot be created. */
  readonly creation?: Creation | null
}

/** Creates an object again, with another id. */
export interface Creation<Create extends OperationName = any> {
  readonly create: Create
  /** Undefined: the recorded state lacks required members. */
  readonly createInput: (tenantId: string, state: any) => Input<Create> | undefined
  /** Secret of the new object, which is shown once. */
  readonly secretOf: (created: Result<Create>) => string | undefined
}

/** A link from a condition that needs an operator, such as failed deliveries. */
export interface IncidentLink extends Needing {
  readonly title: string
  /** @param since start of the condition, as an ISO time */
  readonly hrefOf: (since: string) => string
}

/** Amounts of a tenant by name and day, such as its metrics. Other modules take rates of forecasts from them. */
export interface DailyAmounts<Read extends OperationName = any> extends Needing {
  readonly read: Read
  /** @param days the first day, and the day after the last one */
  readonly input: (tenantId: string, days: { readonly from: string; readonly to: string }) => Input<Read>
  /** The newest first. Incomplete: older amounts are missing. */
  readonly amountsOf: (result: Result<Read>) => {
    readonly amounts: readonly DailyAmount[]
    readonly isComplete: boolean
  }
}

export interface DailyAmount {
  readonly key: string
  /** `2026-11-27` */
  readonly period: string
  readonly value: number
}

export interface ConsoleModule {
  /** Name of the part or satellite. */
  readonly name: string
  readonly screens?: readonly Screen[]
  readonly tabs?: readonly Tab[]
  /** Around the tabs of a tenant, with its header: of the tenants only. */
  readonly tenantFrame?: View
  /** Instead of all pages of a tenant if the address has `?at=`: the tenant at that time. Of one module only. */
  readonly tenantAt?: Card<{}>
  readonly restorations?: readonly Restoration[]
  /** Limits of a restoration by the kind of object in the audit log, such as secrets. The page of a tenant at a time shows them. */
  readonly restorationLimits?: Readonly<Record<string, string>>
  /** At conditions that need an operator. */
  readonly incidentLinks?: readonly IncidentLink[]
  readonly dailyAmounts?: DailyAmounts
  /** On the overview of a tenant. */
  readonly cards?: readonly Card<{ readonly id: string }>[]
  /** On Home. */
  readonly home?: readonly Card<{}>[]
  /** Lines in the header of a tenant. */
  readonly header?: readonly Card<{ readonly id: string }>[]
  /** Lines above every screen. */
  readonly bars?: readonly Card<{}>[]
  readonly actions?: readonly Action[]
  readonly palette?: readonly PaletteSource[]
  readonly keys?: readonly GlobalKey[]
  /** Of the list of tenants. */
  readonly columns?: readonly TenantColumn[]
  /**
   * Reads whose every change is an event of the stream: they are read again after one, and not by time. Others also show use, deliveries,
   * jobs or the time, which no event names.
   */
  readonly announced?: readonly OperationName[]
  /** Operations without a screen, each with the reason. */
  readonly notShown?: Readonly<Partial<Record<OperationName, string>>>
}

export type IconName =
  | 'home'
  | 'tenants'
  | 'deliveries'
  | 'flags'
  | 'quotas'
  | 'usage'
  | 'audit'
  | 'billing'
  | 'system'
  | 'transfers'
  | 'migrations'
  | 'plans'
  | 'key'
  | 'person'
  | 'host'
  | 'module'

export const defineConsoleModule = (module: ConsoleModule): ConsoleModule => module
