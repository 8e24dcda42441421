/**
 * Domains of mail addresses, for the gate of a tenant's single sign-on. Compared are whole domains in one spelling: lower case,
 * punycode. What a parser of host names would read as something else than what is written (full-width letters, a soft hyphen,
 * `acme.com/x`, `127.1`) is no domain here, so that nobody passes for somebody by a spelling.
 */
import { domainToASCII, domainToUnicode } from 'node:url'
import { HOST_NAME } from '../../tenants/tenant/tenant.ts'

const MAX_EMAIL_LENGTH = 320
/** Of ASCII, what no label has. */
const NOT_IN_DOMAIN = /[\0-,/:-`{-\x7f]/
/** White space, control characters, and what only a quoted local part may hold. */
const NOT_IN_EMAIL = /[\p{Z}\p{Cc}\p{Cf}"(),:;<>[\\\]]/u

/** In its one spelling; undefined when it is no domain of the public DNS. */
export function canonicalDomain(text: string): string | undefined {
  const written = text.toLowerCase().normalize('NFC')
  if (NOT_IN_DOMAIN.test(written)) return undefined
  const ascii = domainToASCII(written)
  if (!HOST_NAME.test(ascii) || !/\.[^.]*[a-z][^.]*$/.test(ascii)) return undefined
  return ascii === written || domainToUnicode(ascii) === written ? ascii : undefined
}

/** The domain of a mail address; undefined where there is any doubt which one that is. */
export function domainOfEmail(email: string): string | undefined {
  if (email.length > MAX_EMAIL_LENGTH || NOT_IN_EMAIL.test(email)) return undefined
  const [local, domain, ...more] = email.split('@')
  return local && domain && more.length === 0 ? canonicalDomain(domain) : undefined
}

/** @param allowed in their one spelling; none: any */
export function isAllowedEmail(
  { email, emailVerified }: { readonly email: string | null; readonly emailVerified: boolean },
  allowed: readonly string[],
): boolean {
  if (allowed.length === 0) return true
  if (email === null || !emailVerified) return false
  const domain = domainOfEmail(email)
  return domain !== undefined && allowed.includes(domain)
}
