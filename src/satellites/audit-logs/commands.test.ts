/** The command of this satellite in the program: enabled and disabled. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inProcess } from '../../cli/in-process.fixture.ts'
import { useProgram } from '../../cli/program-database.fixture.ts'

const tenantry = useProgram(inProcess)

test('exports entries with the actor of the terminal', async () => {
  await tenantry.run('tenant:create', 'Acme', '--id', 'acme')
  const { code, stdout } = await tenantry.run('tenant:audit:export', 'acme', '--format', 'ndjson')
  expect(code).toBe(0)
  const entries = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(entries).toMatchObject([{ action: 'tenants.install' }, { action: 'tenants.create', actor: { type: 'cli' } }])
})

test('tenant:audit:verify reports the number of entries without a seal', async () => {
  expect(await tenantry.run('tenant:create', 'Globex', '--id', 'globex')).toMatchObject({ code: 0 })
  const { stdout } = await tenantry.run('tenant:audit:verify', 'globex', '--json')
  expect(JSON.parse(stdout)).toMatchObject({ ok: true, checked: 0, unsealed: 2 })
  const { stderr } = await tenantry.run('tenant:audit:verify', 'globex')
  expect(stderr).toBe('none\n2 entries have no seals yet.\n0 entries match their seals.\n')
})

test('reports a disabled satellite', async () => {
  const config = join(tenantry.directory, 'without-audit.json')
  await writeFile(config, JSON.stringify({ satellites: { auditLogs: false } }))
  const { code, stderr } = await tenantry.run('tenant:audit:export', '--config', config)
  expect(code).toBe(3)
  expect(stderr).toContain('Satellite "auditLogs" is disabled.')
})
