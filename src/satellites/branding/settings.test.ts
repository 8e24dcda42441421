import { describe, expect, test } from 'vitest'
import { BrandingRequest, NO_BRANDING } from './settings.ts'

describe('rejects', () => {
  const longHost = `https://${'a'.repeat(60)}.example/`
  test.each([
    ['displayName', ''],
    ['displayName', '   '],
    ['displayName', 'a'.repeat(201)],
    ['displayName', 7],
    ['displayName', 'left\u202eright'],
    ['fromName', 'Acme\r\nBcc: all@acme.example'],
    ['fromName', 'Acme\n'],
    ['fromName', 'tab\there'],
    ['fromName', 'next\u0085line'],
    ['fromName', 'line\u2028separator'],
    ['fromName', '\u007f'],
    ['fromEmail', 'acme'],
    ['fromEmail', 'a@b'],
    ['fromEmail', 'Acme <a@acme.example>'],
    ['fromEmail', 'a@acme.example\r\nBcc: b@acme.example'],
    ['fromEmail', 'a@acme.example\n'],
    ['fromEmail', 'a@acme.example, b@acme.example'],
    ['fromEmail', `${'a'.repeat(250)}@acme.example`],
    ['supportEmail', ''],
    ['logoUrl', 'http://acme.example/logo.svg'],
    ['logoUrl', '//acme.example/logo.svg'],
    ['logoUrl', '/logo.svg'],
    ['logoUrl', 'https:acme.example'],
    ['logoUrl', 'https://'],
    ['logoUrl', 'javascript:alert(1)//https://'],
    ['logoUrl', 'data:image/png;base64,AA=='],
    ['faviconUrl', 'https://user:secret@acme.example/'],
    ['faviconUrl', 'https://acme.example/" onerror="alert(1)'],
    ['faviconUrl', "https://acme.example/'-alert(1)-'"],
    ['faviconUrl', 'https://acme.example/a b'],
    ['faviconUrl', 'https://acme.example/\n'],
    ['faviconUrl', 'https://acme\u0000.example/'],
    ['supportUrl', longHost.padEnd(2_049, 'a')],
    ['primaryColor', 'red'],
    ['primaryColor', '#fff'],
    ['primaryColor', '#1a2b3c4d'],
    ['primaryColor', '#1a2b3g'],
    ['accentColor', '#1a2b3c;}'],
    ['accentColor', '#1a2b3c\n'],
    ['customCss', '</style>'],
    ['customCss', '@import "https://evil.example"'],
    ['customCss', 'a { color: red } \u0007'],
    ['customCss', `/*${'ä'.repeat(32 * 1024)}*/`],
  ])('%s %j', (member, value) => {
    const { error } = BrandingRequest.safeParse({ [member]: value })
    expect(error?.issues.map(({ path }) => path)).toContainEqual([member])
  })
})

test('accepts values of the maximum length unchanged', () => {
  const longest = {
    ...NO_BRANDING,
    displayName: 'ä'.repeat(200),
    logoUrl: 'https://acme.example/'.padEnd(2_048, 'a'),
    customCss: `/*${'ä'.repeat(32 * 1024 - 2)}*/`,
  }
  expect(BrandingRequest.parse(longest)).toEqual(longest)
})

test('removes blanks around names, and keeps characters inside', () => {
  const names = ['O’Hara & “Söhne” 🏳️‍🌈', 'شركة أكمي', '株式会社アクメ', 'Acme, Inc. <"x">']
  for (const name of names) expect(BrandingRequest.parse({ fromName: ` ${name} ` }).fromName).toBe(name)
})
