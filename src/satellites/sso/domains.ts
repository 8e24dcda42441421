/**
 * Compares domains of mail addresses with a tenant's allowed domains, as whole domains in canonical form: lower case, punycode.
 * Text that a host name parser would change (full-width letters, a soft hyphen, `acme.com/x`, `127.1`) is rejected, because it could
 * imitate an allowed domain.
 */
import { domainToASCII, domainToUnicode } from 'node:url'
import { HOST_NAME } from '../../tenants/tenant/tenant.ts'

const MAX_EMAIL_LENGTH = 320
/** ASCII characters that no label has. */
const NOT_IN_DOMAIN = /[\0-,/:-`{-\x7f]/
/** White space, control characters, and characters of quoted local parts. */
const NOT_IN_EMAIL = /[\p{Z}\p{Cc}\p{Cf}"(),:;<>[\\\]]/u

/** Canonical form; undefined for text that is no domain of the public DNS. */
export function canonicalDomain(text: string): string | undefined {
  const written = text.toLowerCase().normalize('NFC')
  if (NOT_IN_DOMAIN.test(written)) return undefined
  const ascii = domainToASCII(written)
  if (!HOST_NAME.test(ascii) || !/\.[^.]*[a-z][^.]*$/.test(ascii)) return undefined
  return ascii === written || domainToUnicode(ascii) === written ? ascii : undefined
}

/** Domain of a mail address; undefined if it is ambiguous. */
export function domainOfEmail(email: string): string | undefined {
  if (email.length > MAX_EMAIL_LENGTH || NOT_IN_EMAIL.test(email)) return undefined
  const [local, domain, ...more] = email.split('@')
  return local && domain && more.length === 0 ? canonicalDomain(domain) : undefined
}

/** @param allowed in canonical form; empty: any */
export function isAllowedEmail(
  { email, emailVerified }: { readonly email: string | null; readonly emailVerified: boolean },
  allowed: readonly string[],
): boolean {
  if (allowed.length === 0) return true
  if (email === null || !emailVerified) return false
  const domain = domainOfEmail(email)
  return domain !== undefined && allowed.includes(domain)
}
