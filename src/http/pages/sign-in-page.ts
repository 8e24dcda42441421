/**
 * The page that exchanges an admin token, or the code of a sign-in link, for a session cookie.
 *
 *   typed token ──────────────► POST {prefix}/session { token } ──2xx──────► to the requested page
 *   opened with #code=... ────► POST {prefix}/session { code }  ──otherwise─► the detail of the problem, read out; field focused
 *
 * It is {prefix}/sign-in, and the response to any page below the prefix without a session. The token is only in the password field and
 * in one request body. A code is removed from the address bar, and so from the history, before its use.
 */
import { html, trusted } from './html.ts'
import { ICON_SVG, ICON_URL } from './icon.ts'
import { SIGN_IN_SCRIPT } from './sign-in-script.ts'
import { SIGN_IN_STYLE } from './sign-in-style.ts'

export interface SignInPageOptions {
  /** Mount path of the admin API without a trailing slash: /admin/multitenancy */
  readonly prefix: string
  readonly nonce: string
  /** Name of the application. */
  readonly title?: string
  /** Destination after {prefix}/sign-in. */
  readonly home?: string
}

export function signInPage({
  prefix,
  nonce,
  title = 'Tenantry',
  home = `${prefix}/openapi`,
}: SignInPageOptions): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<title>Sign in · ${title}</title>
<link rel="icon" href="${ICON_URL}">
<style nonce="${nonce}">${trusted(SIGN_IN_STYLE)}</style>
</head>
<body>
<main>
<div class="mark">${trusted(ICON_SVG)}</div>
<h1>Sign in to ${title}</h1>
<p class="lead">Open the admin API in this browser.</p>
<form method="post" action="${prefix}/session" novalidate data-sign-in="${prefix}/sign-in" data-home="${home}">
<label for="token">Admin token</label>
<input id="token" name="token" type="password" autocomplete="current-password" autocapitalize="none" spellcheck="false"
  required autofocus aria-describedby="error">
<p id="error" class="error" role="alert"></p>
<button type="submit"><span class="spinner" aria-hidden="true"></span><span>Sign in</span></button>
<p class="status" role="status"></p>
</form>
<p class="note">The token is exchanged for a session of this browser and is not stored here.</p>
<noscript><p class="error">Signing in needs JavaScript. A program sends the token as <code>x-admin-token</code>.</p></noscript>
</main>
<script nonce="${nonce}">${trusted(SIGN_IN_SCRIPT)}</script>
</body>
</html>
`
}
