/**
 * The interactive OpenAPI page: Scalar's API reference from the same origin, under a strict policy.
 *
 * - The reader has a session cookie, and "Send" uses it. Scalar's token panels are hidden, and its empty x-admin-token header is removed
 *   because it would take precedence over the cookie. The samples keep the header for callers without a browser.
 * - Scalar calls hosts of its vendor unless each feature is disabled. The policy (security-headers.ts) blocks such calls, too.
 */
import { join } from 'node:path'
import { html, trusted } from './html.ts'
import { ICON_URL } from './icon.ts'
import { packedFile } from './packed-file.ts'

const SCALAR_VERSION = '1.72.1'
const SCALAR_PATH = join(import.meta.dirname, `vendor/scalar-api-reference-${SCALAR_VERSION}.js`)

export interface ApiPageOptions {
  /** Mount path of the admin API without a trailing slash: /admin/multitenancy */
  readonly prefix: string
  readonly nonce: string
  readonly title: string
}

export interface ApiPageAsset {
  readonly body: Buffer<ArrayBuffer>
  /** Respond with 304 if it equals If-None-Match. It differs for each encoding. */
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

/** The response of `{prefix}/openapi/reference.js`. */
export async function apiPageAsset(acceptEncoding: string): Promise<ApiPageAsset> {
  const { body, encoding, headers } = await packedFile(SCALAR_PATH, acceptEncoding)
  const etag = `"scalar-${SCALAR_VERSION}-${encoding}"`
  return {
    body,
    etag,
    headers: {
      'content-type': 'text/javascript; charset=utf-8',
      // Private, because it requires a session. Immutable, because its URL contains the version.
      'cache-control': 'private, max-age=31536000, immutable',
      'x-content-type-options': 'nosniff',
      etag,
      ...headers,
    },
  }
}

const STYLE = `
body { margin: 0 }
.scalar-reference-intro-auth, .request-section-content > :first-child { display: none !important }
`

/**
 * zod in Scalar tests eval, and every test is a violation of the policy: jitless prevents it.
 * Scalar sets the nonce on one of its <style> elements. Its toasts, editor and themes add elements without it.
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
