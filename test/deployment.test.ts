/** Checks the deployment examples without containers. */
import { existsSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadConfig } from '../src/service/config.ts'
import { satellites } from '../src/service/main.ts'
import { Environment } from '../src/service/settings/environment.ts'
import { TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { EXAMPLES, environmentOf, read } from './deployment.fixture.ts'

const ROOT = join(import.meta.dirname, '..')
const PROCESSES = ['api-1', 'api-2', 'worker-1', 'worker-2']
const files = ['Dockerfile', 'compose.yaml', 'tenantry@.service', 'environment/environment']

test.each(files)('%s sets only variables that the service reads', async (file) => {
  const text = await read(file)
  const named = text.match(/\b(?:TENANTRY|DATABASE|REDIS|NODE|LOG)_[A-Z_]+\b/g) ?? []
  expect(named.length).toBeGreaterThan(0)
  for (const name of new Set(named)) expect(Object.keys(Environment.shape), `${file}: ${name}`).toContain(name)
})

test('the image runs a program of the package', async () => {
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

test('the unit starts the program of the package with Node', async () => {
  expect(await read('tenantry@.service')).toMatch(/^ExecStart=\/usr\/bin\/node node_modules\/tenantry\//m)
})

test('the compose file has two processes of each role, and names the Dockerfile', async () => {
  const text = await read('compose.yaml')
  expect(text.match(/deploy: \{ replicas: 2 \}/g)).toHaveLength(2)
  expect(text.match(/TENANTRY_ROLE: (api|worker)/g)).toEqual(['TENANTRY_ROLE: api', 'TENANTRY_ROLE: worker'])
  const [, context = '', dockerfile = ''] = /context: (\S+)\s+dockerfile: (\S+)/.exec(text) ?? []
  expect(existsSync(join(EXAMPLES, context, dockerfile))).toBe(true)
})

test('the compose file mounts a valid configuration where the service reads it', async () => {
  const text = await read('compose.yaml')
  const [, here = '', inside] = /- (\.\/\S+):(\S+):ro/.exec(text) ?? []
  expect(/TENANTRY_CONFIG: (\S+)/.exec(text)?.[1]).toBe(inside)
  const env = { TENANTRY_APP_KEY: TEST_APP_KEY, NODE_ENV: 'production', DATABASE_URL: 'postgres://postgres/tenantry' }
  const token = { TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests', STRIPE_API_KEY: '' }
  const { health } = await loadConfig({ env: { ...env, ...token }, file: join(EXAMPLES, here), satellites })
  expect(health.critical).toEqual(['backoffice'])
})

test('the Kubernetes lines of the guide probe paths of the service, and leave time for preStop and the stop', async () => {
  const guide = await readFile(join(ROOT, 'docs/deployment.md'), 'utf8')
  const [, lines = ''] = /```yaml\n(terminationGracePeriodSeconds[\s\S]*?)```/.exec(guide) ?? []
  const paths = [...lines.matchAll(/(\w+)Probe: \{ httpGet: \{ path: (\S+),/g)].map(([, kind, path]) => [kind, path])
  expect(paths).toEqual([
    ['startup', '/livez'],
    ['liveness', '/livez'],
    ['readiness', '/readyz'],
  ])
  const seconds = (name: RegExp) => Number(name.exec(lines)?.[1])
  expect(seconds(/terminationGracePeriodSeconds: (\d+)/)).toBeGreaterThan(seconds(/sleep, "(\d+)"/) + 11)
})

test('the unit and the compose file leave 20 s for the drain and the stop', async () => {
  expect(await read('tenantry@.service')).toMatch(/^TimeoutStopSec=20$/m)
  expect(await read('compose.yaml')).toMatch(/^ {2}stop_grace_period: 20s$/m)
})

test('the environment folder has exactly one file for each process', async () => {
  const named = ['environment', ...PROCESSES.map((instance) => `${instance}.environment`)]
  expect(readdirSync(join(EXAMPLES, 'environment')).toSorted()).toEqual(named.toSorted())
  const environments = await Promise.all(PROCESSES.map(environmentOf))
  expect(environments.map(({ TENANTRY_ROLE }) => TENANTRY_ROLE)).toEqual(['api', 'api', 'worker', 'worker'])
  expect(new Set(environments.map(({ PORT }) => PORT ?? 'none')).size).toBe(PROCESSES.length)
  const guide = await readFile(join(ROOT, 'docs/deployment.md'), 'utf8')
  const [, started = ''] = guide.match(/^systemctl enable --now (.*)$/m) ?? []
  expect(started.split(' ')).toEqual(PROCESSES.map((instance) => `tenantry@${instance}`))
})
