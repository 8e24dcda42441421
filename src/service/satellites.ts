/**
 * Lists all built-in satellites: the only file that imports them.
 *
 * @example
 *   import { builtInSatellites } from 'tenantry/satellites'
 *   defineTenancy({ satellites: [...builtInSatellites({ sso: false, webhooks: { maxAttempts: 8 } }), announcements()] })
 */
import { type InputError, InvalidRequest, invalid, type TenancyError } from '../kernel/base/errors.ts'
import type { NamedSatellite, Satellite } from '../tenancy/satellite.ts'
import { ConfigurationError } from './config.ts'

/** Deleting a folder and its line here removes exactly that feature. */
const modules = await Promise.all([
  import('../satellites/audit-logs/index.ts'),
  import('../satellites/billing/index.ts'),
  import('../satellites/branding/index.ts'),
  import('../satellites/feature-flags/index.ts'),
  import('../satellites/impersonation/index.ts'),
  import('../satellites/metrics/index.ts'),
  import('../satellites/quotas/index.ts'),
  import('../satellites/settings/index.ts'),
  import('../satellites/sso/index.ts'),
  import('../satellites/webhooks/index.ts'),
])

type BuiltIn = ReturnType<(typeof modules)[number]['default']>

/** Without options, for declarations. */
export const satellites: readonly Satellite[] = modules.map(({ default: satellite }) =>
  (satellite as () => Satellite)(),
)

/** Satellites without usable defaults: enabled only by their settings. */
const ONLY_CONFIGURED: ReadonlySet<string> = new Set(['billing'])

/** Settings keys that differ from the satellite's name. */
const SETTINGS_OF: Readonly<Record<string, string>> = { auditLogs: 'audit' }

/** Options of satellites by their keys in the configuration; `false` disables one. */
export type BuiltInOptions = {
  readonly [One in (typeof modules)[number] as KeyOf<ReturnType<One['default']>['name']>]?:
    | Parameters<One['default']>[0]
    | false
}

type KeyOf<Name> = Name extends 'auditLogs' ? 'audit' : Name & string

/** Keys of `Options` that are `false`, and `billing` if it has no options. */
type Disabled<Options> =
  | { [Key in keyof Options]: Options[Key] extends false ? Key : never }[keyof Options]
  | ('billing' extends keyof Options ? never : 'billing')

/** Names that options declare. It names no satellite's module, because a folder can be deleted. */
interface DeclaredBy<Options> {
  readonly flag: Options extends { readonly featureFlags: { readonly flags: readonly (infer Flag)[] } } ? Flag : never
  readonly event: Options extends { readonly webhooks: { readonly events: infer Events } } ? Events : never
  readonly metric: Options extends { readonly metrics: { readonly metrics: readonly (infer Key)[] } } ? Key : never
  readonly quota: Options extends { readonly quotas: { readonly unlimited: readonly (infer Quota)[] } } ? Quota : never
  readonly setting: Options extends { readonly settings: { readonly define: infer Define } } ? Define : never
}

/** The satellites with these declared names in place of their own, which are those of any options. */
type WithDeclared<One, Declared> =
  One extends NamedSatellite<infer Name, infer Type, any, infer Published>
    ? 'types' extends keyof One
      ? NamedSatellite<Name, Type, Declared, Published>
      : One
    : One

/**
 * The satellites of Tenantry, each with its options: all except those with `false`, and `billing` only with options. A start reports
 * invalid options and unknown names, together with all faults of the definition.
 *
 * @example builtInSatellites({ sso: false, audit: { retentionDays: 400 }, featureFlags: { flags: ['new-editor'] } })
 */
export function builtInSatellites<const Options extends BuiltInOptions = {}>(
  options?: Options,
): WithDeclared<Exclude<BuiltIn, { readonly name: NameOf<Disabled<Options>> }>, DeclaredBy<Options>>[] {
  const given: Readonly<Record<string, unknown>> = options ?? {}
  const keys = satellites.map(({ name }) => keyOf(name))
  const unknown = Object.keys(given).filter((key) => !keys.includes(key))
  const message = (key: string) => `satellite "${key}" not found; the satellites are ${keys.join(', ')}`
  return [
    ...made((name) => given[keyOf(name)]),
    ...unknown.map((name) =>
      rejected({ name, summary: '' }, invalid([{ path: 'builtInSatellites', message: message(name) }])),
    ),
  ] as any
}

/** In place of a satellite that cannot be created. */
const rejected = (satellite: Pick<Satellite, 'name' | 'summary'>, error: TenancyError): Satellite => ({
  ...satellite,
  optionFaults: (error.extras.errors as InputError[]).map(({ path, message }) => `${path}: ${message}`),
  service: () => {
    throw error
  },
})

type NameOf<Key> = Key extends 'audit' ? 'auditLogs' : Key

const keyOf = (name: string): string => SETTINGS_OF[name] ?? name

interface Chosen {
  /** Path of the configuration, for errors. */
  readonly file?: string | undefined
  /** `{ <name>: false }`, or exactly these satellites. */
  readonly satellites: Readonly<Record<string, boolean>> | readonly Satellite[]
}

/**
 * Satellites that the configuration enables, each with its options.
 *
 * @throws ConfigurationError for invalid options
 */
export function satellitesOn(config: Chosen): readonly Satellite[] {
  const { satellites: chosen, file } = config
  if (isList(chosen)) return chosen
  const on = made((name) =>
    chosen[name] === false ? false : (config as unknown as Record<string, unknown>)[keyOf(name)],
  )
  const faults = on.flatMap(({ optionFaults = [] }) => optionFaults)
  if (faults.length > 0) {
    throw new ConfigurationError(faults.map((fault) => `${file === undefined ? '' : `${file}: `}${fault}`))
  }
  return on
}

const isList = (chosen: Chosen['satellites']): chosen is readonly Satellite[] => Array.isArray(chosen)

/** @param optionsOf false: disabled */
function made(optionsOf: (name: string) => unknown): Satellite[] {
  return satellites.flatMap((satellite, index) => {
    const { name } = satellite
    const options = optionsOf(name)
    if (options === false || (options === undefined && ONLY_CONFIGURED.has(name))) return []
    const create = modules[index]?.default as ((options?: any) => Satellite) | undefined
    try {
      return create?.(options) ?? []
    } catch (error) {
      if (!InvalidRequest.matches(error)) throw error
      return rejected(satellite, error)
    }
  })
}
