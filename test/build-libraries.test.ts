/** Checks what the build records of a bundled library: its licences, and its component in CycloneDX. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { originOf } from '../build-libraries.ts'

async function packageWith(license: string, files: readonly string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tenantry-library-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: '@acme/parts', version: '1.2.3', license }))
  for (const file of files) {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), `text of ${file}\n`)
  }
  return folder
}

test('the licences are those of the package and its parts, without those of nested packages', async () => {
  const files = ['LICENSE', 'lib/part/LICENSE.md', 'node_modules/other/LICENSE', 'lib/node_modules/@acme/one/license']
  const { texts } = originOf(await packageWith('MIT', files))
  expect(texts).toEqual([
    '@acme/parts 1.2.3 (MIT)\n\ntext of LICENSE\n',
    '@acme/parts 1.2.3, lib/part\n\ntext of lib/part/LICENSE.md\n',
  ])
})

test('a package whose only licences are those of nested packages is an error', async () => {
  const folder = await packageWith('MIT', ['node_modules/other/LICENSE'])
  expect(() => originOf(folder)).toThrow('the package @acme/parts contains no licence')
})

test.each([
  ['MIT', { license: { id: 'MIT' } }],
  ['(MIT OR CC0-1.0)', { expression: '(MIT OR CC0-1.0)' }],
])('the licence %s is an identifier or an expression in CycloneDX', async (license, expected) => {
  const { component } = originOf(await packageWith(license, ['LICENSE']))
  expect(component).toEqual({
    type: 'library',
    'bom-ref': 'pkg:npm/%40acme/parts@1.2.3',
    name: '@acme/parts',
    version: '1.2.3',
    purl: 'pkg:npm/%40acme/parts@1.2.3',
    licenses: [expected],
  })
})
