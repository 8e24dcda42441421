/**
 * What a page of ours may do in a browser: run the scripts that carry its nonce, talk to its own origin, and nothing else.
 *
 * - No 'unsafe-eval' and no 'unsafe-inline' for scripts, on any page.
 * - <style> elements need the nonce. The API page alone also allows style="" attributes: Scalar sets four while it
 *   starts (a scroll bar probe, Vue's static markup), and a nonce cannot stand on an attribute. An attribute styles one
 *   element and has no selectors, and img-src lets nothing out, so it cannot read a page and send it off.
 * - No form is ever submitted by the browser itself (scripts do it with fetch), so form-action is 'none': a token cannot
 *   reach a URL or another host even when our script did not run.
 */
import { randomBytes } from 'node:crypto'

export type Page = 'sign-in' | 'api'

const NONCE_BYTES = 18
const NONCE = /^[A-Za-z0-9_-]{22,}$/

/** A new one for every answer. */
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
  }
}

function contentSecurityPolicy(page: Page, nonce: string): string {
  if (!NONCE.test(nonce)) throw new TypeError('a nonce is at least 22 characters of base64url, as pageNonce() makes it')
  return [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src-elem 'nonce-${nonce}'`,
    `style-src-attr ${page === 'api' ? "'unsafe-inline'" : "'none'"}`,
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}
