/** Defines satellites: optional parts of a tenancy whose services use the tenants. */
import { commandsOf } from '../kernel/api/projection.ts'
import type { DottedNameOf } from '../kernel/events/dotted-names.ts'
import type { EventType } from '../kernel/events/events.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { Part } from '../kernel/part-definition.ts'
import { settingText } from '../kernel/processes/settings.ts'
import type { Names } from '../tenants/tenant/names.ts'
import type { Tenants } from '../tenants/tenants.ts'

export type { AnyOperation } from '../kernel/api/operation.ts'
export type { Received, Receiver } from '../kernel/part-definition.ts'
export type { Names } from '../tenants/tenant/names.ts'

/** The name is camelCase: `tenancy.auditLogs` is its service. */
export interface Satellite<Name extends string = string, Service = any, Published extends string = string>
  extends Part<Name, Service, Tenants> {
  readonly summary: string
  /** Absent: dotted names of its events, only for the compiler. */
  readonly published?: readonly Published[]
  /** Options that the processes of a backoffice must share, by name, as text without secrets. */
  readonly sharedOptions?: Readonly<Record<string, string>>
  /** Faults of its options, which a start reports with all others. Its service cannot be created. */
  readonly optionFaults?: readonly string[]
}

/** Any satellite, as a constraint. Not generic: the inference of names in a list of satellites would widen them to `string`. */
export interface AnySatellite {
  readonly name: string
  readonly summary: string
  readonly service: (kernel: Kernel, tenants: Tenants) => unknown
}

/** A service whose type depends on the declared names: `service` is a function of `this['names']`. */
export interface ServiceType {
  readonly names: Names
  readonly service: unknown
}

/** The service for some names. */
export type ServiceFor<Type extends ServiceType, N extends Names> = (Type & { readonly names: N })['service']

/** A satellite of Tenantry with a `ServiceType`, and the names that its options declare. */
export interface NamedSatellite<
  Name extends string,
  Type extends ServiceType,
  Declared = {},
  Published extends string = never,
> extends Satellite<Name, any, Published> {
  /** Absent: only for the compiler. */
  readonly types?: { readonly service: Type; readonly declared: Declared }
}

/**
 * Declares a satellite; the compiler infers its name, the type of its service and the names of its events. Commands of operations precede
 * `commands`, unless `commands` contains them at another position.
 *
 * @example
 *   const notes = defineSatellite({ name: 'notes', summary: 'Keeps notes', service: (kernel) => new Notes(kernel) })
 */
export function defineSatellite<const Name extends string, Service, Type extends EventType = never>(
  satellite: Satellite<Name, Service, never> & { readonly events?: readonly Type[] },
): Satellite<Name, Service, DottedNameOf<Type>> {
  const { operations = [], commands = [] } = satellite
  const projected = commandsOf(operations).filter(({ name }) => !commands.some((one) => one.name === name))
  return { ...satellite, commands: [...projected, ...commands] }
}

/** `sharedOptions` of plain options: each value as JSON. Options without a value are left out. Give it no secret. */
export const optionTexts = (options: object): Record<string, string> =>
  Object.fromEntries(
    Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [[name, settingText(value)]])),
  )
