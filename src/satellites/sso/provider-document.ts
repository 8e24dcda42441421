/** What is kept of a provider's discovery document, and when it is one that logins can go by. */
import { z } from 'zod'
import type { Egress } from '../../kernel/egress/egress.ts'
import { IdentityProviderError } from './provider-failure.ts'

const names = z.array(z.string()).optional().catch(undefined)

/** Nothing else of it is kept. */
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

const ENDPOINTS = ['authorization_endpoint', 'token_endpoint', 'jwks_uri', 'userinfo_endpoint'] as const

/** Those that are missing, or that may not be called. The one that browsers are sent to is judged in the same way. */
export function invalidEndpoints(metadata: Readonly<Record<string, unknown>>, egress: Egress): string[] {
  return ENDPOINTS.filter((name) => {
    const url = metadata[name]
    if (url === undefined) return name !== 'userinfo_endpoint'
    return typeof url !== 'string' || !isAllowed(url, egress)
  })
}

/** @param issuer as it is configured; the document has to say the same, to the letter */
export function documentOf(
  metadata: Readonly<Record<string, unknown>>,
  issuer: string,
  egress: Egress,
): ProviderDocument {
  if (metadata.issuer !== issuer)
    throw new IdentityProviderError('the discovery document is that of another issuer', false)
  const [invalid] = invalidEndpoints(metadata, egress)
  if (invalid) throw new IdentityProviderError(`the discovery document has no ${invalid} that may be called`, false)
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
