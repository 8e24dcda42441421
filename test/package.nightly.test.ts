/** Checks the published package: the build runs without its sources, and its entries match package.json. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { beforeAll, describe, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..')
const PACKAGE = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const node = (...args: string[]) => execFileSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' })

const satellites = readdirSync(join(ROOT, 'src/satellites'))

/** Condition under which only the project's own programs read the sources. */
const OWN_CONDITION = /tenantry-source/

describe('the published package', () => {
  beforeAll(() => node('build.ts'), 120_000)

  test('the package passes publint', async () => {
    const { messages } = await publint({ pkgDir: ROOT, strict: true })
    const texts = messages.map((message) => formatMessage(message, PACKAGE) ?? message.code)
    expect(texts.filter((text) => !OWN_CONDITION.test(text))).toEqual([])
  })

  test('the program of the package runs', () => {
    expect(node('dist/cli/main.js', '--version').trim()).toBe(PACKAGE.version)
  })

  test.each([
    ['tenantry', 'createTenancy'],
    ...satellites.map((folder) => [`tenantry/satellites/${folder}`, 'default']),
    ['tenantry/express', 'expressHandler'],
    ['tenantry/fastify', 'fastifyHandler'],
    ['tenantry/hono', 'honoHandler'],
    ['tenantry/koa', 'koaHandler'],
    ['tenantry/nestjs', 'TenantryModule'],
    ['tenantry/node', 'nodeHandler'],
    ['tenantry/testing', 'testTenancy'],
    ['tenantry/web', 'guardFetch'],
    ['tenantry/webhooks', 'verifyWebhook'],
  ])('%s exports %s', (entry, name) => {
    expect(node('--input-type=module', '-e', `console.log(typeof (await import('${entry}')).${name})`).trim()).toBe(
      'function',
    )
  })
})
