/** Tests what bounds the memory of an idle service: the packages that a start loads, and the heap that it releases. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { programWith } from './program.fixture.ts'
import { useProgram } from './program-database.fixture.ts'
import type { StartRecord } from './start-record.fixture.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const RECORDER = import.meta.resolve('./start-record.fixture.ts')
/** Packages of features that a start without settings does not use. */
const UNUSED = ['@aws-sdk/client-s3', '@bomb.sh/tab', '@clack/prompts', 'ioredis', 'stripe', 'undici']

const tenantry = useProgram(programWith)

async function recorded(argv: readonly string[], isOver: RegExp): Promise<StartRecord> {
  const file = join(tenantry.directory, 'start-record.json')
  const env = { NODE_OPTIONS: `--import ${RECORDER}`, START_RECORD: file, PORT: '0' }
  const child = tenantry.start(argv, { env, stdin: '' })
  await child.says(isOver)
  child.process.kill('SIGTERM')
  expect(await child.ended).toMatchObject({ code: 0 })
  return JSON.parse(await readFile(file, 'utf8'))
}

describe('the start of a service', () => {
  let start: StartRecord

  beforeAll(async () => {
    start = await recorded(['serve'], /Stop with Ctrl-C\./)
  })

  test('loads no package of unused features', () => {
    expect(start.packages).toEqual(expect.arrayContaining(['hono', 'pg', 'zod']))
    expect(start.packages.filter((name) => UNUSED.includes(name))).toEqual([])
  })

  test('releases a part of the heap', () => {
    expect(start.heap).toBeLessThan(0.8 * start.largestHeap)
  })
})
