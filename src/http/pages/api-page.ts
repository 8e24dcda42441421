/**
 * The interactive OpenAPI page: Scalar's API reference, from our own origin, under a strict policy.
 *
 * Whoever reads it is signed in with the session cookie, and "Send" acts with that cookie. So the page asks for no
 * token: Scalar's panels for one are hidden, and the empty x-admin-token header that Scalar sends for the declared
 * security scheme is taken off again, or it would be judged instead of the cookie. The samples keep the header, as they
 * are for callers without a browser.
 *
 * Scalar calls its maker's hosts unless told not to, feature by feature; the policy (security-headers.ts) would stop it
 * too, and the test sees that nothing is even tried.
 */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { html, trusted } from './html.ts'
import { ICON_URL } from './icon.ts'

const SCALAR_VERSION = '1.72.1'
const SCALAR_FILE = new URL(`./vendor/scalar-api-reference-${SCALAR_VERSION}.js.gz`, import.meta.url)

export interface ApiPageOptions {
  /** The path under which the admin API is mounted, without a slash at its end: /admin/multitenancy */
  readonly prefix: string
  readonly nonce: string
  readonly title: string
}

export interface ApiPageAsset {
  readonly body: Buffer
  /** Answer 304 without the body when it equals If-None-Match. It differs for each encoding. */
  readonly etag: string
  readonly headers: Record<string, string>
}

/** Reads `{prefix}/openapi.json` and `{prefix}/openapi/reference.js`. */
export function apiPage({ prefix, nonce, title }: ApiPageOptions): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta property="csp-nonce" content="${nonce}">
<title>${title}</title>
<link rel="icon" href="${ICON_URL}">
<style nonce="${nonce}">${trusted(STYLE)}</style>
</head>
<body>
<noscript>This page needs JavaScript. The document itself is at <a href="${prefix}/openapi.json">openapi.json</a>.</noscript>
<div id="reference" data-document="${prefix}/openapi.json"></div>
<script nonce="${nonce}">${trusted(BEFORE_SCALAR)}</script>
<script nonce="${nonce}" src="${prefix}/openapi/reference.js?v=${SCALAR_VERSION}"></script>
<script nonce="${nonce}">${trusted(START_SCALAR)}</script>
</body>
</html>
`
}

/** What `{prefix}/openapi/reference.js` answers: gzip as it lies on the disk, or inflated for who does not take gzip. */
export function apiPageAsset(acceptEncoding: string | null | undefined): ApiPageAsset {
  return acceptsGzip(acceptEncoding ?? '') ? gzipped() : inflated()
}

const STYLE = `
body { margin: 0 }
.scalar-reference-intro-auth, .request-section-content > :first-child { display: none !important }
`

/**
 * zod, inside Scalar, tries eval to learn whether it may, and every try is a violation: jitless says no at once.
 * Scalar gives the nonce to one of its <style> elements; its toasts, editor and themes add theirs without.
 */
const BEFORE_SCALAR = `
globalThis.__zod_globalConfig = { jitless: true }
const createElement = document.createElement
const { nonce } = document.currentScript
document.createElement = function (...args) {
  const element = createElement.apply(this, args)
  if (element instanceof HTMLStyleElement) element.nonce = nonce
  return element
}
`

const START_SCALAR = `
Scalar.createApiReference('#reference', {
  url: document.querySelector('#reference').dataset.document,
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: 'never',
  proxyUrl: '',
  persistAuth: false,
  customFetch(input, init) {
    const request = new Request(input, { ...init, credentials: 'same-origin' })
    request.headers.delete('x-admin-token')
    return fetch(request)
  },
})
`

let gzippedAsset: ApiPageAsset | undefined
let inflatedAsset: ApiPageAsset | undefined

function gzipped(): ApiPageAsset {
  gzippedAsset ??= asset(readFileSync(SCALAR_FILE), 'gzip')
  return gzippedAsset
}

function inflated(): ApiPageAsset {
  inflatedAsset ??= asset(gunzipSync(gzipped().body), 'identity')
  return inflatedAsset
}

function asset(body: Buffer, encoding: 'gzip' | 'identity'): ApiPageAsset {
  const etag = `"scalar-${SCALAR_VERSION}-${encoding}"`
  const headers: Record<string, string> = {
    'content-type': 'text/javascript; charset=utf-8',
    // Private: it lies behind the sign-in like the page. For good: the page asks for it by version.
    'cache-control': 'private, max-age=31536000, immutable',
    vary: 'accept-encoding',
    'x-content-type-options': 'nosniff',
    etag,
  }
  if (encoding === 'gzip') headers['content-encoding'] = 'gzip'
  return { body, etag, headers }
}

/** RFC 9110, 12.5.3. Without the header anything would do; plain is what every client reads. */
function acceptsGzip(acceptEncoding: string): boolean {
  const weights = new Map<string, number>()
  for (const item of acceptEncoding.toLowerCase().split(',')) {
    const [coding = '', ...parameters] = item.split(';').map((part) => part.trim())
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1'
    weights.set(coding, Number(weight))
  }
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0
}
