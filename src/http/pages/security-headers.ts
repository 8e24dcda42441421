/**
 * The security headers of the pages: a page runs only scripts with its nonce and connects only to its own origin.
 *
 * - Scripts never have 'unsafe-eval' or 'unsafe-inline'.
 * - <style> elements need the nonce. Only the API page also allows style="" attributes: Scalar sets four at its start, and an attribute
 *   cannot have a nonce. An attribute has no selectors, and img-src blocks external images, so it cannot read and send data.
 * - Scripts submit forms with fetch, so form-action is 'none': a token cannot reach a URL or another host if the script fails.
 */
import { randomBytes } from 'node:crypto'

export type Page = 'sign-in' | 'api' | 'console'

const NONCE_BYTES = 18
const NONCE = /^[A-Za-z0-9_-]{22,}$/

/** A new nonce for every response. */
export function pageNonce(): string {
  return randomBytes(NONCE_BYTES).toString('base64url')
}

export function securityHeaders(page: Page, nonce: string): Record<string, string> {
  return {
    'content-security-policy': contentSecurityPolicy(page, nonce),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
    'x-frame-options': 'DENY',
    ...(page === 'console'
      ? { 'cross-origin-opener-policy': 'same-origin', 'permissions-policy': 'clipboard-write=(self)' }
      : {}),
  }
}

function contentSecurityPolicy(page: Page, nonce: string): string {
  if (!NONCE.test(nonce)) throw new TypeError('a nonce must have at least 22 characters of base64url; use pageNonce()')
  return [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src${page === 'console' ? '' : '-elem'} 'nonce-${nonce}'`,
    `style-src-attr ${page === 'api' ? "'unsafe-inline'" : "'none'"}`,
    "connect-src 'self'",
    `img-src ${page === 'console' ? '' : "'self' "}data:`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    ...(page === 'console' ? ["require-trusted-types-for 'script'", "trusted-types 'none'"] : []),
  ].join('; ')
}
