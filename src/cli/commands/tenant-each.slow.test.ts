/** Tests `tenant:each` as a process that starts commands. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test, vi } from 'vitest'
import { onServer } from '../../testing/base/database.ts'
import { eventually } from '../../testing/index.ts'
import { programWith } from '../program.fixture.ts'
import { useProgram } from '../program-database.fixture.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const IDS = ['t1', 't2', 't3', 't4']
const tenantry = useProgram(programWith)
const NODE = process.execPath

beforeAll(async () => {
  for (const id of [...IDS, 'asleep']) {
    expect(await tenantry.run('tenant:create', id, '--id', id)).toMatchObject({ code: 0 })
  }
  expect((await tenantry.run('tenant:suspend', 'asleep')).code).toBe(0)
})

const runIn = (stderr: string): string => /^run (\S+):/m.exec(stderr)?.[1] ?? expect.fail(stderr)
const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

test('runs the command for each tenant of the status, with prefixed lines and unchanged arguments', async () => {
  const script = `console.log('a ' + process.env.TENANTRY_TENANT_ID + '\\n' + JSON.stringify(process.argv.slice(1))); console.error('e')`
  const { code, stdout, stderr } = await tenantry.run(
    'tenant:each',
    '--',
    NODE,
    '-e',
    script,
    '--',
    'two words',
    '--json',
    '',
  )
  expect(code).toBe(0)
  const lines = IDS.flatMap((id) => [`${id} | a ${id}`, `${id} | ["two words","--json",""]`])
  expect(stdout.trimEnd().split('\n').toSorted()).toEqual(lines.toSorted())
  for (const id of IDS) expect(stderr).toContain(`${id} | e\n`)
  expect(stderr).toContain('4 of 4 done, 0 failed')
  const suspended = await tenantry.run(
    'tenant:each',
    '--status',
    'suspended',
    '--json',
    '--',
    'printenv',
    'TENANTRY_TENANT_ID',
  )
  expect(suspended).toMatchObject({ code: 0, stdout: '{"tenantId":"asleep","line":"asleep"}\n' })
})

test('exits with 6 if the command fails for a tenant, and runs it again for failed tenants only', async () => {
  const script = 'test "$TENANTRY_TENANT_ID" != t2 || exit 3'
  const first = await tenantry.run('tenant:each', '--concurrency', '1', '--', 'sh', '-c', script)
  expect(first.code).toBe(6)
  expect(first.stderr).toContain('3 of 4 done, 1 failed')
  expect(first.stderr).toContain('The command failed for 1 of 4 tenants: t2 (exit code 3)')
  const again = await tenantry.run('tenant:each', '--resume', runIn(first.stderr), '--', 'sh', '-c', 'echo fixed')
  expect(again).toMatchObject({ code: 0, stdout: 't2 | fixed\n' })
  expect(again.stderr).toMatch(/^run \S+: 1 tenant$/m)
  expect(again.stderr).toContain('4 of 4 done, 0 failed')
})

test('Ctrl-C ends the commands with their children, and a resumed run continues with their tenants', async () => {
  const pids = join(tenantry.directory, 'pids')
  await writeFile(pids, '')
  const script = `if test "$TENANTRY_TENANT_ID" = t1; then exit 0; fi; sleep 300 & echo $! >> ${pids}; echo started; wait`
  const child = tenantry.start(['tenant:each', '--concurrency', '3', '--', 'sh', '-c', script])
  const started = await eventually(async () => {
    const all = (await readFile(pids, 'utf8')).trim().split('\n').map(Number)
    expect(all).toHaveLength(3)
    return all
  }, 60_000)
  child.process.kill('SIGINT')
  const { code, stderr } = await child.ended
  expect(code).toBe(130)
  expect(stderr).toContain(`continue with: tenantry tenant:each --resume ${runIn(stderr)}`)
  await eventually(() => expect(started.filter(isRunning)).toEqual([]))
  const again = await tenantry.run('tenant:each', '--resume', runIn(stderr), '--', 'sh', '-c', 'echo again')
  expect(again.code).toBe(0)
  expect(again.stdout.trimEnd().split('\n').toSorted()).toEqual(['t2 | again', 't3 | again', 't4 | again'])
})

test('Ctrl-C kills a command that ignores SIGTERM, also while nothing reads the output', async () => {
  const pids = join(tenantry.directory, 'stubborn')
  for (const loop of ['while :; do sleep 1; done', 'while :; do echo line; done']) {
    await writeFile(pids, '')
    const script = `trap '' TERM; echo $$ >> ${pids}; ${loop}`
    const child = tenantry.start(['tenant:each', '--concurrency', '1', '--', 'sh', '-c', script])
    child.process.stdout.pause()
    const pid = await eventually(async () => {
      const [line = ''] = (await readFile(pids, 'utf8')).split('\n')
      expect(line).not.toBe('')
      return Number(line)
    }, 60_000)
    await eventually(() => expect(child.process.stdout.readableLength > 0 || loop.includes('sleep')).toBe(true))
    child.process.kill('SIGINT')
    await child.says(/^continue with: .*/m)
    expect(isRunning(pid)).toBe(false)
    child.process.stdout.resume()
    expect((await child.ended).code).toBe(130)
  }
})

test('exits with E_RUN_IN_PROGRESS after another process has taken over the run', async () => {
  const go = join(tenantry.directory, 'go')
  const script = `echo started; while ! test -e ${go}; do sleep 0.1; done`
  const child = tenantry.start(['tenant:each', '--concurrency', '1', '--', 'sh', '-c', script])
  await child.says(/t1 \| started/)
  const run = runIn((await child.says(/^run .*/m))[0])
  await onServer(tenantry.database.url, (database) =>
    database.sql('update multitenancy.command_runs set process_id = gen_random_uuid() where id = $1', [run]),
  )
  await writeFile(go, '')
  const { code, stderr } = await child.ended
  expect(code).toBe(5)
  expect(stderr).toContain(`Another process has taken over run "${run}": 4 tenants are not done.`)
})

test('a run of a killed process cannot be resumed before its end, and can after it', async () => {
  const child = tenantry.start(['tenant:each', '--concurrency', '1', '--', 'sh', '-c', 'echo pid $$; exec sleep 300'])
  const [, pid] = await child.says(/pid (\d+)/)
  const run = runIn((await child.says(/^run .*/m))[0])
  expect(await tenantry.run('tenant:each', '--resume', run, '--', 'true')).toMatchObject({
    code: 5,
    stderr: expect.stringContaining('E_RUN_IN_PROGRESS'),
  })
  child.process.kill('SIGKILL')
  process.kill(Number(pid), 'SIGKILL') // a killed process cannot end its commands
  await child.ended
  const again = await eventually(async () => {
    const ended = await tenantry.run('tenant:each', '--resume', run, '--', 'sh', '-c', 'echo again')
    expect(ended.code).toBe(0)
    return ended
  }, 60_000)
  expect(again.stdout).toMatch(/^t1 \| again$/m) // it was running
})

test('rejects a missing command, an unknown status, an unknown run and a program that does not exist', async () => {
  const refused = async (code: number, text: string, ...argv: string[]) =>
    expect(await tenantry.run('tenant:each', ...argv)).toMatchObject({ code, stderr: expect.stringContaining(text) })
  await refused(2, "missing required argument 'command'")
  await refused(2, 'must be one of provisioning, active', '--status', 'asleep', '--', 'true')
  await refused(2, 'cannot be given with --resume', '--status', 'active', '--resume', 'last', '--', 'true')
  await refused(3, 'Run "last" not found', '--resume', 'last', '--', 'true')
  await refused(2, '"no-such-program" cannot be started', '--', 'no-such-program')
})
