/** `tenantry tenant:import` as a process: ended before it is done, and at a terminal. */
import { describe, expect, test, vi } from 'vitest'
import { PROGRAM, programWith } from '../../cli/program.fixture.ts'
import { hasScript, throughScript } from '../../cli/terminal-script.fixture.ts'
import { WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { ROWS, useImport } from './import.fixture.ts'

vi.setConfig({ testTimeout: 120_000 })

const imports = useImport(programWith)
const { fileWith, ids, tenantry } = imports

describe('ended before its end', () => {
  const waiting = async () => {
    const { rows } = await imports.database.sql(`select pid from ${WAITING_LOCKS} where locktype = 'transactionid'`)
    return rows.map(({ pid }) => pid)
  }
  const gone = (pid: number) =>
    eventually(async () => {
      const { rows } = await imports.database.sql('select from pg_stat_activity where pid = $1', [pid])
      expect(rows).toEqual([])
    }, 60_000)

  test.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)('by %s in the middle of a statement', async (signal) => {
    const file = await fileWith(`${ROWS}insert into notes values (5);\ninsert into notes values (4);\n`)
    await imports.database.session(async (client) => {
      await client.query('begin; insert into t1_acme.notes values (5)') // the import waits for its end
      const child = tenantry.start(['tenant:import', 'acme', '--file', file])
      const pid = await eventually(async () => {
        const [pid, ...others] = await waiting()
        expect([pid, others]).toEqual([expect.any(Number), []])
        return pid
      }, 60_000)
      child.process.kill(signal)
      expect((await child.ended).code).toBe(signal === 'SIGKILL' ? signal : 130)
      await client.query('rollback')
      await gone(pid)
    })
    expect(await ids()).toEqual([])
  })

  test('while it waits for more of its input', async () => {
    const child = tenantry.start(['tenant:import', 'acme'])
    child.process.stdin.write(`${ROWS}insert into notes values (4);insert into not`)
    const pid = await eventually(async () => {
      const { rows } = await imports.database.sql(
        `select pid from pg_stat_activity
         where datname = current_database() and state = 'idle in transaction' and query like '%app.tenant_id%'`,
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

if (!hasScript()) console.log('not run: progress at a terminal (needs the script of util-linux)')

test.runIf(hasScript())('at a terminal it says how far it is, and does not wait for input there', async () => {
  const atTerminal = (rest: string) =>
    tenantry.start([], {
      env: { TERM: 'xterm' },
      through: throughScript(`"${process.execPath}" "${PROGRAM}" ${rest}`),
    }).ended
  const { code, stdout } = await atTerminal(`tenant:import acme --file ${await fileWith(ROWS)}`)
  expect(stdout).toContain(`100 % of ${Buffer.byteLength(ROWS)} B, 2 statements`)
  expect(code).toBe(0)
  expect(await atTerminal('tenant:import acme')).toMatchObject({ code: 2, stdout: expect.stringContaining('--file') })
})
