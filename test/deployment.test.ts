/** The examples of a deployment, as far as they can be checked without containers. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { Environment } from '../src/service/settings.ts'
import { programPath } from './setup/not-run.ts'

const EXAMPLES = join(import.meta.dirname, '../examples/deployment')
const ROOT = join(import.meta.dirname, '..')
const read = (file: string) => readFile(join(EXAMPLES, file), 'utf8')
const files = ['Dockerfile', 'compose.yaml', 'tenantry@.service']

test.each(files)('%s sets only what the service reads', async (file) => {
  const text = await read(file)
  const named = text.match(/\b(?:TENANTRY|DATABASE|REDIS|NODE|LOG)_[A-Z_]+\b/g) ?? []
  expect(named.length).toBeGreaterThan(0)
  for (const name of new Set(named)) expect(Object.keys(Environment.shape), `${file}: ${name}`).toContain(name)
})

test('what the image runs is what the package has', async () => {
  const text = await read('Dockerfile')
  const { bin, scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const program = bin.tenantry.replace('./', '')
  for (const file of ['Dockerfile', 'tenantry@.service'])
    expect(await read(file)).toContain(`node_modules/tenantry/${program}`)
  expect(scripts.build).toBeDefined()
  for (const [, copied = ''] of text.matchAll(/^COPY (?!--from)((?:\S+ )+)\S+$/gm)) {
    for (const path of copied.trim().split(' ')) expect(existsSync(join(ROOT, path)), path).toBe(true)
  }
})

test('the compose file has two of each, and names the Dockerfile', async () => {
  const text = await read('compose.yaml')
  expect(text.match(/deploy: \{ replicas: 2 \}/g)).toHaveLength(2)
  expect(text.match(/TENANTRY_ROLE: (api|worker)/g)).toEqual(['TENANTRY_ROLE: api', 'TENANTRY_ROLE: worker'])
  const [, context = '', dockerfile = ''] = /context: (\S+)\s+dockerfile: (\S+)/.exec(text) ?? []
  expect(existsSync(join(EXAMPLES, context, dockerfile))).toBe(true)
})

test('the unit is one for systemd, where there is one to ask', async () => {
  const verify = programPath('systemd-analyze')
  const text = await read('tenantry@.service')
  expect(text).toMatch(/^ExecStart=\/usr\/bin\/node node_modules\/tenantry\//m)
  if (!verify) return
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-unit-'))
  try {
    // Node and its user need not be where the unit will run.
    const here = text.replace('/usr/bin/node', process.execPath).replace(/^(User|Group)=.*$/gm, '')
    await writeFile(join(directory, 'tenantry@.service'), here)
    const { stdout, stderr } = await promisify(execFile)(verify, ['verify', join(directory, 'tenantry@api.service')])
    expect(`${stdout}${stderr}`.split('\n').filter((line) => line.includes('tenantry@'))).toEqual([])
  } finally {
    await rm(directory, { recursive: true })
  }
})
