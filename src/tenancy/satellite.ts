/** Defines satellites: optional parts of a tenancy whose services use the tenants. */
import { commandsOf } from '../kernel/api/projection.ts'
import type { Part } from '../kernel/part-definition.ts'
import { settingText } from '../kernel/processes/settings.ts'
import type { Tenants } from '../tenants/tenants.ts'

export type { AnyOperation } from '../kernel/api/operation.ts'
export type { Received, Receiver } from '../kernel/part-definition.ts'

/** The name is camelCase: `tenancy.auditLogs` is its service. */
export interface Satellite<Name extends string = string, Service = any> extends Part<Name, Service, Tenants> {
  readonly summary: string
  /** Options that the processes of a backoffice must share, by name, as text without secrets. */
  readonly sharedOptions?: Readonly<Record<string, string>>
}

/**
 * Declares a satellite; the compiler infers its name and the type of its service. Commands of operations precede
 * `commands`, unless `commands` contains them at another position.
 *
 * @example
 *   const notes = defineSatellite({ name: 'notes', summary: 'Keeps notes', service: (kernel) => new Notes(kernel) })
 */
export function defineSatellite<const Name extends string, Service>(
  satellite: Satellite<Name, Service>,
): Satellite<Name, Service> {
  const { operations = [], commands = [] } = satellite
  const projected = commandsOf(operations).filter(({ name }) => !commands.some((one) => one.name === name))
  return { ...satellite, commands: [...projected, ...commands] }
}

/** `sharedOptions` of plain options: each value as JSON. Options without a value are left out. Give it no secret. */
export const optionTexts = (options: object): Record<string, string> =>
  Object.fromEntries(
    Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [[name, settingText(value)]])),
  )

/** The services of a list of satellites, by name. */
export type ServicesOf<Satellites extends readonly Satellite[]> = {
  readonly [One in Satellites[number] as One['name']]: ReturnType<One['service']>
}
