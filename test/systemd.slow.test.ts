/** Checks the unit of the deployment examples with systemd. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { read } from './deployment.fixture.ts'
import { programPath } from './setup/not-run.ts'

test('systemd-analyze reports nothing about the unit', async () => {
  const text = await read('tenantry@.service')
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-unit-'))
  try {
    // Node and the user of the unit may be missing on this machine.
    const here = text.replace('/usr/bin/node', process.execPath).replace(/^(User|Group)=.*$/gm, '')
    await writeFile(join(directory, 'tenantry@.service'), here)
    const program = programPath('systemd-analyze') ?? ''
    const { stdout, stderr } = await promisify(execFile)(program, ['verify', join(directory, 'tenantry@api-1.service')])
    expect(`${stdout}${stderr}`.split('\n').filter((line) => line.includes('tenantry@'))).toEqual([])
  } finally {
    await rm(directory, { recursive: true })
  }
})
