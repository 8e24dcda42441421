/**
 * Defines a tenancy as data: one definition for the program, the ready-made service and commands.
 *
 *   defineTenancy(config) ──► definition ──start()──► running tenancy
 *                                 └── tenantry --app ./tenancy.ts <command>
 */

import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { z } from 'zod'
import type { NamesOf } from '../tenancy/names.ts'
import type { AnySatellite, Satellite } from '../tenancy/satellite.ts'
import type { Tables } from '../tenancy/tables.ts'
import { createTenancy as startTenancy, type Tenancy, type TenancyConfig } from '../tenancy/tenancy.ts'
import type { Tenant } from '../tenants/handles/handle.ts'
import type { PlansConfig } from '../tenants/registry/plans.ts'
import { resolveConfig } from './config.ts'
import type { Configuration } from './settings.ts'
import { tenancyConfigOf } from './tenancy-config.ts'

/** Content of a definition. docs/reference/settings.md lists its keys. */
export interface Config<
  DB = any,
  P extends PlansConfig = PlansConfig,
  S extends readonly AnySatellite[] = readonly AnySatellite[],
> extends Omit<z.input<typeof Configuration>, 'tables' | 'plans' | 'satellites'> {
  /** Tables of tenants, as a type: `tables<Database>()`. Default: any tables. */
  readonly tables?: Tables<DB>
  /** Plans and their limits: names of plans and quotas are inferred from it. */
  readonly plans?: P & { readonly defaultPlan: string extends P['defaultPlan'] ? string : keyof P['definitions'] }
  /** Exactly these satellites, or all built-in satellites but those with `false`. Default: none. */
  readonly satellites?: S | Readonly<Record<string, boolean>>
}

export interface StartOptions {
  /** `api` serves, `worker` runs jobs, `all` does both. Default: `role` of the definition, `TENANTRY_ROLE`, `all`. */
  readonly role?: 'all' | 'api' | 'worker'
}

/** A tenancy that is not started, with the types of its tables, plans and satellites. */
export interface Definition<
  DB = any,
  P extends PlansConfig = PlansConfig,
  S extends readonly AnySatellite[] = readonly Satellite[],
> {
  readonly config: Config<DB, P, S>
  /** Directory of relative paths. Absent: the working directory, of programs and of commands. */
  readonly directory: string | undefined
  /** Absent: only for the compiler. `Register` reads it. */
  readonly types?: { readonly tenant: Tenant<DB, NamesOf<P, S>> }
  /**
   * Starts the tenancy in this process. A value from the environment applies where the definition has none.
   *
   * @throws an error with all faults of the configuration, before anything is opened
   */
  start(options?: StartOptions): Promise<Tenancy<S, DB, P>>
}

/**
 * Declares a tenancy. Nothing runs and nothing is opened until `start()`. The compiler infers the names of plans and
 * quotas, and those that satellites declare: flags, events, metrics, settings.
 *
 * @param module relative paths are relative to its file
 * @example
 *   // tenancy.ts
 *   export default defineTenancy(
 *     {
 *       tables: tables<Database>(),
 *       isolation: ['schema-pg'],
 *       migrations: './migrations',
 *       plans: { defaultPlan: 'free', definitions: { free: { limits: { exports: 10 } }, pro: { limits: {} } } },
 *       satellites: [quotas(), featureFlags({ flags: ['new-editor'] })],
 *     },
 *     import.meta,
 *   )
 *   // app.ts
 *   const tenancy = await definition.start()
 *   await tenancy.quotas.consume('acme', 'exports')
 */
export function defineTenancy<
  DB = any,
  const P extends PlansConfig = PlansConfig,
  const S extends readonly AnySatellite[] = [],
>(config: Config<DB, P, S>, module?: { readonly url: string }): Definition<DB, P, S> {
  const directory = module && dirname(fileURLToPath(module.url))
  return { config, directory, start: (options) => start(config, directory, options) }
}

/** Defines and starts a tenancy: `defineTenancy(config, module).start()`. */
export const createTenancy = <
  DB = any,
  const P extends PlansConfig = PlansConfig,
  const S extends readonly AnySatellite[] = [],
>(
  config: Config<DB, P, S>,
  module?: { readonly url: string },
): Promise<Tenancy<S, DB, P>> => defineTenancy(config, module).start()

const start = async <DB, P extends PlansConfig, S extends readonly AnySatellite[]>(
  content: Config<DB, P, S>,
  base: string | undefined,
  options?: StartOptions,
): Promise<Tenancy<S, DB, P>> => {
  assertNodeVersion()
  const config = await configurationOf(content, base, process.env, options)
  return startTenancy(config) as Promise<unknown> as Promise<Tenancy<S, DB, P>>
}

/**
 * The configuration of a tenancy.
 *
 * @param base directory of relative paths. Default: the working directory
 * @param env values that the content has not
 * @throws an error with all faults
 */
export async function configurationOf<S extends readonly AnySatellite[]>(
  content: Config<any, any, S>,
  base = process.cwd(),
  env: Readonly<Record<string, string | undefined>>,
  { role }: StartOptions = {},
): Promise<TenancyConfig<S>> {
  const builtIn = Array.isArray(content?.satellites ?? []) ? undefined : await import('./satellites.ts')
  const config = await resolveConfig(
    { content, base, isDefinition: true },
    { env, directory: process.cwd(), satellites: builtIn?.satellites, isLibrary: true },
  )
  const { databaseUrl: url = '', appKey = '', logger } = config
  const satellites = builtIn?.satellitesOn(config) ?? (config.satellites as readonly Satellite[])
  const given = { url, appKey, satellites, role: role ?? config.role, logger }
  return tenancyConfigOf(config, given) as Promise<unknown> as Promise<TenancyConfig<S>>
}

/** Also Bun and Deno name the version of Node.js that they are compatible with. */
export function assertNodeVersion(version: string = process.versions.node): void {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major < 22 || (major === 22 && minor < 19))
    throw new Error(`tenantry needs Node 22.19 or later, this is ${version}`)
}
