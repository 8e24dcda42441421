/**
 * The settings of a tenant's single sign-on: what is let in, and what is shown. Whether the issuer may be called says the egress guard,
 * and whether the callback is free, records.ts.
 */
import { z } from 'zod'
import { canonicalDomain } from './domains.ts'

const URL_LENGTH = 2_048
const MAX_SCOPES = 20
const MAX_DOMAINS = 100
export const DEFAULT_SCOPES = ['openid', 'email', 'profile']

/** What some programs leave out or turn, so that two of them would read two addresses. */
const UNCLEAR = /[\0-\x20\x7f\\]/
const LOOPBACK = ['localhost', '127.0.0.1', '[::1]']

const Issuer = z.string().max(URL_LENGTH).refine(isIssuer, 'not an address without a query and a fragment').meta({
  description: 'https, exactly as the provider writes it in its discovery document, a slash at its end included',
  example: 'https://login.acme.example',
})

const ClientId = z
  .string()
  .regex(/^[\x20-\x7e]{1,255}$/, 'not 1 to 255 visible ASCII characters')
  .meta({ description: 'As the provider has registered it', example: 'tenantry' })

const ClientSecret = z
  .string()
  .regex(/^[\x20-\x7e]{1,1024}$/, 'not 1 to 1,024 visible ASCII characters')
  .meta({ description: 'Never answered. Left out it stays; null removes it (a public client, by PKCE alone)' })

const RedirectUri = z
  .string()
  .max(URL_LENGTH)
  .refine(isRedirectUri, 'not an https:// address without a query and a fragment')
  // As it is sent twice, and compared as text; and two of them are one path only when they are one text.
  .refine(
    (address) => !isRedirectUri(address) || URL.parse(address)?.href === address,
    'not written as a browser asks for it: scheme and host in lower case and punycode, no default port, a path',
  )
  .meta({
    description:
      "Of your callback, as the provider has registered it; its path may not be one of another issuer's. http only for loopback, in development",
    example: 'https://app.example/sso/callback/acme',
  })

const Scope = z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,100}$/, 'not a scope')

const AllowedDomain = z
  .string()
  .max(253)
  .overwrite((text) => canonicalDomain(text) ?? text)
  .refine((text) => canonicalDomain(text) === text, 'not a domain like acme.example')

const distinct = (texts: readonly string[]): boolean => new Set(texts).size === texts.length

/** Full state, but for the secret: a member that is left out is null, empty or false. */
export const SsoRequest = z
  .strictObject({
    provider: z.literal('oidc').default('oidc'),
    issuer: Issuer.nullable().default(null),
    clientId: ClientId.nullable().default(null),
    clientSecret: ClientSecret.nullable().optional(),
    scopes: z
      .array(Scope)
      .max(MAX_SCOPES)
      .refine((scopes) => scopes.includes('openid'), 'openid is not among them')
      .refine(distinct, 'a scope is named twice')
      .default(DEFAULT_SCOPES),
    redirectUri: RedirectUri.nullable().default(null),
    allowedDomains: z
      .array(AllowedDomain)
      .max(MAX_DOMAINS)
      .refine(distinct, 'a domain is named twice')
      .default([])
      .meta({ description: 'Of verified mail addresses; exact, not those below. Empty: any' }),
    enabled: z.boolean().default(false),
    enforced: z
      .boolean()
      .default(false)
      .meta({ description: 'That nobody of the tenant may come in by another way; your login asks `isEnforced`' }),
  })
  .check((context) => {
    const { value, issues } = context
    const fault = (path: string, message: string) =>
      issues.push({ code: 'custom', message, path: [path], input: value })
    if (value.enforced && !value.enabled) fault('enforced', 'only together with enabled')
    if (!value.enabled) return
    for (const member of ['issuer', 'clientId', 'redirectUri'] as const) {
      if (value[member] === null) fault(member, 'needed when enabled')
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
