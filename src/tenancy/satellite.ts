/** The shape of a satellite: a part of a tenancy that is optional, and whose service uses the tenants. */
import { commandsOf } from '../kernel/api/projection.ts'
import type { Part } from '../kernel/part-definition.ts'
import type { Tenants } from '../tenants/tenants.ts'

export type { AnyOperation } from '../kernel/api/operation.ts'
export type { Received, Receiver } from '../kernel/part-definition.ts'

/** Its name is camelCase: `tenancy.auditLogs` is its service. */
export interface Satellite<Name extends string = string, Service = any> extends Part<Name, Service, Tenants> {
  readonly summary: string
}

/**
 * Declares a satellite; the compiler infers its name and the type of its service. Commands of operations precede `commands`, unless
 * `commands` contains them at another position.
 */
export function defineSatellite<const Name extends string, Service>(
  satellite: Satellite<Name, Service>,
): Satellite<Name, Service> {
  const { operations = [], commands = [] } = satellite
  const projected = commandsOf(operations).filter(({ name }) => !commands.some((one) => one.name === name))
  return { ...satellite, commands: [...projected, ...commands] }
}

/** The services of a list of satellites, by name. */
export type ServicesOf<Satellites extends readonly Satellite[]> = {
  readonly [One in Satellites[number] as One['name']]: ReturnType<One['service']>
}
