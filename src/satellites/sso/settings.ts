/** Schemas of the settings. The egress guard checks the issuer, and records.ts the callback. */
import { z } from 'zod'
import { canonicalDomain } from './domains.ts'

const URL_LENGTH = 2_048
const MAX_SCOPES = 20
const MAX_DOMAINS = 100
export const DEFAULT_SCOPES = ['openid', 'email', 'profile']

/** Characters that parsers remove or change, so that two of them could read different addresses. */
const UNCLEAR = /[\0-\x20\x7f\\]/
const LOOPBACK = ['localhost', '127.0.0.1', '[::1]']

const Issuer = z.string().max(URL_LENGTH).refine(isIssuer, 'must be an address without a query and a fragment').meta({
  description: 'https, exactly as in the discovery document of the provider, including a trailing slash',
  example: 'https://login.acme.example',
})

const ClientId = z
  .string()
  .regex(/^[\x20-\x7e]{1,255}$/, 'must be 1 to 255 visible ASCII characters')
  .meta({ description: 'Client id at the provider', example: 'tenantry' })

const ClientSecret = z
  .string()
  .regex(/^[\x20-\x7e]{1,1024}$/, 'must be 1 to 1,024 visible ASCII characters')
  .meta({ description: 'Never returned. If absent, it stays; null removes it (a public client with PKCE)' })

const RedirectUri = z
  .string()
  .max(URL_LENGTH)
  .refine(isRedirectUri, 'must be an https:// address without a query and a fragment')
  // It is sent twice and compared as text, and equal paths must have equal texts.
  .refine(
    (address) => !isRedirectUri(address) || URL.parse(address)?.href === address,
    'must be written in the form that browsers send: scheme and host in lower case and punycode, no default port, a path',
  )
  .meta({
    description:
      'Your callback, as registered at the provider. Its path must not belong to a tenant with another issuer. http only for loopback, in development',
    example: 'https://app.example/sso/callback/acme',
  })

const Scope = z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,100}$/, 'must be a scope')

const AllowedDomain = z
  .string()
  .max(253)
  .overwrite((text) => canonicalDomain(text) ?? text)
  .refine((text) => canonicalDomain(text) === text, 'must be a domain such as acme.example')

const distinct = (texts: readonly string[]): boolean => new Set(texts).size === texts.length

/** Complete state, except the secret: an absent member is null, empty or false. */
export const SsoRequest = z
  .strictObject({
    provider: z.literal('oidc').default('oidc'),
    issuer: Issuer.nullable().default(null),
    clientId: ClientId.nullable().default(null),
    clientSecret: ClientSecret.nullable().optional(),
    scopes: z
      .array(Scope)
      .max(MAX_SCOPES)
      .refine((scopes) => scopes.includes('openid'), 'must include openid')
      .refine(distinct, 'must not repeat a scope')
      .default(DEFAULT_SCOPES),
    redirectUri: RedirectUri.nullable().default(null),
    allowedDomains: z
      .array(AllowedDomain)
      .max(MAX_DOMAINS)
      .refine(distinct, 'must not repeat a domain')
      .default([])
      .meta({ description: 'Domains of verified mail addresses, without subdomains. Empty: any' }),
    enabled: z.boolean().default(false),
    enforced: z
      .boolean()
      .default(false)
      .meta({ description: 'Whether all users of the tenant must use single sign-on; your login checks `isEnforced`' }),
  })
  .check((context) => {
    const { value, issues } = context
    const fault = (path: string, message: string) =>
      issues.push({ code: 'custom', message, path: [path], input: value })
    if (value.enforced && !value.enabled) fault('enforced', 'requires enabled')
    if (!value.enabled) return
    for (const member of ['issuer', 'clientId', 'redirectUri'] as const) {
      if (value[member] === null) fault(member, 'is required when enabled')
    }
  })

export const SsoSettings = z
  .object({
    provider: z.literal('oidc'),
    issuer: z.string().nullable(),
    clientId: z.string().nullable(),
    clientSecretSet: z.boolean(),
    scopes: z.array(z.string()),
    redirectUri: z.string().nullable(),
    allowedDomains: z.array(z.string()),
    enabled: z.boolean(),
    enforced: z.boolean(),
  })
  .meta({ id: 'Sso' })
export type SsoSettings = z.output<typeof SsoSettings>

export const isLoopbackHttp = (address: string): boolean => {
  const url = URL.parse(address)
  return url?.protocol === 'http:' && LOOPBACK.includes(url.hostname)
}

function isIssuer(address: string): boolean {
  return !UNCLEAR.test(address) && !/[?#]/.test(address) && URL.canParse(address)
}

function isRedirectUri(address: string): boolean {
  if (UNCLEAR.test(address) || /[?#]/.test(address) || !/^https?:\/\/[^/]/i.test(address)) return false
  const url = URL.parse(address)
  const isPlain = url?.username === '' && url.password === ''
  return isPlain && (url.protocol === 'https:' || isLoopbackHttp(address))
}
