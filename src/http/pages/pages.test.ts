/** The pages as text: escaping, the Content-Security-Policy, the script that is served. pages.slow.test.ts opens them in a browser. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { apiPage, apiPageAsset } from './api-page.ts'
import { pageNonce, securityHeaders } from './security-headers.ts'
import { signInPage } from './sign-in-page.ts'

test('every value is escaped', () => {
  const options = { prefix: '/a"><script>x</script>', nonce: `"'><b>`, title: '</title><i>&', home: '"onload="x' }
  for (const page of [apiPage(options), signInPage(options)]) {
    expect(page).not.toMatch(/<script>x|<b>|<i>|="x/)
    expect(page).toContain('&lt;/title&gt;&lt;i&gt;&amp;')
  }
})

test('the policy allows scripts only with a nonce, and inline styles only as attributes of the API page', () => {
  const nonce = pageNonce()
  const policy = securityHeaders('api', nonce)['content-security-policy'] ?? ''
  expect(policy).toContain(`script-src 'nonce-${nonce}';`)
  expect(policy.match(/[a-z-]+ 'unsafe-[a-z-]+'/g)).toEqual(["style-src-attr 'unsafe-inline'"])
  expect(securityHeaders('sign-in', nonce)['content-security-policy']).not.toContain('unsafe')
  expect(pageNonce()).not.toBe(nonce)
  expect(() => securityHeaders('api', "x'; script-src *")).toThrow(TypeError)
})

const DECODERS = { br: brotliDecompressSync, gzip: gunzipSync, identity: (body: Buffer) => body }

test.each<[string, keyof typeof DECODERS]>([
  ['gzip, deflate, br', 'br'],
  ['br;q=0, *;q=0.1', 'gzip'],
  ['GZIP;Q=0.5', 'gzip'],
  ['gzip;q=0, *', 'br'],
  ['gzip;q=0, identity', 'identity'],
  ['', 'identity'],
])('the response to accept-encoding %j has the encoding %s', async (accepted, encoding) => {
  const { body, headers, etag } = await apiPageAsset(accepted)
  expect(headers['content-encoding'] ?? 'identity').toBe(encoding)
  expect(headers.etag).toBe(etag)
  expect(etag).not.toBe((await apiPageAsset(encoding === 'gzip' ? 'br' : 'gzip')).etag)
  const notice = readFileSync(new URL('./vendor/NOTICE.md', import.meta.url), 'utf8')
  expect(notice).toContain(createHash('sha256').update(DECODERS[encoding](body)).digest('hex'))
})
