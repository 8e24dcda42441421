/** The page of the console: without data, so it is public. Its first call reads the session. */
import { html, trusted } from '../pages/html.ts'
import { ICON_URL } from '../pages/icon.ts'
import type { Index } from './sources.ts'

export interface ShellPageOptions {
  readonly prefix: string
  readonly nonce: string
  readonly index: Index
  /** As `PageSettings` of the console. */
  readonly settings: { readonly name: string } & Readonly<Record<string, unknown>>
  readonly accent?: string | undefined
}

export function shellPage({ prefix, nonce, index, settings, accent }: ShellPageOptions): string {
  const url = (file: string) => `${prefix}/console/assets/${file}`
  const imports = Object.fromEntries(Object.entries(index.imports).map(([name, file]) => [name, url(file)]))
  const importMap = JSON.stringify({ imports }).replaceAll('<', '\\u003c')
  const links = [
    ...index.styles.map((file) => html`<link rel="stylesheet" nonce="${nonce}" href="${url(file)}">`),
    ...index.preloads.map((file) => html`<link rel="modulepreload" nonce="${nonce}" href="${url(file)}">`),
  ].join('\n')
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta property="csp-nonce" nonce="${nonce}">
<meta name="color-scheme" content="light dark">
<title>${settings.name}</title>
<link rel="icon" href="${ICON_URL}">
<script type="importmap" nonce="${nonce}">${trusted(importMap)}</script>
<script nonce="${nonce}" src="${url(index.early)}"></script>
${trusted(links)}
${trusted(accent ? html`<style nonce="${nonce}">:root { --brand: ${trusted(accent)} }</style>` : '')}
<script type="module" nonce="${nonce}" src="${url(index.main)}"></script>
</head>
<body>
<div id="console" data-settings="${JSON.stringify(settings)}"></div>
<noscript>The console needs JavaScript. The same actions are available as commands and over the API.</noscript>
</body>
</html>
`
}

/** While the console is built from source, or if that is impossible. */
export const messagePage = (nonce: string, message: string, isWaiting: boolean): string => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${trusted(isWaiting ? '<meta http-equiv="refresh" content="1">' : '')}
<title>Console</title>
<link rel="icon" href="${ICON_URL}">
<style nonce="${nonce}">
:root { color-scheme: light dark }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; font: 16px/1.5 system-ui, sans-serif }
</style>
</head>
<body><main><h1>Console</h1><p role="status">${message}</p></main></body>
</html>
`
