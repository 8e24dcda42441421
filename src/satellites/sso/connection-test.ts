/**
 * Tests a connection as far as possible without a user, so that an administrator can test settings before enabling them. A check that
 * depends on a failed one is omitted. The report never quotes the provider.
 */
import { z } from 'zod'
import type { Kernel } from '../../kernel/kernel.ts'
import { invalidEndpoints, ProviderDocument, type ProviderReader } from './provider-document.ts'
import { errorMessageOf, IdentityProviderError, otherIssuer } from './provider-failure.ts'
import { authenticationMethod } from './providers.ts'
import type { SsoRecords } from './records.ts'
import { isLoopbackHttp } from './settings.ts'
import { isShared } from './shared-issuers.ts'
import type { SsoRow } from './tables.ts'

/** Asymmetric signatures. Signatures with the client secret are rejected. */
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
  .object({ ok: z.boolean().meta({ description: 'Whether all checks passed' }), checks: z.array(Check) })
  .meta({ id: 'SsoConnectionReport' })
export type ConnectionReport = z.output<typeof ConnectionReport>

export async function testConnection(
  kernel: Kernel,
  records: SsoRecords,
  providers: ProviderReader,
  row: SsoRow | undefined,
): Promise<ConnectionReport> {
  const checks: Check[] = []
  for await (const check of look(kernel, records, providers, row)) checks.push(check)
  return { ok: checks.every(({ ok }) => ok), checks }
}

async function* look(
  kernel: Kernel,
  records: SsoRecords,
  providers: ProviderReader,
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
      : good('redirectUri', 'https; only a login shows whether the provider has it registered')
  }
  if (row.issuer !== null) yield peopleOf(row.issuer, row.allowedDomains)
  if (row.issuer === null || row.clientId === null) return
  yield* lookAtProvider(kernel, providers, row, row.issuer)
}

async function* lookAtProvider(
  kernel: Kernel,
  providers: ProviderReader,
  row: SsoRow,
  issuer: string,
): AsyncGenerator<Check> {
  let metadata: Readonly<Record<string, unknown>>
  try {
    metadata = await providers.metadata(issuer)
  } catch (error) {
    kernel.log.info({ tenantId: row.tenantId, reason: errorMessageOf(error) }, 'a discovery document could not be read')
    yield bad('discovery', discoveryErrorOf(error, issuer))
    return
  }
  yield good('discovery', 'the discovery document exists')
  yield metadata.issuer === issuer
    ? good('issuer', 'the document names the same issuer')
    : bad('issuer', issuerErrorOf(String(metadata.issuer), issuer))
  const invalid = invalidEndpoints(metadata, kernel.egress)
  yield invalid.length === 0
    ? good('endpoints', 'all endpoints exist and are allowed')
    : bad('endpoints', `missing or not allowed: ${invalid.join(', ')}`)
  const { success, data: document } = ProviderDocument.safeParse(metadata)
  if (!success) return
  yield includes(document.response_types_supported, 'code')
    ? good('flow', 'the provider supports the authorization code flow')
    : bad('flow', 'the provider does not support the authorization code flow')
  yield pkceOf(document.code_challenge_methods_supported)
  if (row.clientSecret !== null) yield clientOf(document.token_endpoint_auth_methods_supported)
  yield signaturesOf(document.id_token_signing_alg_values_supported)
  if (!invalid.includes('jwks_uri')) yield await keysAt(kernel, providers, row.tenantId, document)
}

function secretOf(records: SsoRecords, row: SsoRow): Check {
  try {
    return records.decryptSecret(row) === undefined
      ? good('secret', 'not set: a public client with PKCE')
      : good('secret', 'set; only a login shows whether it is correct')
  } catch {
    return bad('secret', 'its application key is not configured; set the secret again')
  }
}

function peopleOf(issuer: string, allowedDomains: readonly string[]): Check {
  if (allowedDomains.length > 0) return good('people', 'addresses of the allowed domains')
  return isShared(issuer)
    ? bad('people', 'anyone can register at this issuer: set allowedDomains')
    : good('people', 'every account of the issuer')
}

function signaturesOf(algorithms: readonly string[] | undefined): Check {
  if (algorithms === undefined) return good('signatures', 'the document has no list; RS256 is expected')
  const known = algorithms.filter((algorithm) => SIGNATURES.test(algorithm))
  return known.length > 0
    ? good('signatures', known.join(', '))
    : bad('signatures', 'the provider signs ID tokens with none of RS, PS, ES and EdDSA')
}

function pkceOf(methods: readonly string[] | undefined): Check {
  if (methods === undefined) return good('pkce', 'the document has no list; S256 is sent')
  return methods.includes('S256') ? good('pkce', 'S256') : bad('pkce', 'the provider does not support S256')
}

function clientOf(methods: readonly string[] | undefined): Check {
  const method = authenticationMethod(methods)
  return method === undefined
    ? bad('client', 'the provider supports neither client_secret_basic nor client_secret_post')
    : good('client', method)
}

async function keysAt(
  kernel: Kernel,
  providers: ProviderReader,
  tenantId: string,
  document: ProviderDocument,
): Promise<Check> {
  try {
    const count = await providers.countKeys(document)
    return count > 0
      ? good('keys', count === 1 ? '1 signing key' : `${count} signing keys`)
      : bad('keys', 'no signing key')
  } catch (error) {
    kernel.log.info({ tenantId, reason: errorMessageOf(error) }, "a provider's keys could not be read")
    return bad('keys', error instanceof IdentityProviderError ? error.message : 'the keys could not be read')
  }
}

function discoveryErrorOf(error: unknown, issuer: string): string {
  if (error instanceof IdentityProviderError) return error.message
  const statedIssuer = otherIssuer(error)
  return statedIssuer === undefined
    ? 'no discovery document at /.well-known/openid-configuration'
    : issuerErrorOf(statedIssuer, issuer)
}

const issuerErrorOf = (statedIssuer: string, issuer: string): string =>
  statedIssuer.replace(/\/$/, '') === issuer.replace(/\/$/, '')
    ? 'the document differs in the trailing slash of the issuer'
    : 'the document names another issuer'

const includes = (list: readonly string[] | undefined, name: string): boolean =>
  list === undefined || list.includes(name)
const good = (name: Check['name'], message: string): Check => ({ name, ok: true, message })
const bad = (name: Check['name'], message: string): Check => ({ name, ok: false, message })
