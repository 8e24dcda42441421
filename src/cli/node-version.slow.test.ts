/** Tests the program on a version of Node.js that is too old. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { programPath } from '../../test/setup/not-run.ts'
import { assertNodeVersion } from '../service/definition.ts'

const OLD_NODE = programPath('nodejs')
const SOURCE = new URL('./main.ts', import.meta.url)
const DEFINITION = new URL('../service/definition.ts', import.meta.url)
const PACKAGE = new URL('../../package.json', import.meta.url)

test.runIf(OLD_NODE)('an older Node.js prints the required version and ends with 2', () => {
  const directory = mkdtempSync(join(tmpdir(), 'tenantry-node-'))
  try {
    const file = join(directory, 'main.mjs')
    writeFileSync(file, stripTypeScriptTypes(readFileSync(SOURCE, 'utf8')))
    const { status, stdout, stderr } = spawnSync(OLD_NODE ?? '', [file, 'serve'], { encoding: 'utf8' })
    const { stdout: version } = spawnSync(OLD_NODE ?? '', ['--version'], { encoding: 'utf8' })
    expect(stderr).toBe(`tenantry needs Node 22.19 or later, this is ${version.trim().slice(1)}\n`)
    expect([status, stdout]).toEqual([2, ''])
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('a tenancy starts on the versions of the package only', () => {
  expect(() => assertNodeVersion('22.18.9')).toThrow('tenantry needs Node 22.19 or later, this is 22.18.9')
  for (const version of ['22.19.0', '24.0.0', '100.1.0']) expect(() => assertNodeVersion(version)).not.toThrow()
})

test.each([SOURCE, DEFINITION])('the version that %s requires is that of the package', (source) => {
  const { engines } = JSON.parse(readFileSync(PACKAGE, 'utf8'))
  const [, version] = /needs Node ([\d.]+) or later/.exec(readFileSync(source, 'utf8')) ?? []
  expect(engines.node).toBe(`>=${version}`)
})
