import { describe, expect, test } from 'vitest'
import { dangerIn } from './css.ts'

describe('accepts a style sheet with', () => {
  test.each([
    ['', 'nothing'],
    [
      ':root { --brand: #1a2b3c } body > main a:hover::after { content: "\\201C"; color: var(--brand) }',
      'usual declarations',
    ],
    ['@media (width < 600px) and (400px <= width) { .sm\\:flex { display: flex } }', 'a comparison, an escaped class'],
    ['@supports (display: grid) { @layer brand { .a { color: red } } }', 'conditions and layers'],
    [
      'html { scroll-behavior: smooth; overscroll-behavior: none; transition-behavior: allow-discrete }',
      'current properties with behaviour in their names',
    ],
    ['.a { background: url(/img/bg.png), url( "../a b.png" ), url(\'x.svg\'), URL(#mask) }', 'paths of the own host'],
    ['.a { background: url(data:image/png;base64,iVBORw0KGgo=) }', 'embedded data'],
    [
      `.a { background: url("data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' fill='url(%23g)'/%3E") }`,
      'a drawing',
    ],
    [
      '@font-face { font-family: Brand; src: local("Brand"), url(/brand.woff2) format("woff2") }',
      'a font of the own host',
    ],
    ["@property --x { syntax: '\\3c color>'; inherits: true; initial-value: red }", 'an escaped <'],
    ['/* see https://example.com//page */ .a { content: "http://example.com" }', 'an address that is not loaded'],
    [
      '.image { color: red } .src { color: red } .import { color: red }',
      'words that are dangerous only in other positions',
    ],
  ])('%s', (css) => {
    expect(dangerIn(css)).toBeUndefined()
  })
})

describe('rejects a style sheet that could leave the <style> element:', () => {
  test.each([
    '</style><script>alert(1)</script>',
    'a { content: "</STYLE >" }',
    '/* </style */',
    '<!-- a {} -->',
    '<![CDATA[',
    'a { b: c } ]]> <img src=x>',
    '<img src=x onerror=alert(1)>',
    '<?xml-stylesheet href="x"?>',
    '@property --x { syntax: "<color>" }',
  ])('%s', (css) => {
    expect(dangerIn(css)).toMatch(/could end the <style> element/)
  })
})

describe('rejects a style sheet that loads from another host:', () => {
  test.each([
    '@import "https://evil.example/a.css";',
    '@IMPORT url(/own.css);',
    '@\\69mport "//evil.example"',
    '@im\\port "//evil.example"',
    '@\\000049\r\nMPORT "//evil.example"',
    '"/*"; @import "//evil.example"; "*/"',
    '/* \\*/@\\69mport "//evil.example"',
    '\\\n@\\69mport "//evil.example"',
    '/* \\69*/@i\\mport "//evil.example"',
  ])('%s', (css) => {
    expect(dangerIn(css)).toMatch(/@import/)
  })

  test.each([
    'url(https://evil.example/a.png)',
    'url( "http://evil.example" )',
    "URL('//evil.example')",
    'url(//evil.example)',
    'url(/\\evil.example)',
    'url("/\\/evil.example")',
    'url(\\\\evil.example)',
    'url("/\t/evil.example")',
    'url("\thttps://evil.example")',
    'url(https:evil.example)',
    'url(http:/evil.example)',
    'url(HTTPS:\\2f\\2f evil.example)',
    'url(ftp://evil.example/a)',
    'url(javascript:alert(1))',
    'url(blob:https://page.invalid/1)',
    'url("https://page.invalid@evil.example")',
    'url(https://[)',
    'url("a" crossorigin(anonymous))',
    'url("a',
    'url(',
    'url(a b)',
    'url(/own.png) url(//evil.example)',
    // an address inside a string that seems to contain it
    'content: "url("; background: url(https://evil.example); --x: ")"',
    'content: "url(\'"; background: url(https://evil.example); --x: "\')"',
    '/* url( */ background: url(//evil.example) /* ) */',
    '"/*" url(//evil.example) "*/"',
    'url("data:image/svg+xml,%3Csvg fill=\'url(https://evil.example)\'/%3E")',
  ])('background: %s', (value) => {
    expect(dangerIn(`a { background: ${value} }`)).toMatch(/url\(\) must have one plain address/)
  })

  test.each([
    'u\\72l(//evil.example)',
    '\\75\\72\\6c (/own.png)',
    'u\\000072 l(//evil.example)',
    '\\55RL(//evil.example)',
  ])('rejects an escaped url: %s', (value) => {
    expect(dangerIn(`a { background: ${value} }`)).toMatch(/url\(.* without escapes/)
  })

  test.each([
    'image-set("https://evil.example" 1x)',
    '-webkit-image-set("a.png" 1x)',
    'image-set(var(--stolen) 1x)',
    'image("//evil.example")',
    'src("//evil.example")',
    's\\72 c("//evil.example")',
  ])('%s', (value) => {
    expect(dangerIn(`a { background: ${value} }`)).toMatch(/addresses are not checked/)
  })
})

describe('rejects a style sheet that ran code in old browsers:', () => {
  test.each([
    'a { width: expression(alert(1)) }',
    'a { width: e\\78pression(alert(1)) }',
    'a { behavior: url(/own.htc) }',
    'a { -ms-behavior : url(/own.htc) }',
    'a { -moz-binding: url(/own.xml#x) }',
    "a { filter: progid:DXImageTransform.Microsoft.AlphaImageLoader(sizingMethod='scale') }",
  ])('%s', (css) => {
    expect(dangerIn(css)).toMatch(/run code/)
  })
})
