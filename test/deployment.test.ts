/** The examples of a deployment, as far as they can be checked without containers. */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv, promisify } from 'node:util'
import { expect, inject, test, vi } from 'vitest'
import { type Child, programWith } from '../src/cli/program.fixture.ts'
import { loadConfig } from '../src/service/config.ts'
import { satellites } from '../src/service/main.ts'
import { Environment } from '../src/service/settings.ts'
import { createTestDatabase } from '../src/testing/database.ts'
import { freePort } from '../src/testing/free-port.ts'
import { TEST_APP_KEY } from '../src/testing/tenancy.ts'
import { programPath } from './setup/not-run.ts'

vi.setConfig({ testTimeout: 60_000 })

const EXAMPLES = join(import.meta.dirname, '../examples/deployment')
const ROOT = join(import.meta.dirname, '..')
const read = (file: string) => readFile(join(EXAMPLES, file), 'utf8')
const PROCESSES = ['api-1', 'api-2', 'worker-1', 'worker-2']
const files = ['Dockerfile', 'compose.yaml', 'tenantry@.service', 'environment/environment']

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
  const { devDependencies, peerDependenciesMeta } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const beside = [...text.matchAll(/ ((?:@[a-z-]+\/)?[a-z0-9-]+)@(\d+\.\d+\.\d+)/g)].map(([, name = '', version]) => ({
    name,
    version,
  }))
  expect(beside.map(({ name }) => name)).toEqual(['ioredis', '@aws-sdk/client-s3', 'stripe'])
  for (const { name, version } of beside) {
    expect(version, name).toBe(devDependencies[name])
    expect(peerDependenciesMeta[name], name).toEqual({ optional: true })
  }
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

test('the compose file mounts a configuration that can be loaded, where the service is told to look', async () => {
  const text = await read('compose.yaml')
  const [, here = '', inside] = /- (\.\/\S+):(\S+):ro/.exec(text) ?? []
  expect(/TENANTRY_CONFIG: (\S+)/.exec(text)?.[1]).toBe(inside)
  const env = { TENANTRY_APP_KEY: TEST_APP_KEY, NODE_ENV: 'production', DATABASE_URL: 'postgres://postgres/tenantry' }
  const token = { TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests', STRIPE_API_KEY: '' }
  const { health } = await loadConfig({ env: { ...env, ...token }, file: join(EXAMPLES, here), satellites })
  expect(health.critical).toEqual(['backoffice'])
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
    const { stdout, stderr } = await promisify(execFile)(verify, ['verify', join(directory, 'tenantry@api-1.service')])
    expect(`${stdout}${stderr}`.split('\n').filter((line) => line.includes('tenantry@'))).toEqual([])
  } finally {
    await rm(directory, { recursive: true })
  }
})

/** What systemd would set for one process of the unit, one after the other as the unit names them. */
async function environmentOf(instance: string): Promise<NodeJS.Dict<string>> {
  const unit = await read('tenantry@.service')
  const own = [...unit.matchAll(/^Environment=(.*)$/gm)].map(([, pairs = '']) => pairs.replaceAll(' ', '\n')).join('\n')
  const named = [...unit.matchAll(/^EnvironmentFile=\/etc\/tenantry\/(.*)$/gm)].map(([, file = '']) => file)
  const texts = [
    own,
    ...(await Promise.all(named.map((file) => read(`environment/${file.replaceAll('%i', instance)}`)))),
  ]
  return Object.assign({}, ...texts.map((text) => parseEnv(text.replaceAll('%i', instance))))
}

test('the environment has a file for each process, and no other', async () => {
  const named = ['environment', ...PROCESSES.map((instance) => `${instance}.environment`)]
  expect(readdirSync(join(EXAMPLES, 'environment')).toSorted()).toEqual(named.toSorted())
  const environments = await Promise.all(PROCESSES.map(environmentOf))
  expect(environments.map(({ TENANTRY_ROLE }) => TENANTRY_ROLE)).toEqual(['api', 'api', 'worker', 'worker'])
  expect(new Set(environments.map(({ PORT }) => PORT ?? 'none')).size).toBe(PROCESSES.length)
  const guide = await readFile(join(ROOT, 'docs/running.md'), 'utf8')
  const [, started = ''] = guide.match(/^systemctl enable --now (.*)$/m) ?? []
  expect(started.split(' ')).toEqual(PROCESSES.map((instance) => `tenantry@${instance}`))
})

test('one that serves and one that works run side by side on one machine, from the files of the unit', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-unit-'))
  const database = await createTestDatabase(inject('postgresUrl'))
  const tenantry = programWith({})
  // Whoever is meant to have one port has one here, too; which it is must be free.
  const ports = new Map<string | undefined, string>()
  const start = async (instance: string): Promise<[string, Child]> => {
    const said = await environmentOf(instance)
    if (!ports.has(said.PORT)) ports.set(said.PORT, String(await freePort()))
    const config = join(EXAMPLES, 'tenantry.config.json')
    const here = {
      DATABASE_URL: database.url,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
      TENANTRY_CONFIG: config,
      TENANTRY_DATA_DIR: join(directory, 'data'),
    }
    expect(Object.keys(said)).toEqual(expect.arrayContaining(Object.keys(here)))
    return [instance, tenantry.start(['serve'], { env: { ...said, ...here, PORT: ports.get(said.PORT) }, stdin: '' })]
  }
  try {
    const started: [string, Child][] = []
    for (const instance of ['api-1', 'worker-1']) started.push(await start(instance))
    const answers = started.map(async ([instance, child]) => {
      const [, url] = await child.says(/(http:\/\/127\.0\.0\.1:\d+)/)
      const status = async (path: string) => (await fetch(`${url}${path}`)).status
      return [instance, await status('/livez'), await status('/admin/multitenancy/tenants')]
    })
    expect(await Promise.all(answers)).toEqual([
      ['api-1', 200, 401],
      ['worker-1', 200, 404],
    ])
  } finally {
    await tenantry.killAll()
    await database.drop()
    await rm(directory, { recursive: true })
  }
})
