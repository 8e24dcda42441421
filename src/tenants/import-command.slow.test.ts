/** `tenantry tenant:import` as a process: ended before it is done, and at a terminal. */
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { createProgramDatabase } from '../cli/in-process.fixture.ts'
import { PROGRAM, type Program, programWith } from '../cli/program.fixture.ts'
import { Database } from '../kernel/database.ts'
import { createLogger } from '../kernel/logger.ts'
import type { TestDatabase } from '../testing/database.ts'
import { WAITING_LOCKS } from '../testing/database.ts'
import { dropWithRoles } from '../testing/roles.ts'
import { eventually, TEST_APP_KEY } from '../testing/tenancy.ts'

vi.setConfig({ testTimeout: 120_000 })

const LOCK = 77_001

let directory: string
let created: TestDatabase
let database: Database
let tenantry: Program

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-import-'))
  created = await createProgramDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url, max: 2 }, createLogger({ level: 'silent' }))
  const config = join(directory, 'tenantry.config.json')
  await writeFile(config, JSON.stringify({ migrations: 'migrations' }))
  await mkdir(join(directory, 'migrations'))
  await writeFile(
    join(directory, 'migrations', '0001_notes.sql'),
    '-- up\ncreate table notes (id int primary key, body text);',
  )
  tenantry = programWith({
    DATABASE_URL: created.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
    TENANTRY_CONFIG: config,
  })
  expect(await tenantry.run('tenant:create', 'Acme', '--id', 'acme')).toMatchObject({ code: 0 })
})
afterAll(async () => {
  await tenantry?.killAll()
  await database?.close()
  if (created) await dropWithRoles(inject('postgresUrl'), created)
  await rm(directory, { recursive: true, force: true })
})
beforeEach(() => database.sql('delete from t1_acme.notes'))

const ids = async () => (await database.sql('select id from t1_acme.notes order by id')).rows.map(({ id }) => id)
const fileWith = async (text: string) => {
  const file = join(directory, 'rows.sql')
  await writeFile(file, text)
  return file
}

const ROWS = `SET row_security = off;\ninsert into notes values (1, 'é'), (2, null);\ninsert into notes values (3, 'a;b');\n`

describe('ended before its end', () => {
  const waiting = async () => {
    const { rows } = await database.sql(`select pid from ${WAITING_LOCKS} where objid = ${LOCK}`)
    return rows.map(({ pid }) => pid)
  }
  const gone = (pid: number) =>
    eventually(async () => {
      const { rows } = await database.sql('select from pg_stat_activity where pid = $1', [pid])
      expect(rows).toEqual([])
    }, 60_000)

  test.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)('by %s in the middle of a statement', async (signal) => {
    const file = await fileWith(`${ROWS}select pg_advisory_xact_lock(${LOCK});\ninsert into notes values (4);\n`)
    await database.session(async (client) => {
      await client.query(`select pg_advisory_lock(${LOCK})`)
      const child = tenantry.start(['tenant:import', 'acme', '--file', file])
      const pid = await eventually(async () => {
        const [pid, ...others] = await waiting()
        expect([pid, others]).toEqual([expect.any(Number), []])
        return pid
      }, 60_000)
      child.process.kill(signal)
      expect((await child.ended).code).toBe(signal === 'SIGKILL' ? signal : 130)
      await client.query(`select pg_advisory_unlock(${LOCK})`)
      await gone(pid)
    })
    expect(await ids()).toEqual([])
  })

  test('while it waits for more of its input', async () => {
    const child = tenantry.start(['tenant:import', 'acme'])
    child.process.stdin.write(`${ROWS}insert into notes values (4);insert into not`)
    const pid = await eventually(async () => {
      const { rows } = await database.sql(
        `select pid from pg_stat_activity
         where datname = current_database() and state = 'idle in transaction' and query like '%(4)%'`,
      )
      expect(rows).toHaveLength(1)
      return rows[0].pid
    }, 60_000)
    child.process.kill('SIGINT')
    expect(await child.ended).toMatchObject({
      code: 130,
      stdout: '',
      stderr: 'everything was rolled back; nothing was imported\ninterrupted\n',
    })
    await gone(pid)
    expect(await ids()).toEqual([])
  })
})

/** The script of util-linux gives a program a terminal; elsewhere it is another program of that name. */
function hasScript(): boolean {
  try {
    return execFileSync('script', ['--version'], { encoding: 'utf8', stdio: 'pipe' }).includes('util-linux')
  } catch {
    return false
  }
}

if (!hasScript()) console.log('not run: progress at a terminal (needs the script of util-linux)')

test.runIf(hasScript())('at a terminal it says how far it is, and does not wait for input there', async () => {
  const atTerminal = (rest: string) =>
    tenantry.start([], {
      env: { TERM: 'xterm' },
      through: [
        'script',
        '--quiet',
        '--return',
        '--command',
        `"${process.execPath}" "${PROGRAM}" ${rest}`,
        '/dev/null',
      ],
    }).ended
  const { code, stdout } = await atTerminal(`tenant:import acme --file ${await fileWith(ROWS)}`)
  expect(stdout).toContain(`100 % of ${Buffer.byteLength(ROWS)} B, 2 statements`)
  expect(code).toBe(0)
  expect(await atTerminal('tenant:import acme')).toMatchObject({ code: 2, stdout: expect.stringContaining('--file') })
})
