/** Starts the deployment examples as processes. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, test, vi } from 'vitest'
import { type Child, programWith } from '../src/cli/program.fixture.ts'
import { createTestDatabase, unreachableUrl } from '../src/testing/base/database.ts'
import { TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { EXAMPLES, environmentOf, read } from './deployment.fixture.ts'
import { freePort } from './support/free-port.ts'

vi.setConfig({ testTimeout: 60_000 })

test('an API process and a worker process of the systemd unit run on one machine', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-unit-'))
  const database = await createTestDatabase(inject('postgresUrl'))
  const tenantry = programWith({})
  // Processes that share a port in the unit share a port here; the port itself must be free.
  const ports = new Map<string | undefined, string>()
  const start = async (instance: string): Promise<[string, Child]> => {
    const environment = await environmentOf(instance)
    if (!ports.has(environment.PORT)) ports.set(environment.PORT, String(await freePort()))
    const config = join(EXAMPLES, 'tenantry.config.json')
    const here = {
      DATABASE_URL: database.url,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
      TENANTRY_CONFIG: config,
      TENANTRY_DATA_DIR: join(directory, 'data'),
    }
    expect(Object.keys(environment)).toEqual(expect.arrayContaining(Object.keys(here)))
    return [
      instance,
      tenantry.start(['serve'], { env: { ...environment, ...here, PORT: ports.get(environment.PORT) }, stdin: '' }),
    ]
  }
  try {
    const started: [string, Child][] = []
    for (const instance of ['api-1', 'worker-1']) started.push(await start(instance))
    const responses = started.map(async ([instance, child]) => {
      const [, url] = await child.says(/(http:\/\/127\.0\.0\.1:\d+)/)
      const status = async (path: string) => (await fetch(`${url}${path}`)).status
      return [instance, await status('/livez'), await status('/admin/multitenancy/tenants')]
    })
    expect(await Promise.all(responses)).toEqual([
      ['api-1', 200, 401],
      ['worker-1', 200, 404],
    ])
  } finally {
    await tenantry.killAll()
    await database.drop()
    await rm(directory, { recursive: true })
  }
})

test('the unit restarts a process without a database, and no process with an invalid configuration', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-unit-'))
  const [, prevented] = /^RestartPreventExitStatus=(\d+)$/m.exec(await read('tenantry@.service')) ?? []
  const tenantry = programWith({
    ...(await environmentOf('api-1')),
    DATABASE_URL: unreachableUrl(inject('postgresUrl')),
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_CONFIG: join(EXAMPLES, 'tenantry.config.json'),
    TENANTRY_DATA_DIR: join(directory, 'data'),
    PORT: '0',
  })
  try {
    const endOf = async (env: NodeJS.ProcessEnv) => (await tenantry.start(['serve'], { env, stdin: '' }).ended).code
    const codes = await Promise.all([endOf({}), endOf({ PORT: 'many' }), endOf({ DATABASE_URL: '' })])
    expect(codes).toEqual([7, Number(prevented), Number(prevented)])
  } finally {
    await tenantry.killAll()
    await rm(directory, { recursive: true })
  }
})
