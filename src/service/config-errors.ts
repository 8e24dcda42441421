/** Errors of a configuration: of single keys, and between keys. */
import { statSync } from 'node:fs'
import type { z } from 'zod'
import type { AdminToken } from '../http/tokens.ts'
import type { Satellite } from '../tenancy/satellite.ts'
import { placementErrors } from './settings/isolation.ts'
import { CHECKS, type Configuration } from './settings.ts'

type Parsed = z.output<typeof Configuration>
type Issue = z.core.$ZodIssue

export type KnownSatellite = Pick<Satellite, 'name' | 'checks'>

/** Keys of built-in satellites. A list of satellites has their options. */
const OF_SATELLITES = [
  'audit',
  'billing',
  'featureFlags',
  'impersonation',
  'metrics.metrics',
  'metrics.retentionDays',
  'quotas',
  'settings',
  'sso',
  'webhooks',
]

export const validationErrorsOf = (error: z.ZodError, where: string): string[] =>
  error.issues
    .flatMap((issue) => leavesOf(issue))
    .map(({ path, message }) => `${where}${path.map(String).join('.') || '(whole)'}: ${message}`)

/** Errors of the form that was meant: the one whose type the value has. */
function leavesOf(issue: Issue): Pick<Issue, 'path' | 'message'>[] {
  if (issue.code !== 'invalid_union' || issue.errors.length === 0) return [issue]
  const forms = issue.errors.map((issues) => issues.flatMap((one) => leavesOf(one)))
  const meant =
    forms.find((issues) => issues.every(({ path }) => path.length > 0)) ??
    issue.errors.find((issues) =>
      issues.every(({ code }) => code === 'unrecognized_keys' || code === 'invalid_value'),
    ) ??
    forms.at(-1)
  return (meant ?? []).map(({ path, message }) => ({ path: [...issue.path, ...path], message }))
}

/** Parses each key separately, so that an error of one key does not hide errors of the others. */
export function validKeys<Shape extends z.ZodRawShape>(
  { shape }: z.ZodObject<Shape>,
  content: unknown,
): Partial<z.output<z.ZodObject<Shape>>> {
  const keys = Object.entries(typeof content === 'object' ? (content ?? {}) : {}).flatMap(([key, value]) => {
    const schema = Object.hasOwn(shape, key) ? (shape[key] as z.ZodType) : undefined
    const parsed = schema?.safeParse(value)
    return parsed?.success ? [[key, parsed.data]] : []
  })
  return Object.fromEntries(keys)
}

export const tokenOf = (token: string | undefined): AdminToken[] => (token ? [{ name: 'admin', token }] : [])

/** Errors that involve several keys. @param content all given keys */
export function errorsBetween(
  { migrations, placements = {}, health, ...valid }: Partial<Parsed>,
  content: unknown,
  givenToken: string | undefined,
  known: readonly KnownSatellite[] | undefined,
): string[] {
  const faults = [...tokenErrors(valid, givenToken), ...formErrors(valid, content)]
  if (typeof migrations === 'string' && !isFolder(migrations))
    faults.push(`migrations: folder ${migrations} not found; create it, or correct the path`)
  const { satellites: chosen = {}, billing } = valid
  if (isList(chosen)) faults.push(...chosen.flatMap(({ optionFaults = [] }) => optionFaults))
  if (known && !isList(chosen)) {
    const names = known.map(({ name }) => name)
    for (const name of Object.keys(chosen).filter((name) => !names.includes(name)))
      faults.push(`satellites: satellite "${name}" not found; the satellites are ${names.join(', ')}`)
  }
  const on = isList(chosen)
    ? chosen
    : known?.filter(({ name }) => chosen[name] !== false && (name !== 'billing' || billing !== undefined))
  const checks = on && [...CHECKS, ...on.flatMap((satellite) => Object.keys(satellite.checks ?? {}))]
  for (const name of health?.critical ?? []) {
    if (checks && !checks.includes(name))
      faults.push(`health.critical: check "${name}" not found; the checks are ${checks.join(', ')}`)
  }
  return [...faults, ...placementErrors(placements)]
}

function tokenErrors({ adminTokens = [] }: Partial<Parsed>, givenToken: string | undefined): string[] {
  const tokens = [...tokenOf(givenToken), ...adminTokens]
  return [
    ...repeated(tokens, 'name').map(({ name }) => `adminTokens: several tokens are named "${name}"`),
    ...repeated(tokens, 'token').map(
      ({ name }) => `adminTokens: the token of "${name}" is also the token of another name`,
    ),
    ...tokens
      .filter(({ scope, may }) => scope && may)
      .map(({ name }) => `adminTokens: "${name}" has scope and may; remove one of them`),
  ]
}

const repeated = (tokens: readonly AdminToken[], by: 'name' | 'token'): AdminToken[] =>
  tokens.filter((one, index) => tokens.findIndex((other) => other[by] === one[by]) < index)

/** Keys that are given in two forms, or have no effect in the given form. */
function formErrors(
  { isolation, defaultIsolation, satellites, service = {} }: Partial<Parsed>,
  content: unknown,
): string[] {
  const given = Object.keys(content ?? {})
  const ofService = Object.keys((content as { service?: object } | null)?.service ?? {})
  const twice = ofService.filter((key) => key in service && given.includes(key))
  const unused = isList(satellites) ? OF_SATELLITES.filter((key) => isGiven(content, key)) : []
  return [
    ...twice.map((key) => `service.${key}: also given as ${key}; remove one of them`),
    ...unused.map(
      (key) => `${key}: has no effect, because satellites is a list; pass it to the satellite or builtInSatellites`,
    ),
    ...(isolation && 'default' in isolation && isolation.default && defaultIsolation !== undefined
      ? ['defaultIsolation: also given as isolation.default; remove one of them']
      : []),
  ]
}

/** @param key with dots: `metrics.retentionDays` */
const isGiven = (content: unknown, key: string): boolean =>
  key.split('.').reduce<any>((value, name) => value?.[name], content) !== undefined

export const isList = <T>(value: T): value is Extract<T, readonly unknown[]> => Array.isArray(value)

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false

interface Values {
  readonly databaseUrl: string | undefined
  readonly appKey: string | undefined
}

/** @param content of the file; undefined if it is unreadable or no token is required */
export function missingInProduction(
  { databaseUrl, appKey }: Values,
  env: Readonly<Record<string, unknown>>,
  content: unknown,
): string[] {
  const { adminTokens = [], service } = (content ?? { adminTokens: undefined }) as Record<string, any>
  const tokens = service?.adminTokens ?? adminTokens
  const hasNone = content !== undefined && Array.isArray(tokens) && tokens.length === 0
  return [
    ...(databaseUrl || env.DATABASE_URL ? [] : ['DATABASE_URL: required in production']),
    ...(appKey || env.TENANTRY_APP_KEY ? [] : ['TENANTRY_APP_KEY: required in production (openssl rand -base64 32)']),
    ...(env.TENANTRY_ADMIN_TOKEN || !hasNone ? [] : ['TENANTRY_ADMIN_TOKEN or adminTokens: required in production']),
  ]
}

export const missingInLibrary = ({ databaseUrl, appKey }: Values): string[] => [
  ...(databaseUrl ? [] : ['database.url or DATABASE_URL: required']),
  ...(appKey ? [] : ['appKey or TENANTRY_APP_KEY: required (openssl rand -base64 32)']),
]
