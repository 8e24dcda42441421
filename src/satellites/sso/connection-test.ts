/**
 * What stands in the way of a login, as far as it can be told without a person: an admin tries settings before enabling them. What
 * cannot be looked at for what failed before it is left out. Nothing of a provider's own words is answered.
 */
import { z } from 'zod'
import type { Kernel } from '../../kernel/kernel.ts'
import { invalidEndpoints, ProviderDocument } from './provider-document.ts'
import { IdentityProviderError, otherIssuer, wordsOf } from './provider-failure.ts'
import { authenticationMethod, type Providers } from './providers.ts'
import type { SsoRecords } from './records.ts'
import { isLoopbackHttp } from './settings.ts'
import { isShared } from './shared-issuers.ts'
import type { SsoRow } from './tables.ts'

/** Of a key that everybody may know; those of the client's secret are refused. */
const SIGNATURES = /^([RPE]S(256|384|512)|EdDSA|Ed25519)$/

const Check = z.object({
  name: z.enum([
    'settings',
    'secret',
    'redirectUri',
    'people',
    'discovery',
    'issuer',
    'endpoints',
    'flow',
    'pkce',
    'client',
    'signatures',
    'keys',
  ]),
  ok: z.boolean(),
  message: z.string(),
})
type Check = z.output<typeof Check>

export const ConnectionReport = z
  .object({ ok: z.boolean().meta({ description: 'Whether every check is' }), checks: z.array(Check) })
  .meta({ id: 'SsoConnectionReport' })
export type ConnectionReport = z.output<typeof ConnectionReport>

export async function testConnection(
  kernel: Kernel,
  records: SsoRecords,
  providers: Providers,
  row: SsoRow | undefined,
): Promise<ConnectionReport> {
  const checks: Check[] = []
  for await (const check of look(kernel, records, providers, row)) checks.push(check)
  return { ok: checks.every(({ ok }) => ok), checks }
}

async function* look(
  kernel: Kernel,
  records: SsoRecords,
  providers: Providers,
  row: SsoRow | undefined,
): AsyncGenerator<Check> {
  const missing = (['issuer', 'clientId', 'redirectUri'] as const).filter((member) => (row?.[member] ?? null) === null)
  yield missing.length > 0
    ? bad('settings', `not set: ${missing.join(', ')}`)
    : good('settings', 'issuer, clientId and redirectUri are set')
  if (!row) return
  const secret = secretOf(records, row)
  yield secret
  if (row.redirectUri !== null) {
    yield isLoopbackHttp(row.redirectUri)
      ? good('redirectUri', 'http, for development only')
      : good('redirectUri', 'https; whether the provider has it registered shows a login alone')
  }
  if (row.issuer !== null) yield peopleOf(row.issuer, row.allowedDomains)
  if (row.issuer === null || row.clientId === null) return
  yield* lookAtProvider(kernel, providers, row, row.issuer)
}

async function* lookAtProvider(
  kernel: Kernel,
  providers: Providers,
  row: SsoRow,
  issuer: string,
): AsyncGenerator<Check> {
  let metadata: Readonly<Record<string, unknown>>
  try {
    metadata = await providers.metadata(issuer)
  } catch (error) {
    kernel.log.info({ tenantId: row.tenantId, reason: wordsOf(error) }, 'a discovery document could not be read')
    yield bad('discovery', discoveryErrorOf(error, issuer))
    return
  }
  yield good('discovery', 'the discovery document is there')
  yield metadata.issuer === issuer
    ? good('issuer', 'the document names the same issuer')
    : bad('issuer', issuerErrorOf(String(metadata.issuer), issuer))
  const invalid = invalidEndpoints(metadata, kernel.egress)
  yield invalid.length === 0
    ? good('endpoints', 'all are there and may be called')
    : bad('endpoints', `missing, or may not be called: ${invalid.join(', ')}`)
  const { success, data: document } = ProviderDocument.safeParse(metadata)
  if (!success) return
  yield includes(document.response_types_supported, 'code')
    ? good('flow', 'the provider has the authorization code flow')
    : bad('flow', 'the provider does not have the authorization code flow')
  yield pkceOf(document.code_challenge_methods_supported)
  if (row.clientSecret !== null) yield clientOf(document.token_endpoint_auth_methods_supported)
  yield signaturesOf(document.id_token_signing_alg_values_supported)
  if (!invalid.includes('jwks_uri')) yield await keysAt(kernel, providers, row.tenantId, document)
}

function secretOf(records: SsoRecords, row: SsoRow): Check {
  try {
    return records.decryptSecret(row) === undefined
      ? good('secret', 'none is set: a public client, by PKCE alone')
      : good('secret', 'it is set; whether it is the right one shows a login alone')
  } catch {
    return bad('secret', 'it is sealed under an application key that is not configured; set it again')
  }
}

function peopleOf(issuer: string, allowedDomains: readonly string[]): Check {
  if (allowedDomains.length > 0) return good('people', 'of the domains that are allowed')
  return isShared(issuer)
    ? bad('people', 'everybody has an account at this issuer: name the domains that are allowed')
    : good('people', 'whoever has an account at the issuer')
}

function signaturesOf(algorithms: readonly string[] | undefined): Check {
  if (algorithms === undefined) return good('signatures', 'the document does not say; RS256 is expected')
  const known = algorithms.filter((algorithm) => SIGNATURES.test(algorithm))
  return known.length > 0
    ? good('signatures', known.join(', '))
    : bad('signatures', 'the provider signs ID tokens with none of RS, PS, ES and EdDSA')
}

function pkceOf(methods: readonly string[] | undefined): Check {
  if (methods === undefined) return good('pkce', 'the document does not say; S256 is sent all the same')
  return methods.includes('S256') ? good('pkce', 'S256') : bad('pkce', 'the provider does not have S256')
}

function clientOf(methods: readonly string[] | undefined): Check {
  const method = authenticationMethod(methods)
  return method === undefined
    ? bad('client', 'the provider takes a secret neither as client_secret_basic nor as client_secret_post')
    : good('client', method)
}

async function keysAt(
  kernel: Kernel,
  providers: Providers,
  tenantId: string,
  document: ProviderDocument,
): Promise<Check> {
  try {
    const count = await providers.countKeys(document)
    return count > 0
      ? good('keys', count === 1 ? '1 key that can sign' : `${count} keys that can sign`)
      : bad('keys', 'none of the keys can sign')
  } catch (error) {
    kernel.log.info({ tenantId, reason: wordsOf(error) }, "a provider's keys could not be read")
    return bad('keys', error instanceof IdentityProviderError ? error.message : 'the keys cannot be read')
  }
}

function discoveryErrorOf(error: unknown, issuer: string): string {
  if (error instanceof IdentityProviderError) return error.message
  const statedIssuer = otherIssuer(error)
  return statedIssuer === undefined
    ? 'there is no discovery document at /.well-known/openid-configuration'
    : issuerErrorOf(statedIssuer, issuer)
}

const issuerErrorOf = (statedIssuer: string, issuer: string): string =>
  statedIssuer.replace(/\/$/, '') === issuer.replace(/\/$/, '')
    ? 'the document names it otherwise: they differ in the slash at the end'
    : 'the document names another issuer'

const includes = (list: readonly string[] | undefined, name: string): boolean =>
  list === undefined || list.includes(name)
const good = (name: Check['name'], message: string): Check => ({ name, ok: true, message })
const bad = (name: Check['name'], message: string): Check => ({ name, ok: false, message })
