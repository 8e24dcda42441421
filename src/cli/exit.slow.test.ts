/** Tests interrupted commands, closed standard output, and confirmation of destructive commands. */
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createLogger } from '../kernel/base/logger.ts'
import { Database } from '../kernel/database/database.ts'
import { eventually } from '../testing/base/tenancy.ts'
import { type Child, PROGRAM, programWith } from './program.fixture.ts'
import { useProgram } from './program-database.fixture.ts'
import { hasScript, throughScript } from './terminal-script.fixture.ts'

vi.setConfig({ testTimeout: 120_000 })

/** Several times the buffer of a pipe. */
const ENTRIES = 5_000
const ASLEEP = 'select pg_sleep(300)'

const tenantry = useProgram(programWith)
let database: Database

beforeAll(async () => {
  database = new Database({ url: tenantry.database.url, max: 1 }, createLogger({ level: 'silent' }))
  expect(await tenantry.run('tenant:create', 'Acme', '--id', 'acme')).toMatchObject({ code: 0 })
  await database.sql(
    `insert into multitenancy.audit_entries (id, action, actor_type, actor_id, actor_name, target, outcome, created_at)
     select gen_random_uuid(), 'test', 'system', 'test', 'test', repeat('x', 100), 'success', now()
     from generate_series(1, ${ENTRIES})`,
  )
})

afterAll(() => database?.close())

async function sleepers(): Promise<number> {
  const { rows } = await database.sql(
    `select count(*) from pg_stat_activity
     where datname = current_database() and state = 'active' and query like '%pg_sleep%' and pid <> pg_backend_pid()`,
  )
  return rows[0].count
}

/** Starts the commands, and resolves when each runs a statement that takes minutes. */
async function asleep(...commands: readonly [string[], NodeJS.ProcessEnv?][]): Promise<Child[]> {
  const children = commands.map(([argv, env = {}]) => tenantry.start(argv, { env }))
  await eventually(async () => expect(await sleepers()).toBe(commands.length), 60_000)
  return children
}

describe('an interrupted command', () => {
  const exec = ['tenant:exec', 'acme', '--sql', ASLEEP]

  test('closes its connections, ends with 130, and leaves no running statement', async () => {
    const migrations = join(tenantry.directory, 'migrations')
    const config = join(tenantry.directory, 'slow.json')
    await mkdir(migrations)
    await writeFile(join(migrations, '0001_slow.sql'), `-- up\n${ASLEEP};\n`)
    await writeFile(config, JSON.stringify({ migrations }))
    const create = ['tenant:create', 'Slow', '--allow-different-settings']
    const children = await asleep([exec], [exec], [exec], [create, { TENANTRY_CONFIG: config }])
    for (const [index, signal] of (['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGINT'] as const).entries()) {
      children[index]?.process.kill(signal)
    }
    const ended = await Promise.all(children.map(({ ended }) => ended))
    for (const { code, stderr } of ended) {
      expect(code).toBe(130)
      expect(stderr).toMatch(/^interrupted$/m)
    }
    // tenant:create prints the status of the new tenant if it reads it within the grace time.
    const outputs = ['', '', '', expect.stringMatching(/^$|^status +provisioning$/m)]
    expect(ended.map(({ stdout }) => stdout)).toEqual(outputs)
    await eventually(async () => expect(await sleepers()).toBe(0), 20_000)
  })

  test('stops reading standard input', async () => {
    const child = tenantry.start(['api', 'POST', '/tenants', '--data', '-'])
    // Larger than the buffer of a pipe: the write ends only after the program has begun to read.
    await new Promise((resolve) => child.process.stdin.write(' '.repeat(1_000_000), resolve))
    child.process.kill('SIGINT')
    expect(await child.ended).toMatchObject({ code: 130, stdout: '' })
  })

  test('ends immediately at a second signal more than a second later', async () => {
    const [child] = await asleep([exec])
    child?.process.kill('SIGINT')
    const first = performance.now()
    await eventually(() => expect(performance.now() - first).toBeGreaterThan(1_100))
    child?.process.kill('SIGINT')
    expect(await child?.ended).toMatchObject({ code: 130, stderr: '' })
  })
})

describe('standard output', () => {
  test('that is closed early ends the command with 0 and without a message', async () => {
    const child = tenantry.start(['tenant:audit:export'])
    await child.says(/"action":"test"/)
    child.process.stdout.destroy()
    expect(await child.ended).toMatchObject({ code: 0, stderr: '' })
  })

  test('that is closed before a large result ends the command with 0 and without a message', async () => {
    const child = tenantry.start([
      'tenant:exec',
      'acme',
      '--sql',
      "select repeat('x', 1000) from generate_series(1, 5000)",
    ])
    child.process.stdout.destroy()
    expect(await child.ended).toMatchObject({ code: 0, stderr: '' })
  })

  test.runIf(existsSync('/dev/full'))('on a full device ends the command with 1', async () => {
    const through = ['sh', '-c', `"${process.execPath}" "${PROGRAM}" openapi > /dev/full`] as const
    const { code, stderr } = await tenantry.start([], { through }).ended
    expect(code).toBe(1)
    expect(stderr).toMatch(/^error: .*ENOSPC/)
  })

  test('with a slow reader receives the whole result', async () => {
    const child = tenantry.start(['tenant:audit:export'])
    const { stdout } = child.process
    stdout.removeAllListeners('data').pause()
    await eventually(() => expect(stdout.readableLength).toBeGreaterThan(0), 30_000)
    let lines = 0
    for await (const _ of createInterface({ input: stdout })) lines++
    expect((await child.ended).code).toBe(0)
    expect(lines).toBeGreaterThan(ENTRIES)
  })
})

test.runIf(existsSync('/proc/self/cmdline'))(
  'a secret from standard input is not in the list of processes',
  async () => {
    const line = ['tenant:sso:set', 'acme', '--issuer', 'https://id.example.com', '--client-id', 'tenantry']
    const child = tenantry.start([...line, '--client-secret', '-'])
    const processes = async () => {
      const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
      return Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
    }
    child.process.stdin.write('a-secret-from-')
    expect((await processes()).filter((text) => text.includes('--client-secret\0-\0'))).not.toEqual([])
    expect((await processes()).filter((text) => text.includes('a-secret-from-'))).toEqual([])
    child.process.stdin.end('a-pipe\n')
    expect(await child.ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/^clientSecretSet +true/m) })
  },
)

if (!hasScript()) console.log('not run: questions at a terminal (needs the script of util-linux)')

describe.runIf(hasScript())('a command at a terminal', () => {
  const atTerminal = (command: string, env: NodeJS.ProcessEnv = {}): Child =>
    tenantry.start([], {
      env: { TERM: 'xterm', ...env },
      through: throughScript(`stty cols 120 rows 40; "${process.execPath}" "${PROGRAM}" ${command}`),
    })

  test('asks for confirmation, and deletes the tenant only after yes', async () => {
    const declined = atTerminal('tenant:delete acme')
    await declined.says(/Delete Acme \(acme\)\?/)
    declined.process.stdin.write('n')
    expect(await declined.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('nothing was changed') })

    const confirmed = atTerminal('tenant:delete acme')
    await confirmed.says(/Delete Acme \(acme\)\?/)
    confirmed.process.stdin.write('y')
    expect(await confirmed.ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/status.*deleted/) })
    expect((await tenantry.run('tenant:restore', 'acme')).code).toBe(0)
  })

  test('ends with 130 after Ctrl-C at the confirmation, and changes nothing', async () => {
    const child = atTerminal('tenant:delete acme')
    await child.says(/Delete Acme \(acme\)\?/)
    child.process.stdin.write('\u0003')
    expect((await child.ended).code).toBe(130)
    expect((await tenantry.run('tenant:show', 'acme')).stdout).toMatch(/^status +active$/m)
  })

  test('asks for a secret without echo if its option is -', async () => {
    const child = atTerminal(
      'tenant:sso:set acme --issuer https://id.example.com --client-id tenantry --client-secret -',
    )
    await child.says(/--client-secret/)
    child.process.stdin.write('a-secret-at-the-terminal\r')
    const { code, stdout } = await child.ended
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/clientSecretSet.* true/) })
    expect(stdout).not.toContain('a-secret-at-the-terminal')
  })

  test('prints colors unless NO_COLOR is set', async () => {
    const [colored, plain] = await Promise.all([
      atTerminal('tenant:list').ended,
      atTerminal('tenant:list', { NO_COLOR: '1' }).ended,
    ])
    expect(colored.stdout).toContain('\u001b[2mid')
    expect(plain.stdout).toMatch(/^id +name/)
    expect(plain.stdout).not.toContain('\u001b')
  })
})
