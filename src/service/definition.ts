/**
 * Defines a tenancy as data: one definition for the program, the ready-made service and commands.
 *
 *   defineTenancy(config) ──► definition ──start()──► running tenancy
 *                                 └── tenantry --app ./tenancy.ts <command>
 */

import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { z } from 'zod'
import type { Satellite } from '../tenancy/satellite.ts'
import { createTenancy as startTenancy, type Tenancy } from '../tenancy/tenancy.ts'
import { resolveConfig } from './config.ts'
import type { Configuration } from './settings.ts'
import { tenancyConfigOf } from './tenancy-config.ts'

/** Content of a definition. docs/reference/settings.md lists its keys. */
export interface Config<Satellites extends readonly Satellite[] = readonly Satellite[]>
  extends Omit<z.input<typeof Configuration>, 'satellites'> {
  /** Exactly these satellites, or all built-in satellites but those with `false`. Default: none. */
  readonly satellites?: Satellites | Readonly<Record<string, boolean>>
}

export interface StartOptions {
  /** `api` serves, `worker` runs jobs, `all` does both. Default: `role` of the definition, `TENANTRY_ROLE`, `all`. */
  readonly role?: 'all' | 'api' | 'worker'
}

/** A tenancy that is not started. */
export interface Definition<Satellites extends readonly Satellite[] = readonly Satellite[]> {
  readonly config: Config<Satellites>
  /** Directory of relative paths. Absent: the working directory, of programs and of commands. */
  readonly directory: string | undefined
  /**
   * Starts the tenancy in this process. A value from the environment applies where the definition has none.
   *
   * @throws an error with all faults of the configuration, before anything is opened
   */
  start(options?: StartOptions): Promise<Tenancy<Satellites>>
}

/**
 * Declares a tenancy. Nothing runs and nothing is opened until `start()`.
 *
 * @param module relative paths are relative to its file
 * @example
 *   // tenancy.ts
 *   export default defineTenancy({ isolation: ['schema-pg'], migrations: './migrations' }, import.meta)
 *   // app.ts
 *   const tenancy = await definition.start()
 */
export function defineTenancy<const Satellites extends readonly Satellite[] = []>(
  config: Config<Satellites>,
  module?: { readonly url: string },
): Definition<Satellites> {
  const directory = module && dirname(fileURLToPath(module.url))
  return { config, directory, start: (options) => start(config, directory, options) }
}

/** Defines and starts a tenancy: `defineTenancy(config, module).start()`. */
export const createTenancy = <const Satellites extends readonly Satellite[] = []>(
  config: Config<Satellites>,
  module?: { readonly url: string },
): Promise<Tenancy<Satellites>> => defineTenancy(config, module).start()

async function start<Satellites extends readonly Satellite[]>(
  content: Config<Satellites>,
  base = process.cwd(),
  { role }: StartOptions = {},
): Promise<Tenancy<Satellites>> {
  assertNodeVersion()
  const builtIn = Array.isArray(content?.satellites ?? []) ? undefined : await import('./satellites.ts')
  const config = await resolveConfig(
    { content, base, isDefinition: true },
    { env: process.env, directory: process.cwd(), satellites: builtIn?.satellites, isLibrary: true },
  )
  const { databaseUrl: url = '', appKey = '', logger } = config
  const satellites = builtIn?.satellitesOn(config) ?? (config.satellites as readonly Satellite[])
  const given = { url, appKey, satellites, role: role ?? config.role, logger }
  return startTenancy(await tenancyConfigOf(config, given)) as Promise<Tenancy<Satellites>>
}

/** Also Bun and Deno name the version of Node.js that they are compatible with. */
export function assertNodeVersion(version: string = process.versions.node): void {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major < 22 || (major === 22 && minor < 19))
    throw new Error(`tenantry needs Node 22.19 or later, this is ${version}`)
}
