/** Validates the discovery document of a provider. */
import { z } from 'zod'
import type { Egress } from '../../kernel/egress/egress.ts'
import { IdentityProviderError } from './provider-failure.ts'

const names = z.array(z.string()).optional().catch(undefined)

/** All members that are kept. */
export const ProviderDocument = z.object({
  issuer: z.string(),
  authorization_endpoint: z.string(),
  token_endpoint: z.string(),
  jwks_uri: z.string(),
  userinfo_endpoint: z.string().optional(),
  response_types_supported: names,
  code_challenge_methods_supported: names,
  token_endpoint_auth_methods_supported: names,
  id_token_signing_alg_values_supported: names,
  authorization_response_iss_parameter_supported: z.boolean().optional().catch(undefined),
})
export type ProviderDocument = z.output<typeof ProviderDocument>

/** Reads of the doctor and of connection tests. Hosts see this type: it has no types of openid-client, which the package bundles. */
export interface ProviderReader {
  /** Checks the provider now, with a time limit; nothing is cached. @throws errors of provider-failure.ts */
  probe(issuer: string, timeoutMs: number): Promise<void>
  /** The unchecked document from the provider; nothing is cached. */
  metadata(issuer: string): Promise<Readonly<Record<string, unknown>>>
  /** Number of signing keys, from the provider without the cache. */
  countKeys(document: ProviderDocument): Promise<number>
}

const ENDPOINTS = ['authorization_endpoint', 'token_endpoint', 'jwks_uri', 'userinfo_endpoint'] as const

/** Endpoints that are missing or not allowed. The one for browsers follows the same rules. */
export function invalidEndpoints(metadata: Readonly<Record<string, unknown>>, egress: Egress): string[] {
  return ENDPOINTS.filter((name) => {
    const url = metadata[name]
    if (url === undefined) return name !== 'userinfo_endpoint'
    return typeof url !== 'string' || !isAllowed(url, egress)
  })
}

/** @param issuer as configured; the document must have exactly the same */
export function documentOf(
  metadata: Readonly<Record<string, unknown>>,
  issuer: string,
  egress: Egress,
): ProviderDocument {
  if (metadata.issuer !== issuer) throw new IdentityProviderError('the discovery document names another issuer', false)
  const [invalid] = invalidEndpoints(metadata, egress)
  if (invalid) throw new IdentityProviderError(`the discovery document has no allowed ${invalid}`, false)
  return ProviderDocument.parse(metadata)
}

function isAllowed(url: string, egress: Egress): boolean {
  try {
    egress.check(url)
    return true
  } catch {
    return false
  }
}
